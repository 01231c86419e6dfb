package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/apitest"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// noise is text that is nowhere else.
func noise(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	random := rand.New(rand.NewPCG(4, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[random.IntN(len(letters))]
	}
	return string(b)
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// badToken is what no API server authenticates, with the contract's code for it.
type badToken struct {
	token string
	code  codes.Code
}

// badTokens are the bad input that the service must bear.
func badTokens() map[string]badToken {
	valid := strings.Split(apitest.Token("sandboxes", apitest.PodName, apitest.PodUID), ".")
	claims := func(text string) string { return valid[0] + "." + encode(text) + "." + noise(342) }
	return map[string]badToken{
		"empty":            {"", codes.InvalidArgument},
		"huge":             {noise(20000), codes.InvalidArgument},
		"largest":          {noise(16384), codes.Unauthenticated},
		"short":            {noise(17), codes.Unauthenticated},
		"control bytes":    {"\x00\x01\x02" + noise(40) + "\x1b[2J" + noise(41), codes.Unauthenticated},
		"newlines":         {noise(50) + "\r\n" + noise(51) + "\n", codes.Unauthenticated},
		"no JWT":           {"Bearer " + noise(60), codes.Unauthenticated},
		"unsigned":         {encode(`{"alg":"none"}`) + "." + encode(`{"sub":"`+noise(30)+`"}`) + ".", codes.Unauthenticated},
		"self-signed":      {valid[0] + "." + valid[1] + "." + noise(340), codes.Unauthenticated},
		"another cluster":  {claims(`{"iss":"https://` + noise(31) + `","kubernetes.io":{"namespace":"sandboxes","pod":{"name":"` + apitest.PodName + `","uid":"u"}}}`), codes.Unauthenticated},
		"duplicate claims": {claims(`{"kubernetes.io":{},"kubernetes.io":{"namespace":"sandboxes"},"x":"` + noise(32) + `"}`), codes.Unauthenticated},
	}
}

// discloses names a part of token that is in text; empty when there is none. Parts are long enough not to be chance.
func discloses(text, token string) string {
	const size = 12
	for i := 0; i+size <= len(token); i += size / 2 {
		if part := token[i : i+size]; strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// TestNothingOfATokenIsDisclosed: whatever comes in, and however often the API server repeats it, the log at its most talkative,
// the metrics, the errors, the audit stream and the explanations hold nothing of it.
func TestNothingOfATokenIsDisclosed(t *testing.T) {
	t.Parallel()
	nc := startAudit(t)
	s := newSite(t, driverconf.ModeShared)
	settings := s.settings(driverconf.ModeShared, fmt.Sprintf("[portcullis.nats]\nurls = [%q]\n", nc.ConnectedUrl()))
	d := s.start(settings)
	d.AwaitReady()
	c := s.client(d)
	output := map[string]string{}
	decided := 0
	for _, echo := range []string{"[invalid bearer token, token lookup of %s failed]", "%s", ""} {
		s.Change(func(w *apitest.World) { w.RefusedWith = echo })
		for name, bad := range badTokens() {
			_, err := authenticate(t, c, bad.token)
			decided++
			v, _ := verdict.FromError(err)
			if status.Code(err) != bad.code || v.Outcome() != verdict.Denied {
				t.Errorf("%s: %v", name, err)
			}
			output["error of "+name+echo] = fmt.Sprint(err, v.Explain(), status.Convert(err).Details())
			explained := program.Run(t.Context(), "explain", "--config", settings, "-o", "json", "--token-file", write(t, "token", bad.token))
			output["explanation of "+name+echo] = explained.Stdout + explained.Stderr
			if explained.Code == 0 {
				t.Errorf("%s is accepted by explain", name)
			}
		}
	}
	// Bytes that are no text: in a file, and on the wire from a client that does not look at what it sends.
	binary := "\xff\xfe" + noise(44) + "\x80" + noise(45)
	explained := program.Run(t.Context(), "explain", "--config", settings, "--token-file", write(t, "token", binary))
	output["explanation of a binary file"] = explained.Stdout + explained.Stderr
	err := sendRaw(t, s.dial(d), binary)
	if s := status.Convert(err); s.Code() != codes.InvalidArgument || s.Message() != "credential: is not valid UTF-8" {
		t.Errorf("binary on the wire: %v", err)
	}
	output["error of binary on the wire"] = fmt.Sprint(err, status.Convert(err).Details())

	// The API server fails, and repeats what it was asked in its error.
	for name, bad := range badTokens() {
		s.On(apitest.TokenReviews, func(w http.ResponseWriter, r *http.Request) bool {
			return apitest.Fail(422, "Invalid", "spec.token: Invalid value: "+bad.token)(w, r)
		})
		_, err := authenticate(t, c, bad.token)
		decided++
		output["failure of "+name] = fmt.Sprint(err, status.Convert(err).Details())
	}
	output["audit stream"] = auditText(t, nc, decided)
	_, output["metrics"] = d.Get("/metrics")
	if code := d.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	output["log"] = d.Stderr.String() + d.Stdout.String()
	output["log of the libraries"] = library.String()
	if !strings.Contains(output["log"], `"error":"credential: is not valid UTF-8"`) {
		t.Error("the call with bytes that are no text has no line")
	}
	for where, text := range output {
		tokens := badTokens()
		tokens["binary"] = badToken{token: binary}
		for name, bad := range tokens {
			if part := discloses(text, bad.token); part != "" {
				t.Errorf("the %s holds %q of the token %q", where, part, name)
			}
		}
	}
}

// TestDisclosuresAreSeen: the search above can fail.
func TestDisclosuresAreSeen(t *testing.T) {
	for name, bad := range badTokens() {
		if bad.token != "" && discloses("before "+bad.token+" after", bad.token) == "" {
			t.Errorf("%s is not seen", name)
		}
	}
}

// asIs sends bytes as they are, whatever the method expects.
type asIs struct{}

func (asIs) Name() string { return "proto" }

func (asIs) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

func (asIs) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

// sendRaw calls with a credential that need not be text.
func sendRaw(t *testing.T, conn *grpc.ClientConn, credential string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandtest.Patience)
	defer cancel()
	request := protowire.AppendTag(nil, 1, protowire.BytesType)
	request = protowire.AppendString(request, credential)
	var answer []byte
	return conn.Invoke(ctx, tokenauthv1.TokenAuthService_Authenticate_FullMethodName, request, &answer, grpc.ForceCodec(asIs{}))
}

// TestLargeCredentials: whatever the transport takes gets the contract's code, and is decided, counted and recorded as any
// other; what it does not take ends cleanly. Nothing of either is told.
func TestLargeCredentials(t *testing.T) {
	t.Parallel()
	s := newSite(t, driverconf.ModeShared)
	d := s.start(s.settings(driverconf.ModeShared))
	d.AwaitReady()
	c := s.client(d)
	piece := noise(97)
	for size, want := range map[int]codes.Code{20_000: codes.InvalidArgument, 900 << 10: codes.InvalidArgument, 5 << 20: codes.ResourceExhausted} {
		_, err := authenticate(t, c, strings.Repeat(piece, size/len(piece)))
		v, decided := verdict.FromError(err)
		if status.Code(err) != want || decided != (want == codes.InvalidArgument) || (decided && v.Outcome() != verdict.Denied) {
			t.Errorf("%d bytes: %v %s", size, err, v.Explain())
		}
		if part := discloses(fmt.Sprint(err, status.Convert(err).Details()), piece); part != "" {
			t.Errorf("%d bytes: the error holds %q", size, part)
		}
	}
	if n := d.Metric(`portcullis_tokenauth_decisions_total{outcome="denied",reason="credential_too_large"}`); n != 2 {
		t.Errorf("%v are counted", n)
	}
	if _, err := authenticate(t, c, apitest.Valid(driverconf.ModeShared).Token); err != nil {
		t.Errorf("it goes on: %v", err)
	}
	d.Stop()
	if n := strings.Count(d.Stderr.String(), `"reason":"credential_too_large","step":"request.size"`); n < 2 {
		t.Errorf("%d are in the log", n)
	}
	if part := discloses(d.Stderr.String()+library.String(), piece); part != "" {
		t.Errorf("the log holds %q", part)
	}
}

// startAudit runs a NATS server with the audit stream.
func startAudit(t *testing.T) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(natstest.Start(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Bootstrap(t.Context(), js, audit.DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	return nc
}

// auditText is every event of the stream, once there are so many.
func auditText(t *testing.T, nc *nats.Conn, events int) string {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), audit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	commandtest.Eventually(t, "every decision is in the stream", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == uint64(events)
	})
	var b strings.Builder
	for seq := uint64(1); seq <= uint64(events); seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(m.Data)
	}
	if !strings.Contains(b.String(), `"token_hash"`) {
		t.Error("events name no token at all")
	}
	return b.String()
}
