package app_test

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// succeeds demands exit code 0 and an output that holds every want.
func succeeds(t *testing.T, got commandtest.Result, want ...string) {
	t.Helper()
	if got.Code != 0 || got.Stderr != "" {
		t.Fatalf("%+v", got)
	}
	for _, w := range want {
		if !strings.Contains(got.Stdout, w) {
			t.Errorf("%q is not in\n%s", w, got.Stdout)
		}
	}
}

// fails demands a non-zero exit code and a reason for each want.
func fails(t *testing.T, got commandtest.Result, want ...string) {
	t.Helper()
	if got.Code == 0 || got.Stdout != "" || strings.Count(got.Stderr, "\n") != len(want) {
		t.Errorf("got %+v, want %d lines", got, len(want))
	}
	for _, w := range want {
		if !strings.Contains(got.Stderr, w) {
			t.Errorf("%q is not in\n%s", w, got.Stderr)
		}
	}
}

// TestBucketForPeople goes through what an operator does: make the bucket, look at it, judge it.
func TestBucketForPeople(t *testing.T) {
	server := natstest.Start(t)
	private, public := pair(t)
	file := write(t, "gateway.toml", reader(server.URL(), public))
	// Making the bucket takes no keys.
	maker := write(t, "maker.toml", "[portcullis.nats]\nurls = [\""+server.URL()+"\"]\n")
	do := func(args ...string) commandtest.Result {
		return program.Run(t.Context(), append(args, "--config", file)...)
	}

	fails(t, do("allowlist", "show"), allowkv.Bucket)
	succeeds(t, program.Run(t.Context(), "allowlist", "bootstrap", "--config", maker), "created the bucket "+allowkv.Bucket)
	succeeds(t, program.Run(t.Context(), "allowlist", "bootstrap", "--config", maker), "is there and right")
	fails(t, program.Run(t.Context(), "allowlist", "bootstrap", "--replicas", "2", "--config", maker), "replicas is 2")
	fails(t, program.Run(t.Context(), "allowlist", "bootstrap", "--replicas", "3", "--config", maker), "differs")

	succeeds(t, do("allowlist", "show"), "there is no snapshot", "there is no heartbeat")
	fails(t, do("allowlist", "verify"), "there is no snapshot", "there is no heartbeat")

	b := newBucket(t, server.URL(), signer(t, private))
	b.publish(1, 0, "team")
	b.publish(2, 0, "team", "build")
	succeeds(t, do("allowlist", "verify"), "usable: revision 2 of epoch 1, 2 namespaces")
	succeeds(t, do("allowlist", "show"), "USABLE   yes", "team", "uid-build", "a=b", "CHANGES")
	shown := do("allowlist", "show", "--output", "json")
	succeeds(t, shown)
	var report struct {
		Usable   bool
		Snapshot struct{ List struct{ Revision, Count int } }
		Changes  []any
	}
	if err := json.Unmarshal([]byte(shown.Stdout), &report); err != nil || !report.Usable || report.Snapshot.List.Revision != 2 || len(report.Changes) != 2 {
		t.Errorf("%v: %+v", err, report)
	}

	// A list is two writes. What falls between them is not said to be unusable; a writer that stays there is.
	digest := b.store(3, 0, "team")
	fails(t, do("allowlist", "verify"), "vouches for revision 2 of epoch 1, and the snapshot is revision 3")
	slow := write(t, "slow.toml", reader(server.URL(), public)+"heartbeat_interval = \"10s\"\nheartbeat_ttl = \"20s\"\nmax_staleness = \"1m\"\n")
	verify := program.Start(t, "allowlist", "verify", "--config", slow)
	time.Sleep(500 * time.Millisecond)
	b.vouch(3, 0, digest)
	commandtest.Eventually(t, "usable", func() bool { return strings.HasPrefix(verify.Stdout.String(), "usable: revision 3") })
	verify.Stop()

	b.publish(4, time.Minute, "team")
	fails(t, do("allowlist", "verify"), "max_staleness is 15s")
	succeeds(t, do("allowlist", "show"), "USABLE   no: the heartbeat is 1m0")

	// A stranger's key: what is shown is its size and why it does not count, never its bytes.
	otherPrivate, _ := pair(t)
	newBucket(t, server.URL(), signer(t, otherPrivate)).publish(5, 0, "intruder")
	b.put(allowlist.HeartbeatKey("blue"), []byte("\x1b[2J not a record"))
	fails(t, do("allowlist", "verify"), "the snapshot does not count", "the heartbeat does not count")
	bad := do("allowlist", "show")
	succeeds(t, bad, "does not count")
	if strings.Contains(bad.Stdout, "intruder") || strings.ContainsRune(bad.Stdout, '\x1b') {
		t.Errorf("what does not verify is shown:\n%s", bad.Stdout)
	}
}

