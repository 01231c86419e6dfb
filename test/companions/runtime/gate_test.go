package runtime_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
)

func TestBearerIsChecked(t *testing.T) {
	t.Parallel()
	s := served(t)
	claim := func(name string, value any) func(_, c materialtest.Object) {
		return func(_, c materialtest.Object) { c[name] = value }
	}
	forged := materialtest.Make(t, s.address)
	for name, tc := range map[string]struct{ authorization, want string }{
		"none":               {"", "authorization"},
		"another scheme":     {"Basic " + s.Token(t, nil), "scheme"},
		"no token":           {"Bearer ", "not a signed token"},
		"another signer":     {"Bearer " + forged.Token(t, nil), "signature"},
		"another audience":   {"Bearer " + s.Token(t, claim("aud", "openshell-gateway")), "aud"},
		"another generation": {"Bearer " + s.Token(t, claim("runtime_generation", "g1")), "runtime_generation"},
		"another epoch":      {"Bearer " + s.Token(t, claim("auth_epoch", 4)), "auth_epoch"},
		"another sandbox":    {"Bearer " + s.Token(t, claim("sandbox_id", "other")), "sandbox_id"},
		"another component":  {"Bearer " + s.Token(t, claim("component", "openshell-sandbox")), "component"},
		"expired": {"Bearer " + s.Token(t, func(_, c materialtest.Object) {
			c["iat"], c["exp"] = time.Now().Add(-time.Hour).Unix(), time.Now().Add(-time.Minute).Unix()
		}), "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cc := s.dial(t, tc.authorization)
			refused(t, ask(companionstest.Limit(t), cc, attach(boundary.NewUUID()), new(boundary.Attached)), boundary.Denied, tc.want)
		})
	}
	t.Run("two", func(t *testing.T) {
		t.Parallel()
		cc := s.trusted(t)
		ctx := metadata.AppendToOutgoingContext(companionstest.Limit(t), "authorization", "Bearer "+s.Token(t, nil))
		refused(t, ask(ctx, cc, attach(boundary.NewUUID()), new(boundary.Attached)), boundary.Denied, "not one authorization")
	})
}

func TestAttachComparesClaims(t *testing.T) {
	t.Parallel()
	s := served(t)
	cc := s.trusted(t)
	for name := range claims() {
		for how, change := range map[string]func(map[string]string){
			"differs": func(c map[string]string) { c[name] += "0" },
			"missing": func(c map[string]string) { delete(c, name) },
		} {
			req := attach(boundary.NewUUID())
			change(req.ResourceClaims)
			err := ask(companionstest.Limit(t), cc, req, new(boundary.Attached))
			t.Log(name, how)
			refused(t, err, boundary.Denied, name)
		}
	}
	req := attach(boundary.NewUUID())
	req.ResourceClaims["kubernetes.more"] = "x"
	refused(t, ask(companionstest.Limit(t), cc, req, new(boundary.Attached)), boundary.Denied, "kubernetes.more")
	refused(t, ask(companionstest.Limit(t), cc, attach("supervisor"), new(boundary.Attached)), boundary.Invalid, "supervisor_instance_id")
	// None of these attached.
	refused(t, ask(companionstest.Limit(t), cc, confirm, new(boundary.Confirmation)), boundary.Denied, "confirm")
	must(companionstest.Limit(t), t, cc, attach(boundary.NewUUID()), new(boundary.Attached))
}

func TestReplacedPodIsNotAttached(t *testing.T) {
	t.Parallel()
	for name, uid := range map[string]string{"another Pod": "99999999-0000-4000-8000-000000000000", "half of it": materialtest.PodUID[:8]} {
		s, err := serve(t, func(m *materialtest.Material) { m.PodUID = uid })
		if err != nil {
			t.Fatal(err)
		}
		t.Log(name)
		refused(t, ask(companionstest.Limit(t), s.trusted(t), attach(boundary.NewUUID()), new(boundary.Attached)), boundary.Denied, "kubernetes.workload_pod_uid")
	}
	s := served(t)
	if err := os.WriteFile(s.files.PodUID, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, ask(companionstest.Limit(t), s.trusted(t), attach(boundary.NewUUID()), new(boundary.Attached)), boundary.Unavailable, "workload_pod_uid")
	if err := os.Remove(s.files.PodUID); err != nil {
		t.Fatal(err)
	}
	refused(t, ask(companionstest.Limit(t), s.trusted(t), attach(boundary.NewUUID()), new(boundary.Attached)), boundary.Unavailable, "workload_pod_uid")
}

func TestNothingBeforeConfirm(t *testing.T) {
	t.Parallel()
	s := served(t)
	ctx := companionstest.Limit(t)
	first, second := s.trusted(t), s.trusted(t)
	every := func(cc *grpc.ClientConn) {
		t.Helper()
		refused(t, ask(ctx, cc, confirm, new(boundary.Confirmation)), boundary.Denied, "attached")
		others(ctx, t, cc)
	}
	every(first)
	instance := boundary.NewUUID()
	must(ctx, t, first, attach(instance), new(boundary.Attached))
	others(ctx, t, first)
	every(second)
	must(ctx, t, first, confirm, new(boundary.Confirmation))
	every(second)
	// Another supervisor cannot attach; the same may, on a new connection, which takes it from the old.
	refused(t, ask(ctx, second, attach(boundary.NewUUID()), new(boundary.Attached)), boundary.Denied, "another supervisor")
	must(ctx, t, second, attach(instance), new(boundary.Attached))
	every(first)
	others(ctx, t, second)
	must(ctx, t, second, confirm, new(boundary.Confirmation))
	out, _, _ := execute(ctx, t, second, exec(t, "echo", "through"), "")
	if out != "through\n" {
		t.Errorf("output %q", out)
	}
}

