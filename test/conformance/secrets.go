package conformance

import (
	"bytes"
	"context"
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
		if bytes.Contains(text, one) {
			return fmt.Errorf("%s holds a secret of %d bytes", what, len(one))
		}
	}
	return nil
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
	for _, one := range s.of(wish.GetId(), 0) {
		problems = append(problems, shows("a snapshot of the watch", one.sandbox, hidden), shows("an event of the watch", one.platform, hidden))
	}
	return errors.Join(problems...)
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
