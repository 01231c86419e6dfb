package meshrpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/credentials/tls/certprovider"
	"google.golang.org/grpc/credentials/tls/certprovider/pemfile"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// certificates holds the material that handshakes use, and keeps it current. grpc's
// file provider watches and reads the files; a set that it has read is used only after
// load has judged the same files good. So a file that is broken, belongs to another
// daemon, or lost part of its authorities leaves the last good set in place.
type certificates struct {
	cfg     Config
	daemon  string
	now     func() time.Time
	log     zerolog.Logger
	metrics *metrics

	current atomic.Pointer[material]

	mu      sync.Mutex
	problem error // of the last look at the files
}

var _ certprovider.Provider = (*certificates)(nil)

// newCertificates loads the first set; without a good one nothing starts.
func newCertificates(cfg Config, daemon string, now func() time.Time, log zerolog.Logger, m *metrics) (*certificates, error) {
	first, err := load(cfg, daemon, now())
	if err != nil {
		return nil, err
	}
	c := &certificates{cfg: cfg, daemon: daemon, now: now, log: log, metrics: m}
	c.use(first)
	c.report(nil)
	return c, nil
}

// KeyMaterial returns the set for one new handshake. It never blocks.
func (c *certificates) KeyMaterial(context.Context) (*certprovider.KeyMaterial, error) {
	m := c.current.Load()
	return &certprovider.KeyMaterial{Certs: []tls.Certificate{m.chain}, Roots: m.roots}, nil
}

// Close does nothing: run owns the watching.
func (c *certificates) Close() {}

// run watches the files until ctx ends and waits for grpc's watcher to end.
func (c *certificates) run(ctx context.Context) error {
	interval := c.cfg.RefreshInterval.Std()
	files, err := pemfile.NewProvider(pemfile.Options{
		CertFile: c.cfg.CertFile, KeyFile: c.cfg.KeyFile, RootFile: c.cfg.CAFile, RefreshDuration: interval,
	})
	if err != nil {
		return fmt.Errorf("watch the mesh certificate files: %w", err)
	}
	defer drainProvider(files)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			c.look(ctx, files)
		}
	}
}

// drainProvider closes p and returns when its goroutine has stopped handing out
// material, which is the last thing it does.
func drainProvider(p certprovider.Provider) {
	p.Close()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := p.KeyMaterial(ctx)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return
		}
		// Its goroutine is on the way from the cancellation to its end.
		time.Sleep(time.Millisecond)
	}
}

// look judges the files once and takes over what the provider has read of them. When
// the two do not agree, a replacement is under way and the next look settles it.
func (c *certificates) look(ctx context.Context, files certprovider.Provider) {
	judged, err := load(c.cfg, c.daemon, c.now())
	if err != nil {
		c.report(err)
		return
	}
	current := c.current.Load()
	if current.same(judged.chain, judged.roots) {
		c.report(nil)
		return
	}
	// The provider blocks as long as it has never read a whole set.
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RefreshInterval.Std())
	defer cancel()
	read, err := files.KeyMaterial(ctx)
	if err != nil || len(read.Certs) != 1 || !judged.same(read.Certs[0], read.Roots) {
		return
	}
	c.use(&material{chain: read.Certs[0], leaf: judged.leaf, roots: read.Roots})
	c.report(nil)
	c.log.Info().Str(keySerial, judged.leaf.SerialNumber.Text(16)).Time(keyNotAfter, judged.leaf.NotAfter).
		Msg("mesh certificate files changed; new connections use them")
}

func (c *certificates) use(m *material) {
	c.current.Store(m)
	c.metrics.expiry.Set(float64(m.leaf.NotAfter.Unix()))
}

// report records the state of the files and logs when it changes.
func (c *certificates) report(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.problem
	c.problem = err
	if err == nil {
		c.metrics.looks.WithLabelValues("good").Inc()
		c.metrics.filesGood.Set(1)
		if before != nil {
			c.log.Info().Msg("mesh certificate files are good again")
		}
		return
	}
	c.metrics.looks.WithLabelValues("bad").Inc()
	c.metrics.filesGood.Set(0)
	if before == nil || before.Error() != err.Error() {
		c.log.Error().Str(telemetry.KeyError, err.Error()).
			Time(keyNotAfter, c.current.Load().leaf.NotAfter).
			Msg("mesh certificate files are unusable; the last good certificate stays in use")
	}
}

// fault is the problem of the files at the last look.
func (c *certificates) fault() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.problem
}

// ready fails when peers refuse the certificate in use.
func (c *certificates) ready() error {
	err := validAt(c.current.Load().leaf, c.now())
	if err == nil {
		return nil
	}
	if fault := c.fault(); fault != nil {
		return fmt.Errorf("the mesh certificate in use: %w; it was not replaced because: %w", err, fault)
	}
	return fmt.Errorf("the mesh certificate in use: %w", err)
}
