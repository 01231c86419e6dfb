package app_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
)

// kept is what no line may have, in whichever field of a request it comes.
const kept = "hush-hush"

// full is a sandbox with it wherever a caller may put what is secret.
func full(t *testing.T) *computev1.DriverSandbox {
	t.Helper()
	config, err := structpb.NewStruct(map[string]any{"pod": map[string]any{"node_selector": map[string]any{"zone": kept}}})
	if err != nil {
		t.Fatal(err)
	}
	return &computev1.DriverSandbox{
		Id: "4b67c0d0-1111-2222-3333-444444444444", Name: "box", Workspace: "team",
		Spec: &computev1.DriverSandboxSpec{
			Command: []string{"/bin/run", "--password", kept}, Environment: map[string]string{"TOKEN": kept}, SandboxToken: kept,
			LaunchAuthentication: []byte(kept), Policy: []byte(kept),
			Template: &computev1.DriverSandboxTemplate{
				Image: "registry.example/agent:1", Environment: map[string]string{"TOKEN": kept}, DriverConfig: config,
			},
		},
	}
}

// refusedCalls are calls that are refused, by the code that they get when nobody can prove the list of a cluster without objects.
func refusedCalls(t *testing.T) map[codes.Code]func(context.Context, computev1.ComputeDriverClient) error {
	t.Helper()
	fitting := full(t)
	fitting.Spec.Template.DriverConfig = nil
	return map[codes.Code]func(context.Context, computev1.ComputeDriverClient) error{
		codes.Unavailable: func(ctx context.Context, d computev1.ComputeDriverClient) error {
			_, err := d.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: fitting})
			return err
		},
		codes.FailedPrecondition: func(ctx context.Context, d computev1.ComputeDriverClient) error {
			_, err := d.ValidateSandboxCreate(ctx, &computev1.ValidateSandboxCreateRequest{Sandbox: full(t)})
			return err
		},
		codes.InvalidArgument: func(ctx context.Context, d computev1.ComputeDriverClient) error {
			_, err := d.AuthenticateSandbox(ctx, &computev1.AuthenticateSandboxRequest{Credential: strings.Repeat(kept, 16<<10)})
			return err
		},
		codes.NotFound: func(ctx context.Context, d computev1.ComputeDriverClient) error {
			_, err := d.StartSandbox(ctx, &computev1.StartSandboxRequest{
				SandboxId: fitting.GetId(), GenerationId: "g0000000000000001", LaunchAuthentication: []byte(kept),
				ExpectedRuntimeIdentity: "kubernetes://team/uid-1/uid-2",
			})
			return err
		},
	}
}

// A refused call is one line of each process that it comes to, whatever its code; and with debug lines too, which have the requests, no line
// has a credential, a bundle, a command or the value of a variable.
func TestLogOfRefusedCalls(t *testing.T) {
	ways, lifecycle, relay := newSite(t).sockets("operator")
	calls := refusedCalls(t)
	for way, conn := range ways {
		for want, call := range calls {
			if err := call(t.Context(), computev1.NewComputeDriverClient(conn)); status.Code(err) != want {
				t.Errorf("over %s: %v, want %s", way, err, want)
			}
		}
	}
	lifecycle.Stop() // a line may come after the answer
	relay.Stop()
	for name, c := range map[string]struct {
		process *commandtest.Process
		message string
		times   int // each code
	}{
		"lifecycle": {lifecycle, "refused", len(ways)},
		"relay":     {relay, "gRPC call", 1},
	} {
		loud, quiet := linesWithCode(t, c.process)
		for code := range calls {
			if want := slices.Repeat([]string{c.message}, c.times); !slices.Equal(loud[code.String()], want) {
				t.Errorf("%s has for %s the lines %q, want %q", name, code, loud[code.String()], want)
			}
		}
		if name == "lifecycle" && (len(quiet) != len(ways)*len(calls) || !strings.Contains(c.process.Stderr.String(), `"command":["[redacted]","[redacted]","[redacted]"]`)) {
			t.Errorf("with debug lines the requests are not there, in %d of them", len(quiet))
		}
		if strings.Contains(c.process.Stderr.String(), kept) {
			t.Errorf("%s has logged what no line may have: %s", name, c.process.Stderr.String())
		}
	}
}

// linesWithCode are the messages of the lines that have a code: by it, those that an operator sees, and those of debug.
func linesWithCode(t *testing.T, p *commandtest.Process) (loud map[string][]string, quiet []string) {
	t.Helper()
	loud = map[string][]string{}
	for text := range strings.Lines(p.Stderr.String()) {
		var line struct {
			Level, Message string
			Code           string `json:"grpc_code"`
			Method         string `json:"grpc_method"`
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		switch {
		case line.Code == "" || strings.HasPrefix(line.Method, "/grpc.health"):
		case line.Level == "debug":
			quiet = append(quiet, line.Message)
		default:
			loud[line.Code] = append(loud[line.Code], line.Message)
		}
	}
	return loud, quiet
}
