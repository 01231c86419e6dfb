package secret_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	sandboxv1 "github.com/portcullis-mesh/portcullis/proto/openshell/sandbox/v1"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// contractRequests are the messages of contract 1.7 that carry secrets, with s in
// each of their secret fields, and wherever else a person may put one.
func contractRequests(t testing.TB, s []byte) map[string]proto.Message {
	t.Helper()
	text := strings.ToValidUTF8(string(s), "?")
	policy := &sandboxv1.SandboxPolicy{NetworkMiddlewares: map[string]*sandboxv1.NetworkMiddlewareConfig{
		"filter": {Config: block(t, map[string]any{"api_key": text})},
	}}
	encoded, err := proto.Marshal(policy)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	create := &computev1.CreateSandboxRequest{Sandbox: &computev1.DriverSandbox{
		Id: "sb-1", Name: "demo", Workspace: "team-a",
		Spec: &computev1.DriverSandboxSpec{
			LogLevel: "info", Command: []string{"sh", "-c", text},
			Environment: map[string]string{"HOME": text}, SandboxToken: text, LaunchAuthentication: s,
			Policy: encoded,
			Template: &computev1.DriverSandboxTemplate{
				Image: "example/image:1", Environment: map[string]string{"TOKEN": text},
				PlatformConfig: block(t, map[string]any{"zone": text, "environment": map[string]any{"TOKEN": text}}),
				DriverConfig: block(t, map[string]any{
					"containers": []any{map[string]any{"args": []any{text, true, nil, 5432.0}}},
				}),
			},
		},
	}}
	wrapped, err := anypb.New(create)
	if err != nil {
		t.Fatalf("pack: %v", err)
	}
	return map[string]proto.Message{
		"authenticate": &computev1.AuthenticateSandboxRequest{Credential: text},
		"create":       create,
		"validate":     &computev1.ValidateSandboxCreateRequest{Sandbox: create.GetSandbox()},
		"start": &computev1.StartSandboxRequest{
			SandboxId: "sb-1", Name: "demo", LaunchAuthentication: s, GenerationId: "g-1",
		},
		"list":    &computev1.ListSandboxesResponse{Sandboxes: []*computev1.DriverSandbox{create.GetSandbox()}},
		"wrapped": wrapped,
		"policy":  policy, // a driver sees it as bytes; whoever decodes it must not leak either
	}
}

func block(t testing.TB, fields map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(fields)
	if err != nil {
		t.Fatalf("make struct: %v", err)
	}
	return s
}

func TestContractRendering(t *testing.T) {
	requests := contractRequests(t, []byte("hunter2"))
	for name, want := range map[string]string{
		"authenticate": `openshell.compute.v1.AuthenticateSandboxRequest{"credential":"[redacted]"}`,
		"start": `openshell.compute.v1.StartSandboxRequest{"sandbox_id":"sb-1","name":"demo",` +
			`"launch_authentication":"[redacted]","generation_id":"g-1"}`,
		"create": `openshell.compute.v1.CreateSandboxRequest{"sandbox":{"id":"sb-1","name":"demo",` +
			`"spec":{"log_level":"info","environment":{"HOME":"[redacted]"},"template":{"image":"example/image:1",` +
			`"environment":{"TOKEN":"[redacted]"},"platform_config":{"fields":{` +
			`"environment":{"struct_value":{"fields":{"TOKEN":{"string_value":"[7 bytes]"}}}},"zone":{"string_value":"[7 bytes]"}}},` +
			`"driver_config":{"fields":{"containers":{"list_value":{"values":[{"struct_value":{"fields":{"args":{"list_value":{"values":[` +
			`{"string_value":"[7 bytes]"},{"bool_value":"[bool]"},{"null_value":"[enum]"},{"number_value":"[double]"}]}}}}}]}}}}},` +
			`"policy":"[36 bytes]","sandbox_token":"[redacted]","command":["[redacted]","[redacted]","[redacted]"],"launch_authentication":"[redacted]"},` +
			`"workspace":"team-a"}}`,
	} {
		if diff := cmp.Diff(want, secret.Redacted(requests[name]).String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestContractNeverLeaks searches for secrets that cannot occur by chance.
func TestContractNeverLeaks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	secrets := [][]byte{[]byte(plain), []byte(`eyJhbGciOi.JIUzI1NiJ9"}`)}
	for range 100 {
		b := make([]byte, 16+random.IntN(100))
		for i := range b {
			b[i] = byte(random.UintN(256))
		}
		secrets = append(secrets, b)
	}
	for _, s := range secrets {
		for name, request := range contractRequests(t, s) {
			got := outputs(t, request)
			noLeak(t, name, got, s)
			noLeak(t, name+" as text", got, []byte(strings.ToValidUTF8(string(s), "?")))
		}
	}
}

// FuzzContract: whatever secret bytes a gateway sends, no output depends on them,
// so that none contains them in any encoding.
func FuzzContract(f *testing.F) {
	f.Add([]byte(plain))
	f.Add([]byte(secret.Marker))
	f.Fuzz(func(t *testing.T, s []byte) {
		s = []byte(strings.ToValidUTF8(string(s), "?"))
		if len(s) == 0 {
			return
		}
		neutral := contractRequests(t, bytes.Repeat([]byte{'~'}, len(s)))
		for name, request := range contractRequests(t, s) {
			if got, want := outputs(t, request), outputs(t, neutral[name]); got != want {
				t.Errorf("%s depends on the secret:\n%s\n%s", name, got, want)
			}
		}
	})
}
