package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/companions/session"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is a gateway that runs, in this process.
type program struct {
	t       *testing.T
	ctx     context.Context
	driver  *scripted.Driver
	control string
	address string
	log     *companionstest.Output
}

func begin(t *testing.T) *program {
	t.Helper()
	p := &program{t: t, ctx: companionstest.Limit(t), driver: scripted.Start(t), log: companionstest.NewOutput()}
	dir, err := os.MkdirTemp("", "gw") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	p.control = filepath.Join(dir, "control.sock")
	config := filepath.Join(dir, "gateway.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "[openshell.drivers.kubernetes]\nsocket_path = %q\n", p.driver.Socket()), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"run", "--config", config, "--records", filepath.Join(dir, "records.db"), "--control", p.control}, nil, p.log, p.log)
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("run ended with %d:\n%s", code, p.log)
		}
		_ = os.RemoveAll(dir)
	})
	p.log.Await(p.ctx, t, `"event":"Connected"`)
	p.driver.AwaitWatches(p.ctx, 1)
	p.address = regexp.MustCompile(`"address":"([^"]+)"`).FindStringSubmatch(p.log.String())[1]
	for { // the socket may come a moment later
		if out, code := p.use("list"); code == 0 || p.ctx.Err() != nil {
			return p
		} else if !strings.Contains(out, "ask the gateway") {
			t.Fatal(out)
		}
	}
}

// use runs a command and returns what it said and its exit code.
func (p *program) use(args ...string) (string, int) {
	var out bytes.Buffer
	args = append(args[:1:1], append([]string{"--control", p.control}, args[1:]...)...)
	code := run(p.ctx, args, strings.NewReader("in"), &out, &out)
	return out.String(), code
}

// said runs a command that must succeed and say want.
func (p *program) said(want string, args ...string) string {
	p.t.Helper()
	out, code := p.use(args...)
	if code != 0 || !strings.Contains(out, want) {
		p.t.Fatalf("%v: %d, %q, want %q", args, code, out, want)
	}
	return out
}

// supervise plays the sandbox's supervisor: every command says what it was given, and exits with 3.
func (p *program) supervise(id string) {
	p.t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+p.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cc.Close() })
	bearing := func(token string) context.Context {
		return metadata.AppendToOutgoingContext(p.ctx, "authorization", "Bearer "+token)
	}
	issued, err := session.Issue(bearing(scripted.Bearer(id)), cc, session.IssueRequest{SandboxID: id})
	if err != nil {
		p.t.Fatal(err)
	}
	client, err := session.Open(bearing(issued.Token), cc)
	if err == nil {
		err = client.Accepted()
	}
	if err == nil {
		err = client.Send(session.Up{Event: session.Confirmed, ProcessID: "main", Confirmation: &boundary.Confirmation{}})
	}
	if err != nil {
		p.t.Fatal(err)
	}
	go func() {
		for {
			m, err := client.Receive()
			if err != nil {
				return
			}
			switch m.Op {
			case session.Stdin:
				_ = client.Send(session.Up{ID: m.ID, Event: session.Stdout, Data: m.Data})
			case session.StdinClosed:
				_ = client.Send(session.Up{ID: m.ID, Event: session.Exited, Exit: &boundary.Exit{Code: 3}})
			default:
			}
		}
	}()
}

// TestLife: a user does everything through the program.
func TestLife(t *testing.T) {
	t.Parallel()
	p := begin(t)
	events := companionstest.NewOutput()
	watching, stop := context.WithCancel(p.ctx)
	watched := make(chan int, 1)
	go func() { watched <- run(watching, []string{"events", "--control", p.control}, nil, events, events) }()
	// The first event that it sees is one that happened behind its beginning.
	for seen := false; !seen; seen = strings.Contains(events.String(), "Swept") {
		p.said("", "sweep")
		if p.ctx.Err() != nil {
			t.Fatal("no events")
		}
	}
	id := strings.Fields(p.said("team-a/box  Provisioning", "create", "team-a", "box", "--image", "i", "--", "/tool", "serve"))[0]
	if sent := p.driver.Calls("CreateSandbox")[0].(*computev1.CreateSandboxRequest).GetSandbox().GetSpec(); len(sent.GetCommand()) != 2 || sent.GetTemplate().GetImage() != "i" {
		t.Errorf("sent %v %v", sent.GetCommand(), sent.GetTemplate())
	}
	p.driver.Show(id, scripted.Ready()...)
	p.supervise(id)
	events.Await(p.ctx, t, "Provisioning -> Ready")
	p.said("Ready", "get", id)
	if out, code := p.use("exec", "-i", id, "--", "/tool"); code != 3 || out != "in" {
		t.Errorf("%d, %q", code, out)
	}
	p.said("", "drop", id)
	events.Await(p.ctx, t, "Ready -> Provisioning")
	p.supervise(id)
	for ready := false; !ready && p.ctx.Err() == nil; {
		ready = strings.Contains(p.said("", "get", id), "Ready")
	}
	p.said("", "rotate-keys")
	p.said("", "stop", id)
	p.said("Stopped", "list")
	p.said("Starting", "start", id)
	if out, code := p.use("stop", id); code != 1 || !strings.Contains(out, "FailedPrecondition") {
		t.Errorf("%d, %q", code, out)
	}
	p.said("", "delete", id)
	events.Await(p.ctx, t, "Removed")
	p.said("", "delete-workspace", "team-a")
	p.said("", "ensure-workspace", "team-b")
	if out, code := p.use("get", id); code != 1 || !strings.Contains(out, "sandbox not found") {
		t.Errorf("%d, %q", code, out)
	}
	stop()
	if code := <-watched; code != 0 {
		t.Errorf("events ended with %d: %s", code, events)
	}
}

// TestRefused: what keeps the program from running, each with a reason.
func TestRefused(t *testing.T) {
	t.Parallel()
	d := scripted.Start(t)
	d.SetCapabilities(func(c *computev1.GetCapabilitiesResponse) { c.ResourceAdmissionPolicy = "v1:{}" })
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no records":    {[]string{"run"}, "records"},
		"no driver":     {[]string{"run", "--records", at("1")}, "socket_path"},
		"no such file":  {[]string{"run", "--records", at("2"), "--config", at("none")}, "none"},
		"no prefix":     {[]string{"run", "--records", at("3"), "--prefix", "x"}, "--prefix"},
		"no key":        {[]string{"run", "--records", at("4"), "--compute-driver-socket", d.Socket(), "--tls-cert", at("none")}, "--tls-cert"},
		"not reachable": {[]string{"run", "--records", at("5"), "--compute-driver-socket", at("none.sock"), "--connect-deadline", "1ms"}, "could not be reached"},
		"other policy":  {[]string{"run", "--records", at("6"), "--compute-driver-socket", d.Socket()}, "policies differ"},
		"nobody there":  {[]string{"list", "--control", at("none.sock")}, "ask the gateway"},
		"no such word":  {[]string{"frobnicate"}, "unknown command"},
	} {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if code := run(ctx, tc.args, nil, &out, &out); code != 1 || !strings.Contains(out.String(), tc.want) {
			t.Errorf("%s: %d, %q", name, code, out.String())
		}
		cancel()
	}
}
