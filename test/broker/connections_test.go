package broker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// hoard opens connections as an identity until the server lets in no more of them.
func (b *broker) hoard(who string) (kept int, refusal error) {
	b.t.Helper()
	for ; kept < 1000; kept++ { // more than any server takes
		if _, err := b.bare(who); err != nil {
			return kept, err
		}
	}
	return kept, nil
}

// TestASeedKeepsOutItsOwnOnly: who has the seed of one identity, and opens connections with it until no more are let in, keeps nobody
// else out: the list is written, and read, as before.
func TestASeedKeepsOutItsOwnOnly(t *testing.T) {
	t.Parallel()
	for _, thief := range table() {
		t.Run(thief.name, func(t *testing.T) {
			t.Parallel()
			b, err := stocked(t, single(t))
			if err != nil {
				t.Fatal(err)
			}
			kept, refusal := b.hoard(thief.name)
			if most := connections[strings.ToUpper(thief.name)]; kept == 0 || kept > most || refusal == nil {
				t.Errorf("%s got %d connections, then %v; want at most %d and a refusal", thief.name, kept, refusal, most)
			}
			for _, other := range table() {
				nc, err := b.bare(other.name)
				switch {
				case other.name == thief.name:
					if !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
						t.Errorf("another connection of %s: %v", other.name, err)
					}
				case err != nil:
					t.Errorf("%s keeps out %s: %v", thief.name, other.name, err)
				default:
					nc.Close()
				}
			}
			if thief.name != "nswatch" {
				if err := b.do(t.Context(), filled["nswatch writes the heartbeat"]); err != nil {
					t.Errorf("with %s at its bound: %v", thief.name, err)
				}
			}
		})
	}
}

// TestConnectionsFit: all accounts together may have half of what a server takes, so that there is room for those who have not said yet
// who they are; and no account with a user is without a bound.
func TestConnectionsFit(t *testing.T) {
	t.Parallel()
	all := 0
	for _, most := range connections {
		all += most
	}
	if most := parsed(t, single(t)).MaxConn; 2*all > most {
		t.Errorf("accounts may have %d connections in all, and a server takes %d", all, most)
	}
	if len(connections) != len(table()) {
		t.Errorf("%d identities, and bounds for %d", len(table()), len(connections))
	}
}

// TestHoardingWorks: what TestASeedKeepsOutItsOwnOnly tries does keep everybody out where an account has no bound. So that test can fail.
func TestHoardingWorks(t *testing.T) {
	t.Parallel()
	b := start(t, single(t).with(t, "accounts.conf", "  GATEWAY {\n    limits { max_connections: 64 }", "  GATEWAY {").
		with(t, "server.conf", "max_connections: 512", "max_connections: 70"))
	kept, refusal := b.hoard("gateway")
	if _, err := b.bare("nswatch"); err == nil {
		t.Errorf("with %d connections of another, then %v, nswatch gets in", kept, refusal)
	}
}
