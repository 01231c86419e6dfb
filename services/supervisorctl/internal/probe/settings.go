package probe

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// When says what a daemon does about the fence of its namespaces when it starts. The zero value is not set and does not validate.
type When string

// The values of fence_probe.
const (
	// Off: nothing.
	Off When = "off"
	// Report: probe, log and measure.
	Report When = "report"
	// Require: the same, and raise no run in a namespace whose fence is not proven to be enforced.
	Require When = "require"
)

// Settings are the part of the section [portcullis.supervisorctl] that is about probes. Start from DefaultSettings.
type Settings struct {
	// Image is the image of the canaries: one whose entry point is supervisorctl of this release. Needed for any probe.
	Image string `toml:"probe_image"`
	// PullPolicy is that image's policy; empty leaves it to the cluster.
	PullPolicy driverconf.PullPolicy `toml:"probe_image_pull_policy"`
	// Startup says what the daemon does by itself.
	Startup When `toml:"fence_probe"`
	// Namespaces are those that the daemon probes: in shared mode the one there is, unless they are named. At most 64. With Require, no
	// other namespace gets a run.
	Namespaces []string `toml:"fence_probe_namespaces"`
	// Targets are what a workload must not reach: "kubernetes", the API server's Service, or addresses with ports. 1 to 12.
	Targets []string `toml:"fence_probe_targets"`
	// Interval is the pause between two probes of a namespace, 1m to 168h; 0 is one probe, which is repeated only until it has an answer.
	// With Require, a namespace that is proven not to be fenced is probed again after 10m at the latest.
	Interval driverconf.Duration `toml:"fence_probe_interval"`
	// Settle is how long after a Pod's start the fence may still be open. 1s to 5m.
	Settle driverconf.Duration `toml:"fence_probe_settle"`
	// Timeout bounds one probe, from three times Settle to 30m.
	Timeout driverconf.Duration `toml:"fence_probe_timeout"`
}

const maxNamespaces = 64

// DefaultSettings probe nothing by themselves, and the API server's Service when they are asked to.
func DefaultSettings() Settings {
	return Settings{
		Startup: Off, Targets: []string{canary.KubernetesTarget},
		Settle: driverconf.Duration(30 * time.Second), Timeout: driverconf.Duration(3 * time.Minute),
	}
}

// Validate reports every problem under its key. It does no I/O.
func (s *Settings) Validate(report func(key, problem string)) {
	const longest = 1024
	if len(s.Image) > longest || strings.ContainsFunc(s.Image, func(r rune) bool { return r <= ' ' || r > '~' }) {
		report("probe_image", fmt.Sprintf("must be an image reference of at most %d characters without a space", longest))
	}
	switch s.Startup {
	case Off:
	case Report, Require:
		if s.Image == "" {
			report("probe_image", fmt.Sprintf("must be set when fence_probe is %q: it is supervisorctl's own image", s.Startup))
		}
	default:
		report("fence_probe", fmt.Sprintf("is %.40q, must be %q, %q or %q", string(s.Startup), Off, Report, Require))
	}
	if len(s.Namespaces) > maxNamespaces {
		report("fence_probe_namespaces", fmt.Sprintf("has %d namespaces, and may have %d", len(s.Namespaces), maxNamespaces))
	}
	seen := map[string]bool{}
	for _, name := range s.Namespaces {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 || seen[name] {
			report("fence_probe_namespaces", fmt.Sprintf("has %.80q, which is no name of a namespace or named twice", name))
		}
		seen[name] = true
	}
	if err := canary.CheckTargets(s.Targets); err != nil {
		report("fence_probe_targets", err.Error())
	}
	if i := s.Interval.Std(); i != 0 && (i < time.Minute || i > 168*time.Hour) {
		report("fence_probe_interval", fmt.Sprintf("is %s, must be 0 or from 1m to 168h", i))
	}
	if settle := s.Settle.Std(); settle < time.Second || settle > 5*time.Minute {
		report("fence_probe_settle", fmt.Sprintf("is %s, must be from 1s to 5m", settle))
	}
	if timeout := s.Timeout.Std(); timeout < 3*s.Settle.Std() || timeout > canary.MaxLimit {
		report("fence_probe_timeout", fmt.Sprintf("is %s, must be from three times fence_probe_settle (%s) to %s", timeout, 3*s.Settle.Std(), canary.MaxLimit))
	}
}

// ValidateWith reports what is wrong with s beside the stock table: which namespaces the daemon could probe.
func (s *Settings) ValidateWith(k *driverconf.Kubernetes, report func(key, problem string)) {
	if s.Startup == Off {
		return
	}
	scheme := workspace.SchemeOf(k)
	if k.WorkspaceMode != driverconf.ModeShared && len(s.Namespaces) == 0 {
		report("fence_probe_namespaces", fmt.Sprintf("must be set in %s mode when fence_probe is %q: which namespaces there will be is not known at the start", k.WorkspaceMode, s.Startup))
	}
	for _, name := range s.Namespaces {
		if k.WorkspaceMode != driverconf.ModeOperator && !scheme.MayHold(name) {
			report("fence_probe_namespaces", fmt.Sprintf("has %.80q, which holds no sandboxes of this gateway in %s mode", name, k.WorkspaceMode))
		}
	}
}

// spaces are the namespaces of the daemon's own probes.
func (s *Settings) spaces(k *driverconf.Kubernetes) []string {
	if len(s.Namespaces) == 0 && k.WorkspaceMode == driverconf.ModeShared {
		return []string{k.Namespace}
	}
	return s.Namespaces
}

// check is Validate for New, whose caller should have validated before.
func (s *Settings) check() error {
	var problems []error
	s.Validate(func(key, problem string) { problems = append(problems, fmt.Errorf("%s %s", key, problem)) })
	if s.Image == "" {
		problems = append(problems, errors.New("probe_image must be set: it is supervisorctl's own image, which the canaries run"))
	}
	return errors.Join(problems...)
}