// others checks that every operation that needs a confirmation is denied.
func others(ctx context.Context, t *testing.T, cc *grpc.ClientConn) {
	t.Helper()
	for _, req := range []any{
		boundary.StartAgent{Operation: boundary.OpStartAgent, Command: companionstest.Command(t, "echo"), Workdir: "/"},
		exec(t, "echo"),
		boundary.Wait{Operation: boundary.OpWait, ProcessID: "p"},
		boundary.Signal{Operation: boundary.OpSignal, ProcessID: "p", Signal: 15},
		boundary.Terminate{Operation: boundary.OpTerminate, ProcessID: "p"},
		boundary.LoopbackConnect{Operation: boundary.OpLoopbackConnect, Port: 1},
		boundary.Operation{Operation: "terminate_boundary"},
	} {
		refused(t, ask(ctx, cc, req, new(boundary.Started)), boundary.Denied, "no supervisor has confirmed")
	}
}

func TestConfirmationIsMeasured(t *testing.T) {
	t.Parallel()
	s, err := serve(t, func(m *materialtest.Material) {
		m.Boundary["workload_identity"].(materialtest.Object)["uid"] = os.Getuid() + 1
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cc, instance := companionstest.Limit(t), s.trusted(t), boundary.NewUUID()
	var attached boundary.Attached
	must(ctx, t, cc, attach(instance), &attached)
	if attached != (boundary.Attached{SessionID: materialtest.SessionID, Generation: materialtest.Generation}) {
		t.Errorf("attached to %+v", attached)
	}
	var c boundary.Confirmation
	must(ctx, t, cc, confirm, &c)
	switch {
	case c.Identity.UID != uint32(os.Getuid()):
		t.Errorf("uid %d is not measured", c.Identity.UID)
	case c.AuthenticatedSupervisor != instance, c.SessionID != materialtest.SessionID, c.Generation != materialtest.Generation,
		!reflect.DeepEqual(c.ResourceClaims, claims()), !c.RuntimeExitTerminatesWorkload, c.OuterFence.EvidenceDigest != materialtest.Evidence(materialtest.Generation):
		t.Errorf("confirmation %+v", c)
	case c.FilesystemConfinement.Enforced, c.EgressInterception.Enforced, c.RequestAttribution.Enforced:
		t.Errorf("the stand-in claims what it does not do: %+v", c)
	}
}

func TestFramesAreChecked(t *testing.T) {
	t.Parallel()
	s := served(t)
	ctx, cc := companionstest.Limit(t), s.trusted(t)
	valid, _, err := boundary.Seal(attach(boundary.NewUUID()))
	if err != nil {
		t.Fatal(err)
	}
	var e map[string]any
	if err := json.Unmarshal(valid, &e); err != nil {
		t.Fatal(err)
	}
	envelope := func(key string, value any) []byte {
		spoilt := map[string]any{}
		for k, v := range e {
			spoilt[k] = v
		}
		spoilt[key] = value
		b, err := json.Marshal(spoilt)
		if err != nil {
			t.Fatal(err)
		}
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	for name, tc := range map[string]struct {
		wire []byte
		want string
	}{
		"too long":      {binary.BigEndian.AppendUint32(nil, boundary.MaxFrame+1), "frame of 1048577 bytes"},
		"empty":         {make([]byte, 4), "frame of 0 bytes"},
		"no UUID":       {envelope("request_id", "1"), "request_id"},
		"unknown field": {envelope("more", 1), "more"},
		"not JSON":      {[]byte{0, 0, 0, 1, '{'}, "envelope"},
		"bad digest":    {envelope("payload_digest", "00"), "payload_digest"},
		"no object":     {sealed(t, []int{1}), "operation"},
		"unknown field of the operation": {
			sealed(t, map[string]any{"operation": "confirm", "more": 1}), "more",
		},
		"key in capitals": {sealed(t, map[string]any{"OPERATION": "confirm"}), "OPERATION"},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := boundary.Dial(ctx, cc)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Write(tc.wire); err != nil {
				t.Fatal(err)
			}
			answer, err := boundary.ReadFrame(stream)
			if err == nil {
				var reply boundary.Reply
				if err := json.Unmarshal(answer, &reply); err != nil {
					t.Fatal(err)
				}
				err = boundary.OpenReply(answer, reply.RequestID, new(boundary.Attached))
				refused(t, err, boundary.Invalid, tc.want)
				return
			}
			refused(t, boundary.AsFailure(err), boundary.Invalid, tc.want)
		})
	}
}

func sealed(t *testing.T, request any) []byte {
	t.Helper()
	frame, _, err := boundary.Seal(request)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
}

func TestOnlyNewTLS(t *testing.T) {
	t.Parallel()
	s := served(t)
	dial := func(cfg *tls.Config) error {
		cfg.InsecureSkipVerify = true // the other half is tested with the supervisor
		d := tls.Dialer{Config: cfg}
		conn, err := d.DialContext(companionstest.Limit(t), "tcp", s.address)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		// The server speaks first. One that only later sees what it does not like closes instead.
		_, err = conn.Read(make([]byte, 1))
		return err
	}
	if err := dial(&tls.Config{NextProtos: []string{"h2"}}); err != nil {
		t.Fatalf("TLS 1.3 with h2: %v", err)
	}
	if err := dial(&tls.Config{NextProtos: []string{"h2"}, MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 is accepted")
	}
	if err := dial(&tls.Config{NextProtos: []string{"http/1.1"}}); err == nil {
		t.Error("HTTP/1.1 is accepted")
	}
}
