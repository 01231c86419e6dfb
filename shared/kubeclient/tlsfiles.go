package kubeclient

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/client-go/rest"
)

// maxFile bounds a certificate, key or token file, bytes.
const maxFile = 1 << 20

// tlsBytes is the content of everything that the TLS side needs, at one reading.
type tlsBytes struct {
	ca, cert, key []byte
}

// readTLS takes the content from the configuration or from the files it names.
func readTLS(c rest.TLSClientConfig) (tlsBytes, error) {
	var b tlsBytes
	var problems [3]error
	b.ca, problems[0] = dataOrFile("certificate-authority", c.CAData, c.CAFile)
	b.cert, problems[1] = dataOrFile("client-certificate", c.CertData, c.CertFile)
	b.key, problems[2] = dataOrFile("client-key", c.KeyData, c.KeyFile)
	return b, errors.Join(problems[:]...)
}

// sum tells two readings apart.
func (b tlsBytes) sum() [sha256.Size]byte {
	h := sha256.New()
	for _, part := range [][]byte{b.ca, b.cert, b.key} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part)))
		_, _ = h.Write(part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// config parses the content. TLS 1.2 is the least, as in client-go: load balancers in front of API servers may have no
// more.
func (b tlsBytes) config(c rest.TLSClientConfig) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if len(b.ca) > 0 {
		pool, err := parsePool(b.ca)
		if err != nil {
			return nil, fmt.Errorf("certificate-authority%s: %w", named(c.CAFile, c.CAData), err)
		}
		cfg.RootCAs = pool
	}
	if len(b.cert) > 0 || len(b.key) > 0 {
		pair, err := tls.X509KeyPair(b.cert, b.key)
		if err != nil {
			return nil, fmt.Errorf("client-certificate%s with client-key%s: %w", named(c.CertFile, c.CertData), named(c.KeyFile, c.KeyData), err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// named is the path for an error, "-data" for what stands in the kubeconfig itself.
func named(path string, data []byte) string {
	if len(data) > 0 || path == "" {
		return "-data"
	}
	return " " + path
}

func parsePool(content []byte) (*x509.CertPool, error) {
	pool, found := x509.NewCertPool(), 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d is malformed: %w", found+1, err)
		}
		pool.AddCert(cert)
		found++
	}
	if found == 0 {
		return nil, errors.New("it holds no PEM certificate")
	}
	return pool, nil
}

func dataOrFile(what string, data []byte, path string) ([]byte, error) {
	if len(data) > 0 || path == "" {
		return data, nil
	}
	content, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return content, nil
}

// readFile reads a regular file (or a link to one) that is neither empty nor larger than maxFile.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > maxFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	case len(bytes.TrimSpace(content)) == 0:
		return nil, fmt.Errorf("%s is empty", path)
	}
	return content, nil
}
