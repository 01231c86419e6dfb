package crd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/rs/zerolog"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	typed "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

const (
	claimInterval = time.Second
	// aliveTimeout is long because taking over changes the definition, which ends every watch of Sandboxes: better a late
	// takeover than one from a neighbour that was only busy.
	aliveTimeout = 5 * time.Second
	stopTimeout  = 5 * time.Second
)

// Converter serves the conversion webhook of variant [Both] on a loopback port and keeps the definition pointing at a
// converter that is alive: itself, or another process's.
type Converter struct {
	definitions typed.CustomResourceDefinitionInterface
	sandboxes   dynamic.Interface
	log         zerolog.Logger
	certificate tls.Certificate
	caBundle    []byte
	ready       chan struct{}
	readyOnce   sync.Once
}

// NewConverter makes a converter with a certificate of its own for 127.0.0.1; it contacts nothing.
func NewConverter(config *rest.Config, log zerolog.Logger) (*Converter, error) {
	definitions, err := client(config)
	if err != nil {
		return nil, err
	}
	sandboxes, err := dynamic.NewForConfig(unlimited(config))
	if err != nil {
		return nil, fmt.Errorf("make a dynamic client: %w", err)
	}
	certificate, caBundle, err := selfSigned()
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the conversion webhook: %w", err)
	}
	return &Converter{
		definitions: definitions,
		sandboxes:   sandboxes,
		log:         log,
		certificate: certificate,
		caBundle:    caBundle,
		ready:       make(chan struct{}),
	}, nil
}

// Ready is closed once the API server has converted an object, by this converter or another one.
func (c *Converter) Ready() <-chan struct{} { return c.ready }

// Run serves until ctx ends, which is no error. The definition must be variant [Both]; Run reports it when it is not.
func (c *Converter) Run(ctx context.Context) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for conversion requests on 127.0.0.1: %w", err)
	}
	server := &http.Server{
		Handler:           c.routes(),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{c.certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      time.Minute,
	}
	served := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { served <- server.ServeTLS(listener, "", "") })
	defer serving.Wait()

	err = c.keepClaimed(ctx, fmt.Sprintf("https://%s/convert", listener.Addr()), served)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if server.Shutdown(stop) != nil {
		_ = server.Close() // a request is stuck; its connection ends here
	}
	return err
}

func (c *Converter) keepClaimed(ctx context.Context, own string, served <-chan error) error {
	ticker := time.NewTicker(claimInterval)
	defer ticker.Stop()
	for {
		err := c.claim(ctx, own)
		if _, refused := errors.AsType[refusal](err); refused {
			return err
		}
		if err == nil {
			err = c.probe(ctx)
		}
		switch {
		case err == nil:
			c.readyOnce.Do(func() { close(c.ready) })
		case ctx.Err() == nil:
			c.log.Debug().Err(err).Msg("conversion is not available yet")
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return fmt.Errorf("serve conversion requests: %w", err)
		case <-ticker.C:
		}
	}
}

// claim registers own in the definition unless a converter that answers is registered there.
func (c *Converter) claim(ctx context.Context, own string) error {
	d, err := c.definitions.Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the CRD %s: %w", Name, err)
	}
	if v := variantOf(d); v != Both {
		return refusal{fmt.Errorf("convert Sandboxes: the cluster has CRD variant %q; install %q first", v, Both)}
	}
	registered := d.Spec.Conversion.Webhook.ClientConfig
	if *registered.URL == own || alive(ctx, registered) {
		return nil
	}
	d.Spec.Conversion = webhook(own, c.caBundle)
	if _, err := c.definitions.Update(ctx, d, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("register the conversion webhook in the CRD %s: %w", Name, err)
	}
	return nil
}

// alive asks a registered converter whether it still serves.
func alive(ctx context.Context, registered *apiextensions.WebhookClientConfig) bool {
	ctx, cancel := context.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(registered.CABundle)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()

	u, err := url.Parse(*registered.URL)
	if err != nil {
		return false
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("..", "livez").String(), nil)
	if err != nil {
		return false
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // nothing was read from it
	return response.StatusCode == http.StatusOK
}

// probe makes the API server convert something: it asks what a v1alpha1 Sandbox would become, without storing it.
func (c *Converter) probe(ctx context.Context) error {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.V1alpha1.APIVersion(),
		"kind":       api.Kind,
		"metadata":   map[string]any{"generateName": "conversion-probe-"},
		"spec": map[string]any{"replicas": int64(0), "podTemplate": map[string]any{
			"spec": map[string]any{"containers": []any{map[string]any{"name": "none"}}},
		}},
	}}
	_, err := c.sandboxes.Resource(api.V1alpha1.Resource()).Namespace(metav1.NamespaceDefault).
		Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("try a conversion: %w", err)
	}
	return nil
}
