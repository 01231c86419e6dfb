package app_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/app"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

// sockets are the two ways to a lifecycle: its own socket, and that of a relay.
func (s *site) sockets(mode string) (ways map[string]*grpc.ClientConn, lifecycle, relay *commandtest.Process) {
	s.t.Helper()
	s.up.Store(true)
	p := s.start("--config", s.settings(mode, `http_address = "127.0.0.1:0"`, `relay_listen_address = "127.0.0.1:0"`), "--log-level", "debug")
	address, _ := p.Line("serving relays")["address"].(string)
	p.Line("serving the driver")
	beside := filepath.Join(s.dir, "r", "driver.sock")
	r := s.start("relay", "--config", commandtest.WriteFile(s.t, s.dir, "relay.toml", fmt.Sprintf(`[openshell.drivers.kubernetes]
socket_path = %q
[portcullis.mesh]
allow_plaintext_loopback = true
[portcullis.relay]
lifecycle_address = %q
http_address = "127.0.0.1:0"
`, beside, address)))
	r.Line("serving the driver")
	dial := func(path string) *grpc.ClientConn {
		conn, err := udsock.NewClient(path)
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	return map[string]*grpc.ClientConn{"the socket": dial(filepath.Join(s.dir, "s", "driver.sock")), "the relay": dial(beside)}, p, r
}

// wire is a codec that sends bytes as they are.
type wire struct{}

func (wire) Name() string { return "proto" }

func (wire) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (wire) Unmarshal(data mem.BufferSlice, v any) error {
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}

func field(number protowire.Number, content ...byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

// Bytes that are no message of the contract are refused by the contract's code and the field, under each prefix and both ways.
func TestMalformedRequests(t *testing.T) {
	hidden := []byte("hidden\xff")
	cases := map[string]struct {
		method string
		sent   []byte
		says   string
	}{
		"an id":                 {"GetSandbox", field(1, hidden...), "sandbox_id: is not valid UTF-8"},
		"a sandbox's name":      {"CreateSandbox", field(1, field(2, hidden...)...), "sandbox.name: is not valid UTF-8"},
		"a credential":          {"AuthenticateSandbox", field(1, hidden...), "credential: is not valid UTF-8"},
		"a workspace":           {"EnsureWorkspace", field(1, hidden...), "workspace: is not valid UTF-8"},
		"another workspace":     {"DeleteWorkspace", field(1, hidden...), "workspace: is not valid UTF-8"},
		"a start's generation":  {"StartSandbox", field(4, hidden...), "generation_id: is not valid UTF-8"},
		"a gateway's name":      {"GetCapabilities", field(1, field(4, hidden...)...), "gateway.supported_capabilities[0]: is not valid UTF-8"},
		"no message":            {"StopSandbox", hidden, "the request is not a message that this method takes"},
		"no message of a watch": {"WatchSandboxes", hidden, "the request is not a message that this method takes"},
	}
	ways, _, _ := newSite(t).sockets("managed")
	for way, conn := range ways {
		for name, c := range cases {
			for _, prefix := range contract.Prefixes() {
				stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, prefix.FullMethod(c.method), grpc.ForceCodecV2(wire{}))
				if err != nil {
					t.Fatal(err)
				}
				_ = stream.SendMsg(c.sent) // io.EOF says that the answer is there already
				_ = stream.CloseSend()
				s := status.Convert(stream.RecvMsg(new(computev1.GetSandboxResponse)))
				if s.Code() != codes.InvalidArgument || !strings.HasPrefix(s.Message(), c.says) || strings.Contains(s.Message(), "hidden") || len(s.Details()) != 0 {
					t.Errorf("%s over %s as %s: %s %q with %v", name, way, prefix, s.Code(), s.Message(), s.Details())
				}
			}
		}
	}
}

// Workspaces that no namespace can be named by are refused by the field.
func TestHostileWorkspaces(t *testing.T) {
	ways, _, _ := newSite(t).sockets("managed")
	for way, conn := range ways {
		driver := computev1.NewComputeDriverClient(conn)
		for _, name := range []string{"", "Team", "a,b", "../x", "-x", "a\nb", strings.Repeat("a", 1<<16)} {
			_, ensure := driver.EnsureWorkspace(t.Context(), &computev1.EnsureWorkspaceRequest{Workspace: name})
			_, remove := driver.DeleteWorkspace(t.Context(), &computev1.DeleteWorkspaceRequest{Workspace: name})
			for call, err := range map[string]error{"EnsureWorkspace": ensure, "DeleteWorkspace": remove} {
				s := status.Convert(err)
				if rest, named := strings.CutPrefix(s.Message(), "workspace"); s.Code() != codes.InvalidArgument || !named || !strings.HasPrefix(rest, ": ") && !strings.HasPrefix(rest, " is ") || len(rest) > 400 {
					t.Errorf("%s of %.20q over %s: %v", call, name, way, err)
				}
			}
		}
	}
}

// What is sent to a gateway of many problems is the same both ways.
func TestManyProblems(t *testing.T) {
	environment := map[string]string{}
	for i := range 50 {
		environment[fmt.Sprintf("OPENSHELL_%d%s", i, strings.Repeat("x", 200))] = "hidden"
	}
	in := &computev1.CreateSandboxRequest{Sandbox: &computev1.DriverSandbox{Spec: &computev1.DriverSandboxSpec{Environment: environment}}}
	said := map[string]bool{}
	ways, _, _ := newSite(t).sockets("managed")
	for way, conn := range ways {
		_, err := computev1.NewComputeDriverClient(conn).CreateSandbox(t.Context(), in)
		s := status.Convert(err)
		if s.Code() != codes.InvalidArgument || len(s.Message()) < 2048 || !strings.HasSuffix(s.Message(), " more problems") || strings.Contains(s.Message(), "hidden") {
			t.Errorf("%s: %d bytes: %v", way, len(s.Message()), err)
		}
		said[s.Message()] = true
	}
	if len(said) != 1 {
		t.Errorf("the two ways say different things: %v", said)
	}
}

// Lifecycle works in the gateway's trace, whichever way the call comes, and its line about the call has the request as ever.
func TestTraceOfTheGateway(t *testing.T) {
	ways, lifecycle, _ := newSite(t).sockets("managed")
	for way, conn := range ways {
		trace := map[string]string{"the socket": "0af7651916cd43dd8448eb211c80319c", "the relay": "1af7651916cd43dd8448eb211c80319c"}[way]
		ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+trace+"-b7ad6b7169203331-01")
		if _, err := computev1.NewComputeDriverClient(conn).GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: "a,b"}); status.Code(err) != codes.InvalidArgument {
			t.Fatal(err)
		}
		commandtest.Eventually(t, "a line of lifecycle's has the trace of "+way, func() bool {
			for line := range strings.Lines(lifecycle.Stderr.String()) {
				if strings.Contains(line, trace) && strings.Contains(line, "GetSandbox") && strings.Contains(line, `"a,b"`) {
					return true
				}
			}
			return false
		})
	}
}