// TestWatchFollows prints what is there, then each change, until it is interrupted, and that is no failure.
func TestWatchFollows(t *testing.T) {
	server := natstest.Start(t)
	private, public := pair(t)
	file := write(t, "gateway.toml", reader(server.URL(), public))
	succeeds(t, program.Run(t.Context(), "allowlist", "bootstrap", "--config", file))
	b := newBucket(t, server.URL(), signer(t, private))
	b.publish(1, 0, "team")
	for _, form := range []string{"table", "json"} {
		watch := program.Start(t, "allowlist", "watch", "--output", form, "--config", file)
		await := func(want string) {
			t.Helper()
			commandtest.Eventually(t, want, func() bool { return strings.Contains(watch.Stdout.String(), want) })
		}
		first, second := "revision 1 of", "revision 2 of"
		if form == "json" {
			first, second = `"revision":2,`, `"revision":3,`
		}
		await(first)
		if strings.Contains(watch.Stdout.String(), "interrupted") {
			t.Errorf("the start is told as an interruption:\n%s", watch.Stdout.String())
		}
		if form == "table" {
			b.publish(2, 0, "team", "build")
		} else {
			b.publish(3, 0, "team")
		}
		await(second)
		if code := watch.Stop(); code != 0 || watch.Stderr.String() != "" {
			t.Errorf("watch ends with %d: %s", code, watch.Stderr.String())
		}
	}
}

// TestCommandsSayWhatIsMissing, in one line.
func TestCommandsSayWhatIsMissing(t *testing.T) {
	_, public := pair(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "nats://" + closed.Addr().String()
	_ = closed.Close()
	for name, tc := range map[string]struct {
		text string
		args []string
		want string
	}{
		"no NATS":          {"[portcullis.allowlist]\npublic_keys_file = \"/k\"\n", []string{"allowlist", "show"}, "portcullis.nats.urls"},
		"no keys":          {"[portcullis.nats]\nurls = [\"" + url + "\"]\n", []string{"allowlist", "verify"}, "portcullis.allowlist.public_keys_file"},
		"keys are absent":  {reader(url, filepath.Join(t.TempDir(), "none")), []string{"allowlist", "watch"}, "public_keys_file"},
		"unknown form":     {reader(url, public), []string{"allowlist", "show", "--output", "yaml"}, "use table or json"},
		"form of watch":    {reader(url, public), []string{"allowlist", "watch", "--output", ""}, "use table or json"},
		"no subcommand":    {reader(url, public), []string{"allowlist"}, "needs a subcommand"},
		"unused table":     {reader(url, public) + "[portcullis.nswatch]\nlease_name = \"A_B\"\n", []string{"allowlist", "show"}, "portcullis.nswatch.lease_name"},
		"nobody listens":   {reader(url, public), []string{"allowlist", "show"}, "not connected to NATS"},
		"nothing to watch": {reader(url, public), []string{"allowlist", "watch"}, "not connected to NATS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fails(t, program.Run(t.Context(), append(tc.args, "--config", write(t, "gateway.toml", tc.text))...), tc.want)
		})
	}
}

// TestHelpSaysThatTheWholeFileCounts.
func TestHelpSaysThatTheWholeFileCounts(t *testing.T) {
	succeeds(t, program.Run(t.Context(), "allowlist", "--help"), "valid as a\nwhole")
}
