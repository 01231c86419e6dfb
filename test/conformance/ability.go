package conformance

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/test/gateway/driver"
)

// ability says what a target or its driver lacks; nothing when it is able.
type ability func(ctx context.Context, target Target) string

func asked[T any](what string) ability {
	return func(_ context.Context, target Target) string {
		if _, ok := target.(T); ok {
			return ""
		}
		return what
	}
}

var (
	canForbid  = asked[Forbidder]("a workspace that may not be used")
	canDisturb = asked[Disturber]("a way to kill the driver")
	canTouch   = asked[Toucher]("a way to change the platform's record of a sandbox")
	canPresent = asked[Presenter]("the credential of a sandbox's supervisor")
)

// advertises is an ability of the driver by its answer to a handshake.
func advertises(what string, does func(*computev1.GetCapabilitiesResponse) bool) ability {
	return func(ctx context.Context, target Target) string {
		ctx, cancel := context.WithTimeout(ctx, patience(target))
		defer cancel()
		answer, err := computev1.NewComputeDriverClient(target.Conn()).GetCapabilities(ctx, handshake())
		if err == nil && does(answer) {
			return ""
		}
		return what
	}
}

var (
	authenticates   = advertises("a driver that authenticates sandboxes", (*computev1.GetCapabilitiesResponse).GetSupportsSandboxAuthentication)
	unauthenticated = advertises("a driver that does not authenticate sandboxes", func(a *computev1.GetCapabilitiesResponse) bool {
		return !a.GetSupportsSandboxAuthentication()
	})
	wantsBundle = advertises("a driver that requires launch credentials", func(a *computev1.GetCapabilitiesResponse) bool {
		return slices.Contains(a.GetExtension().GetRequiredCapabilities(), driver.CapabilityLaunch)
	})
	takesConfig   = advertises("a driver that takes driver_config", func(a *computev1.GetCapabilitiesResponse) bool { return allowsConfig(a) })
	refusesConfig = advertises("a driver that does not take driver_config", func(a *computev1.GetCapabilitiesResponse) bool { return !allowsConfig(a) })
)

// allowsConfig reads the policy that the driver acknowledges (contract 2.4).
func allowsConfig(a *computev1.GetCapabilitiesResponse) bool {
	var policy driverconf.AdmissionPolicy
	text := strings.TrimPrefix(a.GetResourceAdmissionPolicy(), policyPrefix)
	return json.Unmarshal([]byte(text), &policy) == nil && policy.AllowDriverConfig
}

func handshake() *computev1.GetCapabilitiesRequest {
	return &computev1.GetCapabilitiesRequest{Gateway: driver.Gateway("conformance")}
}
