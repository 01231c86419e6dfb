package kubeclient

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// tokenFile adds the bearer token that is in a file now. client-go's own keeps a token for 50 s and does not look
// again after a refusal.
type tokenFile struct {
	path   string
	next   http.RoundTripper
	every  time.Duration
	now    func() time.Time
	report func(changed bool, err error)

	mu     sync.Mutex
	token  string
	looked time.Time
}

// open reads for the first time; here a bad file is an error.
func (f *tokenFile) open() error {
	token, err := readToken(f.path)
	f.token, f.looked = token, f.now()
	return err
}

func readToken(path string) (string, error) {
	content, err := readFile(path)
	if err != nil {
		return "", fmt.Errorf("bearer token: %w", err)
	}
	token := bytes.TrimSpace(content)
	for _, b := range token {
		if b <= ' ' || b > '~' {
			return "", fmt.Errorf("bearer token: %s holds more than a token", path)
		}
	}
	return string(token), nil
}

// RoundTrip fulfils http.RoundTripper. A request that is refused with 401 is sent once more when the file meanwhile
// holds another token: it was refused before it did anything.
func (f *tokenFile) RoundTrip(req *http.Request) (*http.Response, error) {
	token := f.current(f.every)
	resp, err := f.next.RoundTrip(withToken(req, token))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	fresh := f.current(0)
	again, ok := replay(req)
	if fresh == token || !ok {
		return resp, nil
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	_ = resp.Body.Close()
	return f.next.RoundTrip(withToken(again, fresh))
}

// CloseIdleConnections passes on.
func (f *tokenFile) CloseIdleConnections() { closeIdle(f.next) }

// current returns the token as of at most maxAge ago. When the file cannot be read the last token is used on.
func (f *tokenFile) current(maxAge time.Duration) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if now.Sub(f.looked) < maxAge {
		return f.token
	}
	f.looked = now
	token, err := readToken(f.path)
	changed := err == nil && token != f.token
	if changed {
		f.token = token
	}
	f.report(changed, err)
	return f.token
}

// withToken copies the request, as a RoundTripper must not change the one it was given.
func withToken(req *http.Request, token string) *http.Request {
	clone := req.Clone(req.Context())
	clone.Header.Set("Authorization", "Bearer "+token)
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
