package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/test/gateway/driver"
)

const policyPrefix = "v1:"

func handshakeChecks() []Check {
	return []Check{
		{
			ID: "capabilities.extension", Section: "2.3", Required: true, run: introduces,
			Says:   "the driver introduces itself by the rules of the handshake, and fits a gateway of protocol 1",
			Breaks: "the gateway does not start",
		},
		{
			ID: "capabilities.policy", Section: "2.4", Required: true, run: acknowledges,
			Says:   `resource_admission_policy is "v1:" and compact JSON with its keys in their order, or empty`,
			Breaks: "the gateway does not start, or refuses every launch",
		},
		{
			ID: "capabilities.stable", Section: "2.4", Required: true, run: stays,
			Says:   "every answer to the handshake has the same policy, byte for byte, whatever happens to sandboxes meanwhile",
			Breaks: "launches are refused with FAILED_PRECONDITION: the policy has changed",
		},
		{
			ID: "capabilities.flags", Section: "15.3", run: flagged,
			Says: "gateway_manages_lifecycle is false: the platform keeps sandboxes running without the gateway; supports_sandbox_authentication is true; " +
				"driver_reports_runtime_readiness is false: that a sandbox's supervisor is connected, the gateway learns from the supervisor",
			Breaks: "the gateway stops every sandbox when it ends, or asks for no identities, or shows a sandbox as Ready that nobody can reach",
		},
		{
			ID: "capabilities.prefixes", Section: "0.2", run: prefixed,
			Says:   "the service is served under both of its names",
			Breaks: "a gateway of the renamed protocol finds no service",
		},
	}
}

func introduces(ctx context.Context, p *probe) error {
	answer, err := p.driver.GetCapabilities(ctx, handshake())
	if err != nil {
		return fmt.Errorf("GetCapabilities: %w", err)
	}
	if answer.GetExtension() == nil {
		return errors.New("extension is missing")
	}
	return driver.Compatible(handshake().GetGateway(), answer.GetExtension())
}

// acknowledges compares the policy with what the reference driver would write for the same one.
func acknowledges(ctx context.Context, p *probe) error {
	answer, err := p.driver.GetCapabilities(ctx, handshake())
	if err != nil {
		return fmt.Errorf("GetCapabilities: %w", err)
	}
	given := answer.GetResourceAdmissionPolicy()
	if given == "" {
		return nil
	}
	text, ok := strings.CutPrefix(given, policyPrefix)
	if !ok {
		return fmt.Errorf("it begins with %q", short(given[:min(len(given), len(policyPrefix))]))
	}
	var policy driverconf.AdmissionPolicy
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&policy); err != nil {
		return fmt.Errorf("%q: %w", short(text), err)
	}
	want, err := canonical(policy)
	if err == nil && text != want {
		err = fmt.Errorf("it is %q, and written by the rules %q", short(text), short(want))
	}
	return err
}

func canonical(policy driverconf.AdmissionPolicy) (string, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(policy)
	return strings.TrimSuffix(b.String(), "\n"), err
}

func stays(ctx context.Context, p *probe) error {
	first, err := p.driver.GetCapabilities(ctx, handshake())
	if err != nil {
		return fmt.Errorf("GetCapabilities: %w", err)
	}
	same := func(int) error {
		again, err := p.driver.GetCapabilities(ctx, handshake())
		if err == nil && again.GetResourceAdmissionPolicy() != first.GetResourceAdmissionPolicy() {
			err = fmt.Errorf("first %q, then %q", short(first.GetResourceAdmissionPolicy()), short(again.GetResourceAdmissionPolicy()))
		}
		return err
	}
	const callers = 16
	if err := together(callers, same); err != nil {
		return err
	}
	if _, err := p.create(ctx); err != nil {
		return err
	}
	return together(callers, same)
}

func flagged(ctx context.Context, p *probe) error {
	answer, err := p.driver.GetCapabilities(ctx, handshake())
	if err != nil {
		return fmt.Errorf("GetCapabilities: %w", err)
	}
	for _, flag := range []struct {
		name      string
		got, want bool
	}{
		{"gateway_manages_lifecycle", answer.GetGatewayManagesLifecycle(), false},
		{"supports_sandbox_authentication", answer.GetSupportsSandboxAuthentication(), true},
		{"driver_reports_runtime_readiness", answer.GetDriverReportsRuntimeReadiness(), false},
	} {
		if flag.got != flag.want {
			err = errors.Join(err, fmt.Errorf("%s is %t", flag.name, flag.got))
		}
	}
	return err
}

func prefixed(ctx context.Context, p *probe) error {
	var problems []error
	for _, prefix := range contract.Prefixes() {
		conn, err := contract.NewConn(p.target.Conn(), prefix)
		if err != nil {
			return err
		}
		_, err = computev1.NewComputeDriverClient(conn).GetCapabilities(ctx, handshake())
		problems = append(problems, expect(fmt.Sprintf("GetCapabilities under %s", prefix), err, codes.OK))
	}
	return errors.Join(problems...)
}
