package tokenauth_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

// short are bounds that make a closing gate visible within seconds.
var short = []string{
	`max_staleness = "3s"`, `heartbeat_ttl = "2s"`, `heartbeat_interval = "500ms"`, `source_max_age = "3s"`, `label_relist = "1s"`, `stop_grace = "2s"`,
	`file_poll = "200ms"`,
}

func TestSharedMode(t *testing.T) {
	t.Parallel()
	s := tokenauth.Shared(t, cluster.Start(t, cluster.ControlPlane))
	trail := s.Audit(natstest.Start(t).URL())
	p := s.Start()
	p.AwaitReady()
	c := s.Client(p)
	ledger := c.Remember()
	good := s.Bearer(s.Namespace)
	awaitAccepted(t, c, good)
	refuseFlaws(t, s, c)

	stray := s.Bearer(s.Cluster.Namespace(t))
	demandRefused(t, c, stray.Token, verdict.NamespaceNotAccepted)
	for _, credential := range []struct {
		name, token string
		want        verdict.Reason
	}{
		{"garbage", "nothing", verdict.CredentialMalformed},
		{"not signed", good.Token[:strings.LastIndex(good.Token, ".")+1], verdict.CredentialMalformed},
		{"with a bit that says nothing", tokenauth.Respelled(good.Token), verdict.CredentialMalformed},
		{"cut", good.Token[:len(good.Token)-21] + "A", verdict.CredentialNotAccepted},
		{
			"with another's claims",
			strings.Split(good.Token, ".")[0] + "." + strings.Split(stray.Token, ".")[1] + "." + strings.Split(good.Token, ".")[2],
			verdict.CredentialNotAccepted,
		},
	} {
		if err := refusal(t.Context(), c, credential.token, credential.want); err != nil {
			t.Errorf("%s: %v", credential.name, err)
		}
	}
	demandRefused(t, c, "", verdict.CredentialMissing)
	awaitAccepted(t, c, good)
	explains(t, s, good, stray, "namespace_not_accepted")
	recorded(t, s, trail, ledger)
	p.Stop()
}

// explains has the command tell a good bearer from one that is refused for a reason, and both from a question that it cannot ask.
func explains(t *testing.T, s *tokenauth.Site, good, bad *tokenauth.Bearer, reason string) {
	t.Helper()
	settings := program.Settings(t, s.Settings())
	for _, c := range []struct {
		name  string
		token string
		code  int
		want  []string
	}{
		{"a good token", good.Token, 0, []string{string(good.Pod.UID), "supervisor.current"}},
		{"a bad token", bad.Token, 2, []string{reason}},
	} {
		if output, code := explain(t, s, settings, c.token); code != c.code || !containsAll(output, c.want) {
			t.Errorf("explain of %s exits with %d:\n%s", c.name, code, output)
		}
	}
	cmd := program.Command(t, "tokenauth", "explain", "--config", settings, "--token-file", filepath.Join(t.TempDir(), "none"))
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("explain without a token exits with %d:\n%s", cmd.ProcessState.ExitCode(), out)
	}
}

// explain runs the command about one token.
func explain(t *testing.T, s *tokenauth.Site, settings, token string) (output string, code int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := program.Command(t, "tokenauth", "explain", "--config", settings, "--token-file", path)
	out, _ := cmd.CombinedOutput() // its error is the exit code
	s.Watch(func() string { return string(out) })
	return string(out), cmd.ProcessState.ExitCode()
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func TestOperatorMode(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	i := installation.New(t, cluster.Start(t, cluster.ControlPlane), server.URL())
	i.Bounds = short
	i.Bootstrap(1)
	s := tokenauth.Operator(t, i)
	trail := s.Audit()
	p := s.Start()
	c := s.Client(p)
	ledger := c.Remember()
	good := s.Bearer(s.Namespace)
	p.AwaitNotReady("allowlist")
	demandRefused(t, c, good.Token, verdict.Unsynced)

	watcher := i.Nswatch()
	s.Watch(watcher.Output)
	p.AwaitReady()
	awaitAccepted(t, c, good)
	refuseFlaws(t, s, c)
	stray := s.Bearer(s.Cluster.Namespace(t))
	demandRefused(t, c, stray.Token, verdict.NotListed)
	explains(t, s, good, stray, "not_listed")

	// The label comes and goes, and the bearer with it.
	i.SetLabel(stray.Pod.Namespace)
	awaitAccepted(t, c, stray)
	i.RemoveLabel(stray.Pod.Namespace)
	awaitRefused(t, c, stray.Token, verdict.NotListed)
	awaitAccepted(t, c, good)

	// NATS goes: nobody is trusted any longer than the bounds say, and what changed meanwhile counts afterwards.
	server.Stop()
	awaitRefused(t, c, good.Token, verdict.Stale)
	p.AwaitNotReady("allowlist")
	i.SetLabel(stray.Pod.Namespace)
	i.RemoveLabel(good.Pod.Namespace)
	server.Start()
	awaitAccepted(t, c, stray)
	awaitRefused(t, c, good.Token, verdict.NotListed)
	p.AwaitReady()

	// nswatch goes: nobody vouches for the list.
	watcher.Kill()
	awaitRefused(t, c, stray.Token, verdict.Stale)
	recorded(t, s, trail, ledger)
	p.Stop()
}
