package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// TestDaemonsAtWork: the parts of the daemons do what they do over one connection each, with the rights of their identities, and no
// server refuses any of it. What people look at with nswatch's own commands is there.
func TestDaemonsAtWork(t *testing.T) {
	t.Parallel()
	n := newNode(t, "nats-0", single(t))
	n.start()
	n.ready()
	bootstrap(t, 1, n.url())
	bootstrap(t, 1, n.url()) // again
	w := newWork(t)
	w.lists("team-a")
	w.publish(n.url())
	for _, who := range []string{"tokenauth", "lifecycle", "gateway"} {
		w.reader(who, n.url()).allows("team-a")
	}

	trail, err := audit.New(audit.DefaultConfig(), audit.Origin{Daemon: "tokenauth", GatewayID: gatewayID}, connect(t, "tokenauth", n.url()), zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	background(t, "the trail", trail.Run)
	trail.Record(audit.Event{Call: "authenticate", RequestID: "the-request"})
	session, err := connect(t, "operator", n.url()).Await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, "the operator sees the event", func(ctx context.Context) error {
		stream, err := session.JetStream.Stream(ctx, audit.Stream)
		if err == nil && stream.CachedInfo().State.Msgs != 1 {
			err = errors.New("not yet")
		}
		return err
	})

	config := configured(t, "operator", fmt.Sprintf("[portcullis.allowlist]\npublic_keys_file = %q\n", w.publics), n.url())
	if said := command(t, "nswatch", "allowlist", "show", "--config", config); !strings.Contains(said, "team-a") {
		t.Errorf("show says\n%s", said)
	}
	command(t, "nswatch", "allowlist", "verify", "--config", config)
	if log := n.log(); strings.Contains(log, "Violation") {
		t.Errorf("the server refused something:\n%s", log)
	}
}