// Calls must not end sooner over a relay than over the socket.
func TestRelaysKeepTheTimeouts(t *testing.T) {
	for name, c := range map[string]struct {
		own, mesh []string
		says      string
	}{
		"no relays":                       {[]string{`stop_timeout = "10m"`}, nil, ""},
		"the defaults":                    {[]string{`relay_listen_address = ":0"`}, nil, ""},
		"a long stop":                     {[]string{`relay_listen_address = ":0"`, `stop_timeout = "10m"`}, nil, "portcullis.lifecycle.stop_timeout"},
		"a long create":                   {[]string{`relay_listen_address = ":0"`, `create_timeout = "10m"`, `abandoned_after = "20m"`}, nil, "portcullis.lifecycle.create_timeout"},
		"a long stop, and the mesh's too": {[]string{`relay_listen_address = ":0"`, `stop_timeout = "10m"`}, []string{`max_call_duration = "10m"`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			text := strings.Replace(s.stock("shared"), "[portcullis.mesh]\n", "[portcullis.mesh]\n"+strings.Join(append(c.mesh, ""), "\n"), 1) + "[portcullis.lifecycle]\n" + strings.Join(c.own, "\n") + "\n"
			got := program.Run(t.Context(), "config", "check", "--config", commandtest.WriteFile(t, s.dir, "gateway.toml", text))
			all := got.Stdout + got.Stderr
			if (got.Code != 0) != (c.says != "") || !strings.Contains(all, c.says) || c.says != "" && !strings.Contains(all, "max_call_duration") {
				t.Errorf("it ends with %d: %s", got.Code, all)
			}
		})
	}
}

// A watch over a relay lives as long as one over the socket; package meshrpc shows what the option does.
func TestWatchesOfRelaysAreNotCut(t *testing.T) {
	if !slices.Contains(app.RelayServerOptions(zerolog.Nop(), new(daemon.Checks)), meshrpc.EndlessStreams()) {
		t.Error("the server for relays ends streams with their connections")
	}
}
