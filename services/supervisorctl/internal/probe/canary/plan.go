package canary

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Role is the side that a canary takes. The zero value is none.
type Role string

// The roles, named as the values of the label boundary-role are.
const (
	Workload   Role = "workload"
	Supervisor Role = "supervisor"
)

const (
	// KubernetesTarget stands for the API server's Service, as the environment of the Pod names it.
	KubernetesTarget = "kubernetes"
	// MaxTargets is how many targets one probe may have: what is seen of more would not fit into a termination message.
	MaxTargets = 12
	// MinSettle is the least time to settle of a Plan.
	MinSettle = time.Second
	// MaxLimit is the most that a Plan may take.
	MaxLimit = 30 * time.Minute
	// maxPlan bounds the text of a Plan, in bytes.
	maxPlan = 4096
)

// Plan is what one canary is to do. The zero value does not validate.
type Plan struct {
	// Probe names the probe that both canaries belong to: 4 to 32 of a-z and 0-9.
	Probe string `json:"probe"`
	Role  Role   `json:"role"`
	// Targets are those that CheckTarget accepts, 1 to MaxTargets, each once.
	Targets []string `json:"targets"`
	// Door is the boundary port, Shut another port, at which the workload canary listens too. 1024 to 65535.
	Door uint16 `json:"door"`
	Shut uint16 `json:"shut"`
	// Peer is the IP address of the workload canary; only the supervisor canary has one.
	Peer string `json:"peer,omitempty"`
	// Settle is how long an open way is no answer yet. Limit is when the canary gives up, at least twice Settle. Milliseconds.
	Settle int64 `json:"settle_ms"`
	Limit  int64 `json:"limit_ms"`
}

func (p *Plan) settle() time.Duration { return time.Duration(p.Settle) * time.Millisecond }
func (p *Plan) limit() time.Duration  { return time.Duration(p.Limit) * time.Millisecond }

var probeRule = regexp.MustCompile(`^[a-z0-9]{4,32}$`)

// Check says everything that is wrong with p, joined.
func (p *Plan) Check() error {
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("canary plan: "+format, args...))
	}
	if !probeRule.MatchString(p.Probe) {
		problem("probe is %.40q, must be 4 to 32 of a-z and 0-9", p.Probe)
	}
	if p.Role != Workload && p.Role != Supervisor {
		problem("role is %.40q, must be %s or %s", string(p.Role), Workload, Supervisor)
	}
	if err := CheckTargets(p.Targets); err != nil {
		problem("%w", err)
	}
	for name, port := range map[string]uint16{"door": p.Door, "shut": p.Shut} {
		if port < 1024 {
			problem("%s is %d, must be at least 1024", name, port)
		}
	}
	if p.Door == p.Shut {
		problem("door and shut are one port, %d", p.Door)
	}
	if _, err := netip.ParseAddr(p.Peer); (p.Role == Supervisor) != (err == nil) || p.Role == Workload && p.Peer != "" {
		problem("peer is %.60q, must be an IP address for a %s and empty for a %s", p.Peer, Supervisor, Workload)
	}
	if p.settle() < MinSettle || p.Settle > MaxLimit.Milliseconds() || p.Limit < 2*p.Settle || p.Limit > MaxLimit.Milliseconds() {
		problem("settle_ms is %d and limit_ms %d; settle must be at least %s, and limit twice that and at most %s", p.Settle, p.Limit, MinSettle, MaxLimit)
	}
	return errors.Join(problems...)
}

// CheckTargets says what is wrong with a list of targets.
func CheckTargets(targets []string) error {
	if n := len(targets); n < 1 || n > MaxTargets {
		return fmt.Errorf("there are %d targets, must be 1 to %d", n, MaxTargets)
	}
	for i, target := range targets {
		if err := CheckTarget(target); err != nil {
			return err
		}
		if slices.Contains(targets[:i], target) {
			return fmt.Errorf("target %s is named twice", target)
		}
	}
	return nil
}

// CheckTarget says why target is none: it must be KubernetesTarget, or an IP address and a port, in their usual spelling. A name is
// refused, since a Pod that may not ask DNS would find it blocked whether or not its address is.
func CheckTarget(target string) error {
	if target == KubernetesTarget {
		return nil
	}
	at, err := netip.ParseAddrPort(target)
	switch {
	case err != nil:
		return fmt.Errorf("target %.80q must be %s, or an IP address and a port such as 192.0.2.1:443; a name would need DNS, which a fenced Pod may not ask",
			target, KubernetesTarget)
	case at.Port() == 0 || at.Addr().IsUnspecified() || at.Addr().IsLoopback() || at.Addr().IsMulticast() || at.Addr().Zone() != "":
		return fmt.Errorf("target %.80q is no address that lies outside of a Pod", target)
	case at.String() != target:
		return fmt.Errorf("target %.80q must be written %s", target, at)
	}
	return nil
}

// Encode is the text of a Plan: the only argument of a canary.
func (p *Plan) Encode() (string, error) {
	if err := p.Check(); err != nil {
		return "", err
	}
	text, err := json.Marshal(p)
	return string(text), err
}

// DecodePlan reads what Encode wrote, and nothing else.
func DecodePlan(text string) (*Plan, error) {
	if len(text) > maxPlan {
		return nil, fmt.Errorf("canary plan: has %d bytes, and may have %d", len(text), maxPlan)
	}
	var p Plan
	if err := decode([]byte(text), &p); err != nil {
		return nil, fmt.Errorf("canary plan: %w", err)
	}
	return &p, p.Check()
}

// decode reads one JSON value without unknown fields and without anything behind it.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the JSON value")
	}
	return nil
}

// address is what to dial for a target. The kubelet names the API server's Service in the environment of every Pod.
func address(target string, lookup func(string) (string, bool)) (string, error) {
	if target != KubernetesTarget {
		return target, nil
	}
	host, _ := lookup("KUBERNETES_SERVICE_HOST")
	port, _ := lookup("KUBERNETES_SERVICE_PORT")
	if _, err := netip.ParseAddr(host); err != nil {
		return "", fmt.Errorf("target %s: KUBERNETES_SERVICE_HOST is %.60q, not an IP address", target, host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("target %s: KUBERNETES_SERVICE_PORT is %.60q, not a port", target, port)
	}
	return net.JoinHostPort(host, port), nil
}
