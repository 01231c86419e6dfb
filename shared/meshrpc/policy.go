package meshrpc

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
)

// AnyDaemon in a [Policy] permits every caller whose certificate names a daemon of
// the mesh, whichever. It does not include plaintext callers.
const AnyDaemon = "*"

// HealthService is the gRPC health service. It is not exempt: a server that offers it
// must name it in its policy, usually for AnyDaemon.
const HealthService = "grpc.health.v1.Health"

// Policy says who may call what. A key is a service, "portcullis.tokenauth.v1.TokenAuth",
// or one method, "/portcullis.tokenauth.v1.TokenAuth/Authenticate"; a method's entry
// replaces its service's. The values are names of daemons, AnyDaemon or
// PlaintextCaller. What no key names is refused, and so is everything under the nil
// Policy.
type Policy map[string][]string

// validate reports all problems of the text of a policy in one error.
func (p Policy) validate() error {
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(p)) {
		if !wellFormedKey(key) {
			problems = append(problems, fmt.Errorf("policy key %q is neither package.Service nor /package.Service/Method", key))
		}
		for _, name := range p[key] {
			if name == AnyDaemon || name == PlaintextCaller {
				continue
			}
			if err := checkDaemonName(name); err != nil {
				problems = append(problems, fmt.Errorf("policy for %q: %w", key, err))
			}
		}
	}
	return joinLine(problems)
}

func wellFormedKey(key string) bool {
	if method, ok := strings.CutPrefix(key, "/"); ok {
		service, name, ok := strings.Cut(method, "/")
		return ok && service != "" && name != "" && !strings.Contains(name, "/")
	}
	return key != "" && !strings.Contains(key, "/")
}

// matches holds the policy against what the server offers: every method needs an
// entry, and every entry a method. Otherwise a misspelt method entry would leave its
// method under the wider entry of the service, and nobody would see it.
func (p Policy) matches(offered map[string]grpc.ServiceInfo) error {
	known := map[string]bool{}
	var problems []error
	for service, info := range offered {
		known[service] = true
		_, whole := p[service]
		for _, method := range info.Methods {
			full := "/" + service + "/" + method.Name
			known[full] = true
			if _, own := p[full]; !own && !whole {
				problems = append(problems, fmt.Errorf("method %s has no entry in the policy", full))
			}
		}
	}
	for key := range p {
		if !known[key] {
			problems = append(problems, fmt.Errorf("policy key %q is nothing that the server offers", key))
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return joinLine(problems)
}

// decide is nil only when the policy permits the caller. fullMethod is
// "/package.Service/Method". The order goes from what reveals least to the only step
// that grants.
func (p Policy) decide(caller Caller, fullMethod string) *refusal {
	if caller == (Caller{}) {
		return refuse(CauseUnauthenticated, "the connection was not set up by the mesh, so its caller is nobody")
	}
	names, ok := p[fullMethod]
	if !ok {
		service, _, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
		names, ok = p[service]
	}
	if !ok {
		return refuse(CauseMethodUnlisted, "the policy names nobody for %s", fullMethod)
	}
	daemon, certified := caller.Daemon()
	if !certified {
		if slices.Contains(names, PlaintextCaller) {
			return nil
		}
		return refuse(CausePlaintext, "%s is not for callers without a certificate", fullMethod)
	}
	if slices.Contains(names, AnyDaemon) || slices.Contains(names, daemon) {
		return nil
	}
	return refuse(CauseNotPermitted, "%s may not call %s", daemon, fullMethod)
}

// clone is a copy that the caller cannot change.
func (p Policy) clone() Policy {
	c := make(Policy, len(p))
	for key, names := range p {
		c[key] = slices.Clone(names)
	}
	return c
}

// names holds every daemon that the policy mentions.
func (p Policy) names() map[string]bool {
	all := map[string]bool{}
	for _, names := range p {
		for _, name := range names {
			all[name] = true
		}
	}
	return all
}

// joinLine joins errors on one line, or returns nil.
func joinLine(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	texts := make([]string, len(problems))
	for i, err := range problems {
		texts[i] = err.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}
