package crd

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxReview bounds one conversion request. The API server sends a page of a LIST in one request.
const maxReview = 64 << 20

// routes serves conversion and the question whether it is served.
func (c *Converter) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("POST /convert", func(w http.ResponseWriter, r *http.Request) {
		var review apiextensions.ConversionReview
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReview)).Decode(&review); err != nil {
			http.Error(w, "read the ConversionReview: "+err.Error(), http.StatusBadRequest)
			return
		}
		if review.Request == nil {
			http.Error(w, "read the ConversionReview: it has no request", http.StatusBadRequest)
			return
		}
		review.Response = answer(review.Request)
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			c.log.Debug().Err(err).Msg("write a ConversionReview")
		}
	})
	return mux
}

// answer converts all objects of a request or none.
func answer(request *apiextensions.ConversionRequest) *apiextensions.ConversionResponse {
	response := &apiextensions.ConversionResponse{UID: request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range request.Objects {
		converted, err := convertRaw(raw.Raw, request.DesiredAPIVersion)
		if err != nil {
			response.ConvertedObjects = nil
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			return response
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Raw: converted})
	}
	return response
}

func convertRaw(raw []byte, desired string) ([]byte, error) {
	var in unstructured.Unstructured
	if err := in.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("read the object to convert: %w", err)
	}
	for _, to := range Both.Versions() {
		if to.APIVersion() == desired {
			out, err := convert(&in, to)
			if err != nil {
				return nil, err
			}
			return out.MarshalJSON()
		}
	}
	return nil, fmt.Errorf("convert a Sandbox to %q: no such version", desired)
}

// selfSigned makes a certificate for 127.0.0.1 that is its own authority.
func selfSigned() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "sandbox conversion webhook"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(7 * 24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	var caBundle bytes.Buffer
	if err := pem.Encode(&caBundle, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, caBundle.Bytes(), nil
}
