package allowlist

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

const gateway = "team-gateway"

// wallStart is the wall clock of the tests' first instant.
var wallStart = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// compareValues lets cmp look into our own value types.
func compareValues() cmp.Option { return cmp.AllowUnexported(List{}) }

// testSigner is a key that is the same in every run.
func testSigner(t testing.TB, seed byte) *Signer {
	t.Helper()
	s, err := GenerateSigner(bytes.NewReader(bytes.Repeat([]byte{seed}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func testKeys(t testing.TB, signers ...*Signer) KeySet {
	t.Helper()
	var keys []PublicKey
	for _, s := range signers {
		keys = append(keys, s.Public())
	}
	set, err := NewKeySet(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// listOf makes a list of names with uids.
func listOf(t testing.TB, names ...string) List {
	t.Helper()
	var entries []Entry
	for _, name := range names {
		entries = append(entries, Entry{Name: name, UID: "uid-" + name})
	}
	list, err := NewList(entries)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func manyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("namespace-%06d", i)
	}
	return names
}

// validSnapshot is the base that cases break in one way.
func validSnapshot(t testing.TB) Snapshot {
	return Snapshot{
		GatewayID: gateway, Epoch: 1_796_000_000_000, Revision: 42, Previous: digestOf([]byte("before")),
		Writer: "nswatch-0.x7k2", PublishedAt: wallStart,
		Source:     Source{Kind: SourceLabel, Selector: `openshell.ai/sandboxes=allowed`, Version: "8812"},
		Namespaces: listOf(t, "team-a", "team-b"),
		Changes:    Changes{Added: []string{"team-b"}, Removed: []string{"team-c"}},
	}
}

// validHeartbeat vouches for validSnapshot.
func validHeartbeat(t testing.TB) Heartbeat {
	s := validSnapshot(t)
	payload, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	return Heartbeat{
		GatewayID: gateway, Epoch: s.Epoch, Revision: s.Revision, Digest: digestOf(payload), Beat: 7, Issued: 6100 * time.Millisecond,
		PublishedAt: wallStart, Writer: s.Writer, Proof: Proof{Kind: ProofWatch, Age: 250 * time.Millisecond}, TTL: 5 * time.Second,
	}
}

// signed puts any payload into a plain envelope with a valid signature.
func signed(t testing.TB, k kind, payload string) []byte {
	t.Helper()
	s := testSigner(t, 1)
	e := envelope{kind: k, payload: []byte(payload), keyID: s.public.id}
	var err error
	if e.signature, err = s.sign(k.preimage(e.payload)); err != nil {
		t.Fatal(err)
	}
	return e.record()
}

// replaceOnce fails the test when old is not there exactly once: a case that breaks nothing proves nothing.
func replaceOnce(t testing.TB, s, old, with string) string {
	t.Helper()
	if n := strings.Count(s, old); n != 1 {
		t.Fatalf("%q is in the base %d times", old, n)
	}
	return strings.Replace(s, old, with, 1)
}

// testSettings are the defaults.
func testSettings() Settings { return DefaultSettings() }

func seconds(n float64) driverconf.Duration { return driverconf.Duration(n * float64(time.Second)) }
