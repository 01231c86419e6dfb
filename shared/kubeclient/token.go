package kubeclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// bearerAuth adds the bearer token: the one that is in the file now, or else the one of the kubeconfig. client-go's own
// keeps a token for 50 s, does not look again after a refusal, and holds it where a formatter finds it.
type bearerAuth struct {
	source tokenSource
	next   http.RoundTripper
	every  time.Duration
	now    func() time.Time
	report func(changed bool, err error)

	mu     sync.Mutex
	token  secret.Value
	looked time.Time
}

// open reads for the first time; here a bad file is an error.
func (f *bearerAuth) open() error {
	f.looked = f.now()
	if f.source.path == "" {
		f.token = f.source.inline
		return nil
	}
	var err error
	f.token, err = readToken(f.source.path)
	return err
}

func readToken(path string) (secret.Value, error) {
	file := pemfile.File{Key: "bearer token", Path: path}
	content, err := file.Read(pemfile.Max)
	if err != nil {
		return secret.Value{}, err
	}
	defer clear(content)
	token, err := parseToken(content)
	if err != nil {
		return secret.Value{}, fmt.Errorf("%s %w", file, err)
	}
	return token, nil
}

// parseToken allows white space around the token. What no header can carry would fail every request.
func parseToken(text []byte) (secret.Value, error) {
	token := bytes.TrimSpace(text)
	if len(token) == 0 {
		return secret.Value{}, errors.New("is empty")
	}
	for _, b := range token {
		if b <= ' ' || b > '~' {
			return secret.Value{}, errors.New("holds more than a token: it must be one word of ASCII")
		}
	}
	return secret.New(token), nil
}

// RoundTrip fulfils http.RoundTripper. A request that is refused with 401 is sent once more when the file meanwhile
// holds another token: it was refused before it did anything.
func (f *bearerAuth) RoundTrip(req *http.Request) (*http.Response, error) {
	token := f.current(f.every)
	resp, err := f.next.RoundTrip(withToken(req, token))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	fresh := f.current(0)
	again, ok := replay(req)
	if fresh.Equal(token) || !ok {
		return resp, nil
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	_ = resp.Body.Close()
	return f.next.RoundTrip(withToken(again, fresh))
}

// CloseIdleConnections passes on.
func (f *bearerAuth) CloseIdleConnections() { closeIdle(f.next) }

// current returns the token as of at most maxAge ago. When the file cannot be read the last token is used on.
func (f *bearerAuth) current(maxAge time.Duration) secret.Value {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if f.source.path == "" || now.Sub(f.looked) < maxAge {
		return f.token
	}
	f.looked = now
	token, err := readToken(f.source.path)
	changed := err == nil && !token.Equal(f.token)
	if changed {
		f.token = token
	}
	f.report(changed, err)
	return f.token
}

// withToken copies the request, as a RoundTripper must not change the one it was given. The token is exposed into the
// header that carries it.
func withToken(req *http.Request, token secret.Value) *http.Request {
	exposed := token.Expose()
	defer clear(exposed)
	clone := req.Clone(req.Context())
	clone.Header.Set("Authorization", "Bearer "+string(exposed))
	return clone
}

// replay makes the request ready to be sent a second time, if its body allows.
func replay(req *http.Request) (*http.Request, bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	clone := req.Clone(req.Context())
	clone.Body = body
	return clone, true
}

func closeIdle(rt http.RoundTripper) {
	if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
