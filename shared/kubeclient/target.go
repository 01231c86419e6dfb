package kubeclient

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/client-go/transport"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// target is an API server and how to reach it, checked as far as that goes without it.
type target struct {
	from   string // in words, where this was found
	server *url.URL
	// proxy is a function, so that credentials in a proxy's address are in no field.
	proxy       func(*http.Request) (*url.URL, error)
	tls         tlsSources
	token       tokenSource
	impersonate transport.ImpersonationConfig
}

// tokenSource is where the bearer token comes from: a file that is followed, or else the kubeconfig itself, or nowhere.
type tokenSource struct {
	path   string
	inline secret.Value
}

func (s tokenSource) set() bool { return s.path != "" || !s.inline.IsZero() }

// source is a file, or what stands in the kubeconfig in its place.
type source struct {
	name string // as a kubeconfig calls the file
	path string
	data secret.Value
}

func (s source) set() bool { return s.path != "" || !s.data.IsZero() }

func (s source) file() pemfile.File { return pemfile.File{Key: s.name, Path: s.path} }

// String names the source, for errors.
func (s source) String() string {
	if s.path == "" || !s.data.IsZero() {
		return s.name + "-data"
	}
	return s.file().String()
}

func (s source) read() ([]byte, error) {
	if s.path == "" || !s.data.IsZero() {
		return s.data.Expose(), nil // the caller parses it
	}
	return s.file().Read(pemfile.Max)
}

// parseServer takes the address of an API server. A path is allowed, as API servers behind a proxy have one. The error
// does not repeat the text, which may hold a password.
func parseServer(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil:
		return nil, errors.New("the server must be https://host:port, without credentials in it")
	case !validPort(u.Port()) || strings.HasSuffix(u.Host, ":"):
		return nil, errors.New("the server has a port that is not from 1 to 65535")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("the server must end before the ? or #: an API server's address has no query")
	}
	return u, nil
}

// validPort also takes no port.
func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}
