package daemon

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Limits of the admin listener. Requests have no body and few headers.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second // a scrape of a large registry; profiles extend it
	idleTimeout   = time.Minute
	maxHeader     = 8 << 10 // bytes
	maxBody       = 4 << 10 // bytes
	maxScrapes    = 4       // concurrent
	// stopTimeout is how long requests in progress may take to finish at the end.
	stopTimeout = time.Second
)

// Admin is the HTTP listener of a daemon:
//
//	GET /livez, /readyz          200 "ok" or 503 with the failing checks and reasons
//	GET /livez?verbose           all checks
//	GET /livez/NAME              one check; 404 when there is none
//	GET /metrics                 Prometheus text
//	GET /debug/pprof/            profiles, when enabled, for loopback callers
type Admin struct {
	listener net.Listener
	server   *http.Server
	inflight inflight
	log      zerolog.Logger
}

// NewAdmin prepares the server for a listener that it then owns, and starts
// nothing. cfg must be valid.
func NewAdmin(cfg Config, listener net.Listener, checks *Checks, gatherer prometheus.Gatherer, log zerolog.Logger) (*Admin, error) {
	if listener == nil || checks == nil || gatherer == nil {
		return nil, errors.New("make the admin listener: listener, checks or gatherer is nil")
	}
	a := &Admin{listener: listener, log: log}
	// Both libraries want a standard logger for what happens on their goroutines.
	lines := stdlog.New(lineWriter{log}, "", 0)

	mux := http.NewServeMux() // never the default one, where imports register
	mux.Handle("GET /livez", probeAll("livez", checks.Live))
	mux.Handle("GET /livez/{name}", probeOne("livez", checks.liveOne))
	mux.Handle("GET /readyz", probeAll("readyz", checks.Ready))
	mux.Handle("GET /readyz/{name}", probeOne("readyz", checks.readyOne))
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		ErrorLog:            lines,
		ErrorHandling:       promhttp.HTTPErrorOnError,
		MaxRequestsInFlight: maxScrapes,
	}))
	if cfg.Pprof {
		addProfiles(mux)
	}
	a.server = &http.Server{
		Handler:           a.inflight.track(http.MaxBytesHandler(mux, maxBody)),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          lines,
	}
	return a, nil
}

// Run serves until ctx ends, then lets requests in progress finish for a second,
// cuts the rest off, and waits for their handlers. It closes the listener.
func (a *Admin) Run(ctx context.Context) error {
	// Handlers see the end of their connection, not that of ctx: probes are answered
	// while the daemon stops.
	lifetime := context.WithoutCancel(ctx)
	a.server.BaseContext = func(net.Listener) context.Context { return lifetime }
	a.log.Debug().Str(telemetry.KeyAddress, a.listener.Addr().String()).Msg("admin listener serves")

	served := make(chan error, 1)
	go func() { served <- a.server.Serve(a.listener) }()
	select {
	case err := <-served:
		_ = a.server.Close() // ends requests in progress; the error that matters is err
		a.inflight.close()
		return fmt.Errorf("serve HTTP on %s: %w", a.listener.Addr(), err)
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(lifetime, stopTimeout)
	defer cancel()
	if err := a.server.Shutdown(limit); err != nil {
		// Close cancels the contexts of the requests that are left.
		_ = a.server.Close()
	}
	<-served //nolint:errcheck // what Shutdown or Close makes of it
	a.inflight.close()
	return nil
}

// lineWriter turns lines of a standard logger, stacks included, into warnings of one
// short line.
type lineWriter struct{ log zerolog.Logger }

func (w lineWriter) Write(line []byte) (int, error) {
	w.log.Warn().Msg(oneLine(strings.TrimRight(string(line), "\n")))
	return len(line), nil
}
