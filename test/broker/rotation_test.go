package broker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// watcher starts an nswatch of the installation as the identity that the servers know. It signs with this key; empty is the
// installation's.
func watcher(t *testing.T, i *installation.Installation, url, key string) *program.Process {
	t.Helper()
	text := replaced(t, i.Settings("", url),
		"[portcullis.nats]\n", fmt.Sprintf("[portcullis.nats]\nca_file = %q\nnkey_seed_file = %q\njs_api_prefix = %q\n", authority(t), seed(t, "nswatch"), apiPrefix),
		// A standby is there soon.
		"[portcullis.nswatch]\n", "[portcullis.nswatch]\nlease_duration = \"4s\"\nrenew_deadline = \"3s\"\nretry_period = \"500ms\"\n",
		"[portcullis.kubernetes]\n", "[portcullis.kubernetes]\nping_interval = \"1s\"\nping_timeout = \"1s\"\n")
	if key != "" {
		text = regexp.MustCompile(`signing_key_file = .*`).ReplaceAllString(text, fmt.Sprintf("signing_key_file = %q", key))
	}
	return program.Start(t, "nswatch", text)
}

// replaced is text with pairs of old and new in it; each old one must be there.
func replaced(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for n := 0; n < len(pairs); n += 2 {
		if !strings.Contains(text, pairs[n]) {
			t.Fatalf("there is no %q to replace in\n%s", pairs[n], text)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// TestSigningKeyIsRotated follows docs/nats.md: a second key is made and trusted, the two nswatch get it one after the other, and the old
// one is taken out. A reader of the shipped NATS asks all the time: it is never refused what is listed, and never allowed what is not.
func TestSigningKeyIsRotated(t *testing.T) {
	t.Parallel()
	b := start(t, single(t))
	bootstrap(t, 1, b.url())
	i := installation.New(t, cluster.Start(t, cluster.ControlPlane))
	i.GatewayID, i.File = gatewayID, filepath.Join(t.TempDir(), "namespaces.json")
	i.Lend("portcullis-nswatch-" + gatewayID)
	if err := os.WriteFile(i.File, []byte(`["team-a"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	old := i.Public()
	first := watcher(t, i, b.url(), "")
	first.AwaitMetric(1, "portcullis_nswatch_leading")
	second := watcher(t, i, b.url(), "")
	second.AwaitReady()

	w := &work{t: t, publics: i.PublicKeysFile()}
	r := w.reader("tokenauth", b.url())
	r.allows("team-a")
	end := r.watch("team-a", "team-b")

	// The pair of files that nswatch keys generate makes; the new line goes below the old one.
	dir := t.TempDir()
	private, public := filepath.Join(dir, "private.key"), filepath.Join(dir, "public.key")
	command(t, "nswatch", "keys", "generate", "--private", private, "--public", public)
	text, err := os.ReadFile(public)
	if err != nil {
		t.Fatal(err)
	}
	next := strings.TrimSpace(string(text))
	i.Trust(old, next)
	r.beats(5) // a reader has looked at its keys since

	// One after the other, as a Deployment that surges: the new one is ready before an old one goes.
	before := r.Status().Epoch
	var replacements []*program.Process
	for _, leaving := range []*program.Process{second, first} {
		fresh := watcher(t, i, b.url(), private)
		fresh.AwaitReady()
		replacements = append(replacements, fresh)
		leaving.Stop()
	}
	cluster.Eventually(t, "a new leader is believed", func(context.Context) error {
		if r.Status().Epoch <= before {
			return errors.New("not yet")
		}
		return nil
	})
	r.beats(5)
	i.Trust(next)
	r.beats(5)
	seen := end()
	t.Logf("%d yes, %d no %v", seen.yes, seen.no, seen.reasons)
	if seen.no > 0 {
		t.Errorf("the gate was closed %d times: %v", seen.no, seen.reasons)
	}

	// The old key counts for nothing any more: with it alone, nothing is believed of what is signed with the new one.
	i.Trust(old)
	r.refuses("team-a", verdict.Invalid)
	for _, p := range replacements {
		p.Stop()
	}
}
