package kubeclient

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// reloadEvery is how often the token and certificate files are looked at, at most. The kubelet replaces a token at
// 80 % of its life of ten minutes or more, so two minutes at least remain.
const reloadEvery = 5 * time.Second

// Clients are the two clients of a daemon, safe for concurrent use.
type Clients struct {
	// Calls is for everything but watches: each request ends within CallTimeout.
	Calls Client
	// Watches is for watches, and for lists that belong to one: they may be read from for ever.
	Watches Client

	server *url.URL
	from   string
}

// Client is one set of interfaces over one transport and one rate limiter.
type Client struct {
	// Typed is for built-in types, in protobuf.
	Typed kubernetes.Interface
	// Dynamic is for custom resources, in JSON.
	Dynamic dynamic.Interface
	// Metadata reads and watches only the metadata of objects, in protobuf.
	Metadata metadata.Interface

	http *http.Client
}

// New finds the configuration, reads the files it names and registers the metrics. It starts nothing and sends
// nothing. Each error is one line that says which configuration and which file are at fault.
func New(cfg Config, log zerolog.Logger, reg prometheus.Registerer) (*Clients, error) {
	return build(cfg, log, reg, processEnvironment(), time.Now)
}

func build(cfg Config, log zerolog.Logger, reg prometheus.Registerer, env environment, now func() time.Time) (*Clients, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	found, err := locate(cfg, env)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	b := builder{cfg: cfg, log: log, metrics: m, found: found, now: now}
	c := &Clients{server: found.server, from: found.from}
	if c.Calls, err = b.client(labelCalls, cfg.QPS, cfg.Burst, cfg.CallTimeout.Std()); err != nil {
		return nil, err
	}
	if c.Watches, err = b.client(labelWatches, cfg.WatchQPS, cfg.WatchBurst, 0); err != nil {
		return nil, err
	}
	return c, nil
}

// Server is the URL of the API server, for logs.
func (c *Clients) Server() string { return c.server.String() }

// From says in words where the configuration came from, for logs.
func (c *Clients) From() string { return c.from }

// CloseIdle closes the connections that no request uses: at the end of what made clients for a few requests only.
func (c *Clients) CloseIdle() {
	c.Calls.http.CloseIdleConnections()
	c.Watches.http.CloseIdleConnections()
}

// builder makes a Client of the parts that both have in common.
type builder struct {
	cfg     Config
	log     zerolog.Logger
	metrics *metrics
	found   target
	now     func() time.Time
}

func (b *builder) client(label string, qps float64, burst int, timeout time.Duration) (Client, error) {
	rt, err := b.roundTripper(label)
	if err != nil {
		return Client{}, fmt.Errorf("kubernetes: %s: %w", b.found.from, pemfile.OneLine(err))
	}
	c := Client{http: &http.Client{Transport: rt, Timeout: timeout}}
	cfg := &rest.Config{
		Host:          b.found.server.String(),
		UserAgent:     b.cfg.UserAgent,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON},
		RateLimiter: &throttle{
			RateLimiter: flowcontrol.NewTokenBucketRateLimiter(float32(qps), burst),
			timeout:     b.cfg.ThrottleTimeout.Std(),
			waited:      b.metrics.waited.WithLabelValues(label),
			advice:      adviceFor(label),
		},
		WarningHandlerWithContext: &warnings{log: b.log},
	}
	if c.Typed, err = kubernetes.NewForConfigAndClient(cfg, c.http); err == nil {
		if c.Dynamic, err = dynamic.NewForConfigAndClient(cfg, c.http); err == nil {
			c.Metadata, err = metadata.NewForConfigAndClient(cfg, c.http)
		}
	}
	if err != nil {
		return Client{}, fmt.Errorf("kubernetes: %s: %w", b.found.from, pemfile.OneLine(err))
	}
	return c, nil
}

func adviceFor(label string) string {
	if label == labelWatches {
		return "[portcullis.kubernetes] watch_qps and watch_burst"
	}
	return "[portcullis.kubernetes] qps and burst"
}

// roundTripper stacks, from the wire up: TLS that follows its files, the token that follows its file, the count, and
// user agent and impersonation as client-go does them.
func (b *builder) roundTripper(label string) (http.RoundTripper, error) {
	// The limit of a call covers its first byte.
	headerTimeout := time.Duration(0)
	if label == labelWatches {
		headerTimeout = b.cfg.CallTimeout.Std()
	}
	wire := &rotating{
		files: b.found.tls, make: newTransport(b.cfg, b.found.proxy, headerTimeout),
		every: reloadEvery, now: b.now, report: b.reporter(label, "certificate"),
	}
	if err := wire.open(); err != nil {
		return nil, err
	}
	outer := &transport.Config{UserAgent: b.cfg.UserAgent, Impersonate: b.found.impersonate}
	var rt http.RoundTripper = wire
	if b.found.token.set() {
		token := &bearerAuth{source: b.found.token, next: wire, every: reloadEvery, now: b.now, report: b.reporter(label, "token")}
		if err := token.open(); err != nil {
			return nil, err
		}
		rt = token
	}
	rt = &counted{next: rt, client: label, requests: b.metrics.requests}
	wrapped, err := transport.HTTPWrappersForConfig(outer, rt)
	if err != nil {
		return nil, err
	}
	return &closable{RoundTripper: wrapped, inner: rt}, nil
}

// reporter counts what became of a look at the files, and logs a failure when it is new.
func (b *builder) reporter(label, what string) func(changed bool, err error) {
	last := "" // guarded by the caller's lock
	return func(changed bool, err error) {
		switch {
		case err != nil:
			b.metrics.reloads.WithLabelValues(label, resultFailed).Inc()
			if text := pemfile.OneLine(err).Error(); text != last {
				last = text
				b.log.Warn().Err(pemfile.OneLine(err)).Str(telemetry.KeyClient, label).
					Msgf("cannot use the %s file of the Kubernetes client; the former one stays in use", what)
			}
		case changed:
			b.metrics.reloads.WithLabelValues(label, resultChanged).Inc()
			b.log.Info().Str(telemetry.KeyClient, label).Msgf("the %s file of the Kubernetes client has changed and is in use", what)
			last = ""
		default:
			last = ""
		}
	}
}

// closable reaches through client-go's wrappers, which do not pass CloseIdleConnections on.
type closable struct {
	http.RoundTripper
	inner http.RoundTripper
}

// CloseIdleConnections fulfils what http.Client looks for.
func (c *closable) CloseIdleConnections() { closeIdle(c.inner) }
