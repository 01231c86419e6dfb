package snapshot

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/excerpt"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Why there is nothing to tell of an object. Such an object is passed over and counted, and is never taken for absent.
var (
	// ErrForeign: it is not OpenShell's, or another gateway's.
	ErrForeign = errors.New("it is not this gateway's")
	// ErrMisplaced: it says that it belongs to a workspace that does not live in its namespace.
	ErrMisplaced = errors.New("its workspace does not live in its namespace")
	// ErrMalformed: it does not say which sandbox it is, or says two things.
	ErrMalformed = errors.New("it does not say which sandbox it is")
)

// Sandbox is what is kept of a Sandbox object. Make it with Read; it shares nothing large with the object that it was made of.
type Sandbox struct {
	// ID, Name and Workspace are the gateway's; none is empty.
	ID, Name, Workspace string
	// Namespace, Object and UID are the Sandbox object's namespace, name and uid.
	Namespace, Object, UID string
	// Pod is the name of the workload Pod.
	Pod      string
	Version  sandboxapi.Version
	Mode     sandboxapi.Mode
	Deleting bool
	// Starting says that a create or restart is under way.
	Starting bool
	// Record of the run, without what nobody tells a gateway; zero when RecordProblem is not empty, which says why it cannot be read.
	Record        runstate.Record
	RecordProblem string
	// Conditions are about the present generation, one of each type, in the controller's order.
	Conditions []sandboxapi.Condition
	// User and Group are those of the Pod template; zero when it does not say.
	User, Group uint32
}

// Read takes what is kept of an object. scheme says which gateway it must be of, and where. The error wraps one of the errors of
// this package and names the object.
func Read(o *sandboxapi.Object, scheme workspace.Scheme) (Sandbox, error) {
	fail := func(kind error, format string, args ...any) (Sandbox, error) {
		return Sandbox{}, fmt.Errorf("the Sandbox %s/%s is passed over: %w: %s", o.Namespace, o.Name, kind, fmt.Sprintf(format, args...))
	}
	if got := o.Labels[workspace.LabelManagedBy]; got != workspace.ManagedByOpenShell {
		return fail(ErrForeign, "its label %s is %.64q", workspace.LabelManagedBy, got)
	}
	if got := o.Labels[workspace.LabelGatewayID]; got == "" || got != scheme.GatewayID {
		return fail(ErrForeign, "its label %s is %.64q", workspace.LabelGatewayID, got)
	}
	s := Sandbox{
		Namespace: strings.Clone(o.Namespace), Object: strings.Clone(o.Name), UID: strings.Clone(o.UID), Pod: strings.Clone(o.PodName()),
		Version: o.Version, Mode: o.Mode, Deleting: o.Deleting,
	}
	for _, n := range []struct {
		into            *string
		label, annotate string
	}{
		{&s.ID, workspace.LabelSandboxID, workspace.AnnotationSandboxID},
		{&s.Name, workspace.LabelSandboxName, workspace.AnnotationSandboxName},
		{&s.Workspace, workspace.LabelSandboxWorkspace, workspace.AnnotationSandboxWorkspace},
	} {
		label, annotation := o.Labels[n.label], o.Annotations[n.annotate]
		switch {
		case label == "" && annotation == "":
			return fail(ErrMalformed, "it has neither a label nor an annotation %s", n.label)
		case label != "" && annotation != "" && label != annotation:
			return fail(ErrMalformed, "its label %s is %.64q and its annotation %.64q", n.label, label, annotation)
		case !utf8.ValidString(label + annotation), len(label+annotation) > 2*longestName:
			return fail(ErrMalformed, "its label or annotation %s cannot be a name", n.label)
		case label != "":
			*n.into = strings.Clone(label)
		default:
			*n.into = strings.Clone(annotation)
		}
	}
	if o.Labels[workspace.LabelSandboxID] == "" { // whoever looks for the sandbox looks by this label
		return fail(ErrMalformed, "it has no label %s", workspace.LabelSandboxID)
	}
	if err := scheme.Places(s.Workspace, s.Namespace); err != nil {
		return fail(ErrMisplaced, "%v", err)
	}
	s.record(o.Annotations)
	s.Conditions = present(o)
	s.User, s.Group = identity(&o.Template.Spec)
	return s, nil
}

// longestName bounds what is told of a name, in bytes. A label value has 63.
const longestName = 253

// record reads the record of the run. A record that nobody can read makes a sandbox that is not ready, and not one that is not there.
func (s *Sandbox) record(annotations map[string]string) {
	r, err := runstate.Of(annotations)
	if err != nil {
		s.RecordProblem = excerpt.Line(err.Error(), longestMessage)
		s.Starting = annotations[workspace.AnnotationBootstrapping] == workspace.True
		return
	}
	r.MainProcess, r.LogLevel, r.Secrets = "", "", ""
	r.StopExplanation = excerpt.Line(r.StopExplanation, longestCause)
	s.Record = r
	s.Starting = r.Bootstrapping || r.Operation == runstate.Create || r.Operation == runstate.Restart
}

// reserved are the types that are not the controller's to say: ours, and two that belong to the gateway, where they hold Ready back
// (contract 2.11).
var reserved = []string{conditionBootstrapping, "ConfigurationReady", "DesiredConfigurationReady"}

// present are the conditions about the present generation, or that do not say which they are about (contract 7.14). Types that differ
// in case only are one, since the gateway compares some of them so (contract 2.10): the exact spelling is kept.
func present(o *sandboxapi.Object) []sandboxapi.Condition {
	var kept []sandboxapi.Condition
	for _, c := range o.Conditions {
		same := func(other string) bool { return strings.EqualFold(c.Type, other) }
		switch {
		case len(kept) == mostConditions || c.Type == "":
		case c.ObservedGeneration != 0 && c.ObservedGeneration != o.Generation:
		case slices.ContainsFunc(reserved, same):
		case same(sandboxapi.ConditionReady) && c.Type != sandboxapi.ConditionReady:
		case same(sandboxapi.ConditionSuspended) && c.Type != sandboxapi.ConditionSuspended:
		case slices.ContainsFunc(kept, func(k sandboxapi.Condition) bool { return same(k.Type) }):
		default:
			c.Type, c.Status = excerpt.Line(c.Type, longestName), excerpt.Line(c.Status, longestName)
			c.Reason, c.Message = excerpt.Line(c.Reason, longestName), excerpt.Line(c.Message, longestMessage)
			kept = append(kept, c)
		}
	}
	return kept
}

// identity is what the template runs as (contract 9.4).
func identity(pod *corev1.PodSpec) (user, group uint32) {
	number := func(id *int64) uint32 {
		if id == nil || *id < 1 || *id > 1<<32-2 {
			return 0
		}
		return uint32(*id)
	}
	if c := pod.SecurityContext; c != nil {
		return number(c.RunAsUser), number(c.RunAsGroup)
	}
	return 0, 0
}

// condition finds a kept condition by its type.
func (s *Sandbox) condition(kind string) (sandboxapi.Condition, bool) {
	i := slices.IndexFunc(s.Conditions, func(c sandboxapi.Condition) bool { return c.Type == kind })
	if i < 0 {
		return sandboxapi.Condition{}, false
	}
	return s.Conditions[i], true
}

const (
	// longestMessage and mostConditions bound what one snapshot tells.
	longestMessage = 1024
	mostConditions = 16
)
