package allowkv_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// A gateway written in Go keeps one Reader for its life and asks it before every grant. NATS may be away when it starts,
// and come and go later: the Reader refuses, and comes back by itself.
func ExampleReader() {
	log, metrics := zerolog.New(os.Stderr), prometheus.NewRegistry()
	server := natsconn.DefaultConfig()
	server.URLs = []string{"tls://nats.portcullis.svc:4222"}
	server.CAFile = "/etc/portcullis/nats/ca.crt"
	conn, err := natsconn.New(server, log, metrics)
	if err != nil {
		log.Fatal().Err(err).Send()
	}
	settings := allowkv.DefaultConfig()
	settings.PublicKeysFile = "/etc/portcullis/keys/public"
	settings.StateDir = "/var/lib/gateway"
	list, err := allowkv.NewReader(allowkv.ReaderConfig{GatewayID: "gateway-1", Name: "gateway", Config: settings}, conn, log, metrics)
	if err != nil {
		log.Fatal().Err(err).Send()
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { _ = conn.Run(ctx) })
	tasks.Go(func() { _ = list.Run(ctx) })

	// For every request. An operation that takes long asks again before it commits.
	if answer := list.Check("team-a"); answer.Allowed() {
		fmt.Println("granted at revision", answer.Revision)
	} else {
		fmt.Println(answer.Decision())
	}
	// For the readiness endpoint: the error says what to do.
	if err := list.Ready(ctx); err != nil {
		log.Warn().Err(err).Send()
	}
}

// A gateway that keeps something for each namespace follows the list. It sees the newest state, not every step, and
// treats a list that is not Fresh as unknown, which is not the same as empty.
func ExampleReader_Snapshot() {
	follow := func(ctx context.Context, list *allowkv.Reader, apply func([]allowlist.Entry)) {
		for {
			now, changed := list.Snapshot()
			if now.Condition.State == allowlist.Fresh {
				apply(now.Namespaces)
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
	_ = follow
}
