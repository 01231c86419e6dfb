package kubeclient

import (
	"crypto/sha256"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	idleConnections = 25
	idleTimeout     = 90 * time.Second
)

// rotating is a transport that follows the files its TLS side comes from. When they change, new requests go over new
// connections; requests and watches under way end on the old ones in their own time, which is what their server
// allowed when it let them in.
//
// client-go has the same (rest.TransportFor), but keeps it in a process-wide cache that would join Calls and Watches
// on one connection, looks at the files every five minutes from a goroutine that nobody stops, and takes its ping
// settings from the environment only.
type rotating struct {
	files  tlsSources
	make   func(*tls.Config) (*http.Transport, error)
	every  time.Duration
	now    func() time.Time
	report func(changed bool, err error)

	mu      sync.Mutex
	current *http.Transport
	sum     [sha256.Size]byte
	looked  time.Time
}

// open loads for the first time; here a bad file is an error.
func (r *rotating) open() error {
	content, err := r.files.read()
	if err != nil {
		return err
	}
	return r.adopt(content, content.sum())
}

// adopt is called with the lock held, or before anyone else has r.
func (r *rotating) adopt(content tlsBytes, sum [sha256.Size]byte) error {
	cfg, err := r.files.config(content)
	if err != nil {
		return err
	}
	fresh, err := r.make(cfg)
	if err != nil {
		return err
	}
	if r.current != nil {
		r.current.CloseIdleConnections()
	}
	r.current, r.sum, r.looked = fresh, sum, r.now()
	return nil
}

// RoundTrip fulfils http.RoundTripper.
func (r *rotating) RoundTrip(req *http.Request) (*http.Response, error) {
	return r.transport().RoundTrip(req)
}

// CloseIdleConnections closes the connections that nothing uses.
func (r *rotating) CloseIdleConnections() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.CloseIdleConnections()
}

func (r *rotating) transport() *http.Transport {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if now.Sub(r.looked) < r.every {
		return r.current
	}
	r.looked = now
	content, err := r.files.read()
	if err == nil {
		sum := content.sum()
		if sum == r.sum {
			r.report(false, nil)
			return r.current
		}
		err = r.adopt(content, sum)
	}
	r.report(err == nil, err)
	return r.current
}

// newTransport makes the connections' side. headerTimeout bounds the wait for an answer's first byte.
func newTransport(cfg Config, proxy func(*http.Request) (*url.URL, error), headerTimeout time.Duration) func(*tls.Config) (*http.Transport, error) {
	silence := cfg.PingInterval.Std() + cfg.PingTimeout.Std()
	dialer := &net.Dialer{
		Timeout: cfg.ConnectTimeout.Std(),
		// For a server or proxy without HTTP/2, which has no pings, the kernel's probes do what they can.
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: cfg.PingInterval.Std(), Interval: cfg.PingTimeout.Std(), Count: 3,
		},
	}
	return func(tlsConfig *tls.Config) (*http.Transport, error) {
		t := utilnet.SetOldTransportDefaults(&http.Transport{
			Proxy:                 proxy,
			DialContext:           dialer.DialContext,
			TLSClientConfig:       tlsConfig,
			TLSHandshakeTimeout:   cfg.ConnectTimeout.Std(),
			ResponseHeaderTimeout: headerTimeout,
			MaxIdleConnsPerHost:   idleConnections,
			IdleConnTimeout:       idleTimeout,
		})
		t.ForceAttemptHTTP2 = true // a dialer of our own turns it off otherwise
		t.HTTP2 = &http.HTTP2Config{
			SendPingTimeout:  cfg.PingInterval.Std(),
			PingTimeout:      cfg.PingTimeout.Std(),
			WriteByteTimeout: silence,
		}
		return t, nil
	}
}
