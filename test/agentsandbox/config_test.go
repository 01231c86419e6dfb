package agentsandbox

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
)

func TestConfig(t *testing.T) {
	tests := map[string]struct {
		change func(*Config)
		want   string // part of the error, "" for none
	}{
		"valid":      {func(*Config) {}, ""},
		"no owner":   {func(c *Config) { c.Owns = nil }, "Owns"},
		"no dialect": {func(c *Config) { c.Dialect = reconcile.Dialect{} }, "dialect"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Owns: Namespaces("ns"), Dialect: reconcile.Newest()}
			tc.change(&cfg)
			client, err := dynamic.NewForConfig(&rest.Config{Host: "127.0.0.1:1"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = New(cfg, client)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestOwns(t *testing.T) {
	tests := map[string]struct {
		owns func(string) bool
		want map[string]bool
	}{
		"names":        {Namespaces("a", "b"), map[string]bool{"a": true, "b": true, "c": false, "": false}},
		"no names":     {Namespaces(), map[string]bool{"a": false, "": false}},
		"prefix":       {NamespacePrefix("t-1-"), map[string]bool{"t-1-x": true, "t-1-": true, "t-10": false, "": false}},
		"empty prefix": {NamespacePrefix(""), map[string]bool{"a": false, "": false}},
	}
	for name, tc := range tests {
		for namespace, want := range tc.want {
			if got := tc.owns(namespace); got != want {
				t.Errorf("%s: owns %q = %v, want %v", name, namespace, got, want)
			}
		}
	}
}

// logged tells that a line was logged.
type logged chan struct{}

func (l logged) Write(p []byte) (int, error) {
	select {
	case l <- struct{}{}:
	default:
	}
	return len(p), nil
}

// TestRunWithoutCRD: a controller that never came to work says why.
func TestRunWithoutCRD(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	refused := make(logged, 1)
	c, err := New(Config{Owns: Namespaces("ns"), Dialect: reconcile.Newest(), Log: zerolog.New(refused)}, client)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	select {
	case <-refused:
		cancel()
		err = <-done
	case err = <-done:
	case <-time.After(startTimeout):
		t.Fatalf("the refusal was not logged within %v", startTimeout)
	}
	if err == nil || !strings.Contains(err.Error(), "CRD") || !strings.Contains(err.Error(), "could not find the requested resource") {
		t.Errorf("Run = %v, want an error that names the CRD and the API server's answer", err)
	}
}
