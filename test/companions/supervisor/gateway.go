package supervisor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/portcullis-mesh/portcullis/test/companions/bootstrap"
	"github.com/portcullis-mesh/portcullis/test/companions/session"
)

const (
	maxToken      = 64 << 10
	exchangeLimit = 15 * time.Second
)

// holdGateway exchanges the projected token and serves a session until that is lost. Every failure
// may be tried again: the gateway may not have stored our identity yet (contract 6.6).
func (s *Supervisor) holdGateway(ctx context.Context, succeeded func()) error {
	cc, err := s.dialGateway()
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()
	token, err := s.exchange(ctx, cc)
	if err != nil {
		return fmt.Errorf("exchange the token: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := session.Open(withBearer(ctx, token), cc)
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	d := &desk{ctx: ctx, link: s.link, workdir: s.settings.Workdir, now: s.now, client: client, open: map[string]*job{}}
	var telling sync.WaitGroup
	telling.Go(d.tell)
	defer telling.Wait()
	defer cancel()
	return d.serve(succeeded)
}

func (s *Supervisor) exchange(ctx context.Context, cc *grpc.ClientConn) (string, error) {
	projected, err := bootstrap.Limited(s.settings.TokenFile, maxToken)
	if err != nil {
		return "", err
	}
	defer clear(projected)
	ctx, cancel := context.WithTimeout(ctx, exchangeLimit)
	defer cancel()
	// A header is a string: this is where the token leaves us.
	issued, err := session.Issue(withBearer(ctx, string(bytes.TrimSpace(projected))), cc, session.IssueRequest{SandboxID: s.settings.SandboxID})
	return issued.Token, err
}

func withBearer(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

func (s *Supervisor) dialGateway() (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if s.settings.Endpoint.Scheme == "https" {
		cfg := &tls.Config{MinVersion: tls.VersionTLS12}
		if s.settings.CAFile != "" {
			pem, err := bootstrap.Limited(s.settings.CAFile, bootstrap.MaxFile)
			if err != nil {
				return nil, fmt.Errorf("OPENSHELL_TLS_CA: %w", err)
			}
			if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(pem) {
				return nil, errors.New("OPENSHELL_TLS_CA: no certificate")
			}
		}
		if s.settings.CertFile != "" {
			pair, err := tls.LoadX509KeyPair(s.settings.CertFile, s.settings.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("OPENSHELL_TLS_CERT: %w", err)
			}
			cfg.Certificates = []tls.Certificate{pair}
		}
		creds = credentials.NewTLS(cfg)
	}
	return grpc.NewClient("dns:///"+s.settings.gateway(), grpc.WithTransportCredentials(creds),
		grpc.WithDisableServiceConfig(), grpc.WithNoProxy(), grpc.WithIdleTimeout(0),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}))
}
