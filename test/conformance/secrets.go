package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

func secretChecks() []Check {
	const leak = "whoever may read a sandbox's record, or the gateway's log, has the credentials of its supervisor"
	return []Check{
		{
			ID: "secrets.answers", Section: "15.1", Required: true, run: tellsNoSecret, Breaks: leak,
			Says: "no answer and no event holds launch_authentication, a token of it, or sandbox_token",
		},
		{
			ID: "secrets.errors", Section: "15.1", Required: true, run: refusesWithoutSecret, Breaks: leak,
			Says: "no error, in its text or its details, holds a credential, a token or the value of a variable",
		},
	}
}

// secrets are what of a request must not be seen again.
func secrets(wish *computev1.DriverSandbox) ([][]byte, error) {
	var bundle struct {
		Supervisor struct {
			GatewayToken string `json:"gateway_token"`
			SandboxToken string `json:"sandbox_token"`
		} `json:"supervisor"`
	}
	if err := json.Unmarshal(wish.GetSpec().GetLaunchAuthentication(), &bundle); err != nil {
		return nil, fmt.Errorf("the target's bundle is not readable: %w", err)
	}
	var all [][]byte
	for _, one := range []string{bundle.Supervisor.GatewayToken, bundle.Supervisor.SandboxToken, wish.GetSpec().GetSandboxToken()} {
		if one != "" {
			all = append(all, []byte(one))
		}
	}
	return all, nil
}

// shows is an error when a message holds one of the secrets.
func shows(what string, m proto.Message, all [][]byte) error {
	text, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	for _, one := range all {
		for _, spelling := range spellings(one) {
			if bytes.Contains(text, spelling) {
				return fmt.Errorf("%s holds a secret of %d bytes", what, len(one))
			}
		}
	}
	return nil
}

// spellings are a secret as it is, in hexadecimal digits, and in base64 wherever in a longer text it stands.
func spellings(of []byte) [][]byte {
	const group, bits = 3, 6
	all := [][]byte{of, []byte(hex.EncodeToString(of))}
	for before := range group {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := encoding.EncodeToString(append(make([]byte, before), of...))
			// The first and the last letters are of what stands beside it as well.
			first, last := (8*before+bits-1)/bits, 8*(before+len(of))/bits
			all = append(all, []byte(text[first:last]))
		}
	}
	return all
}

func tellsNoSecret(ctx context.Context, p *probe) error {
	s, err := p.watch(ctx)
	if err != nil {
		return err
	}
	wish, err := p.wish()
	if err != nil {
		return err
	}
	wish.Spec.SandboxToken = "token-" + hexadecimal(16)
	hidden, err := secrets(wish)
	if err != nil {
		return err
	}
	made, err := p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
	if err != nil {
		return fmt.Errorf("CreateSandbox: %w", err)
	}
	if _, err := p.tells(ctx, s, wish.GetId(), 0, phase.Ready); err != nil {
		return err
	}
	got, err := p.driver.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: wish.GetId()})
	if err != nil {
		return fmt.Errorf("GetSandbox: %w", err)
	}
	all, err := p.driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
	if err != nil {
		return fmt.Errorf("ListSandboxes: %w", err)
	}
	problems := []error{shows("CreateSandbox", made, hidden), shows("GetSandbox", got, hidden), shows("ListSandboxes", all, hidden)}
	again, more, err := p.anew(ctx, s, &box{wish: wish, id: wish.GetId(), identity: made.GetRuntimeIdentity()})
	if err != nil {
		return err
	}
	hidden = append(hidden, more...)
	problems = append(problems, shows("StartSandbox", again, hidden))
	for _, one := range s.of(wish.GetId(), 0) {
		problems = append(problems, shows("a snapshot of the watch", one.sandbox, hidden), shows("an event of the watch", one.platform, hidden))
	}
	return errors.Join(problems...)
}

// anew begins another run, and waits until the watch has told of it. It returns the answer and the run's secrets.
func (p *probe) anew(ctx context.Context, s *stream, b *box) (*computev1.StartSandboxResponse, [][]byte, error) {
	if err := p.stop(ctx, b.id); err != nil {
		return nil, nil, err
	}
	request, err := p.starting(b)
	if err != nil {
		return nil, nil, err
	}
	hidden, err := secrets(&computev1.DriverSandbox{Spec: &computev1.DriverSandboxSpec{LaunchAuthentication: request.GetLaunchAuthentication()}})
	if err != nil {
		return nil, nil, err
	}
	from := s.length()
	answer, err := p.driver.StartSandbox(ctx, request)
	if err == nil {
		_, err = p.tells(ctx, s, b.id, from, phase.Ready)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("StartSandbox: %w", err)
	}
	return answer, hidden, nil
}

func refusesWithoutSecret(ctx context.Context, p *probe) error {
	marker := "hush-" + hexadecimal(16)
	hidden := [][]byte{[]byte(marker)}
	wish, err := p.wish()
	if err != nil {
		return err
	}
	broken := []byte(`{"supervisor":{"session_id":"` + marker + `","gateway_token":"` + marker + `"},"` + marker + `":1}`)
	wish.Spec.LaunchAuthentication, wish.Spec.SandboxToken = broken, marker
	odd := proto.CloneOf(wish)
	odd.Spec.Environment = map[string]string{"A": marker + "\x00", "B=": marker}
	odd.Spec.Command = []string{marker + "\x00"}
	b, err := p.stopped(ctx)
	if err != nil {
		return err
	}
	request, err := p.starting(b)
	if err != nil {
		return err
	}
	request.LaunchAuthentication = broken
	var problems []error
	note := func(call string, err error) {
		problems = append(problems, shows("the error of "+call, status.Convert(err).Proto(), hidden))
	}
	_, err = p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
	note("CreateSandbox with a bad bundle", err)
	_, err = p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: odd})
	note("CreateSandbox with a bad environment", err)
	_, err = p.driver.ValidateSandboxCreate(ctx, &computev1.ValidateSandboxCreateRequest{Sandbox: odd})
	note("ValidateSandboxCreate", err)
	_, err = p.driver.StartSandbox(ctx, request)
	note("StartSandbox", err)
	for _, credential := range []string{marker, "a." + marker + ".b", "Bearer " + marker} {
		_, err = p.driver.AuthenticateSandbox(ctx, &computev1.AuthenticateSandboxRequest{Credential: credential})
		note("AuthenticateSandbox", err)
	}
	return errors.Join(problems...)
}
