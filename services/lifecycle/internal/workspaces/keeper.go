package workspaces

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// keyNamespace is the log key of a namespace.
const keyNamespace = "namespace"

// List is the allowlist of operator mode.
type List interface {
	Check(namespace string) allowlist.Answer
}

// How long, and how often, the allocator is waited for (contract 7.15).
const (
	AllocationWait = 30 * time.Second
	AllocationPoll = 100 * time.Millisecond
)

// Settings are what a Keeper goes by.
type Settings struct {
	// Scheme maps workspaces to namespaces.
	Scheme workspace.Scheme
	// Source is the namespace whose annotations tell OpenShift from other clusters (contract 9.1).
	Source string
	// Account is the ServiceAccount of the Pods; it is made in every managed namespace.
	Account string
	// SSHIngress is the policy that lets the gateway in, in managed mode.
	SSHIngress driverconf.ManagedSSHIngress
	// SCC applies in managed mode.
	SCC SCC
	// AllocationWait bounds the wait for the allocator, AllocationPoll is how often it looks.
	AllocationWait, AllocationPoll time.Duration
}

// Keeper makes, finds and removes the namespaces of workspaces. It keeps nothing: every call reads what it decides by. Safe for
// concurrent use. Make it with New.
type Keeper struct {
	settings Settings
	api      kubernetes.Interface
	list     List
	log      zerolog.Logger
}

// New makes a Keeper over a client that bounds its calls. list is needed in operator mode and not used in the others. It sends
// nothing.
func New(settings Settings, api kubernetes.Interface, list List, log zerolog.Logger) (*Keeper, error) {
	if err := settings.Scheme.Validate(); err != nil {
		return nil, fmt.Errorf("workspaces: %w", err)
	}
	switch mode := settings.Scheme.Mode; {
	case api == nil:
		return nil, errors.New("workspaces: no client was given")
	case mode == driverconf.ModeOperator && list == nil:
		return nil, errors.New("workspaces: operator mode needs the allowlist")
	case mode == driverconf.ModeManaged && !settings.SCC.Valid():
		return nil, fmt.Errorf("workspaces: openshift_scc is %q; it is %q or %q", settings.SCC, SCCCopy, SCCAllocate)
	case mode == driverconf.ModeManaged && (settings.AllocationWait <= 0 || settings.AllocationPoll <= 0):
		return nil, errors.New("workspaces: the wait for the allocator needs a bound and an interval")
	}
	return &Keeper{settings: settings, api: api, list: list, log: log}, nil
}

// Ensure makes a workspace usable and says where it is. In managed mode it makes the namespace and what belongs in it, or finds
// them made; in the other modes it makes nothing. Every error is a *Refusal:
//
//   - INVALID_ARGUMENT: no namespace can have the name.
//   - PERMISSION_DENIED: the allowlist does not name it (contract 5.3; a create wants FAILED_PRECONDITION).
//   - FAILED_PRECONDITION: it is there and not ours, it does not exist and is not ours to make, the cluster refuses it, or its
//     OpenShift annotations cannot become right by themselves.
//   - UNAVAILABLE: it is being deleted, the allowlist cannot be proven to be current, or the API server did not answer.
//
// It is idempotent: a call that was cut short is completed by the next.
func (k *Keeper) Ensure(ctx context.Context, name string) (Place, error) {
	namespace, err := k.settings.Scheme.NamespaceOf(name)
	if err != nil {
		return Place{}, refuseSaying(verdict.WorkspaceInvalid, stepName, "workspace: %v", err)
	}
	switch k.settings.Scheme.Mode {
	case driverconf.ModeManaged:
		return k.manage(ctx, name, namespace)
	case driverconf.ModeOperator:
		return k.listed(ctx, namespace)
	default:
		return k.existing(ctx, namespace)
	}
}

// Enter finds the namespace of a sandbox that exists, for a new run: it must be there to stay, and in operator mode on the list.
// Nothing is made. The errors are as those of Ensure.
func (k *Keeper) Enter(ctx context.Context, namespace string) (Place, error) {
	if k.settings.Scheme.Mode == driverconf.ModeOperator {
		return k.listed(ctx, namespace)
	}
	return k.existing(ctx, namespace)
}

// Still asks the list once more about a place that Ensure or Enter gave, right before it is used; nil outside of operator mode.
func (k *Keeper) Still(place Place) error {
	if k.settings.Scheme.Mode != driverconf.ModeOperator {
		return nil
	}
	answer := k.list.Check(place.Namespace)
	if !answer.Allowed() {
		return &Refusal{Decision: answer.Decision()}
	}
	return sameAsListed(answer, place)
}

// sameAsListed refuses a namespace that was made anew under a name on the list. A list of names alone has no uids to compare.
func sameAsListed(answer allowlist.Answer, place Place) error {
	if answer.UID == "" || answer.UID == string(place.UID) {
		return nil
	}
	return &Refusal{Decision: verdict.Refuse(verdict.NamespaceReplaced, stepRead, fmt.Sprintf(
		"namespace %s has uid %s, and the allowlist names one of uid %s: it was deleted and made again, and the list has not followed yet",
		place.Namespace, place.UID, answer.UID)).WithAllowlist(answer.Evidence())}
}

// listed asks the list before and after the namespace is read: what left the list meanwhile must not slip through, and the
// namespace that is there must be the one that was listed.
func (k *Keeper) listed(ctx context.Context, namespace string) (Place, error) {
	if answer := k.list.Check(namespace); !answer.Allowed() {
		return Place{}, &Refusal{Decision: answer.Decision()}
	}
	place, err := k.existing(ctx, namespace)
	if err != nil {
		return Place{}, err
	}
	answer := k.list.Check(namespace)
	if !answer.Allowed() {
		return Place{}, &Refusal{Decision: answer.Decision()}
	}
	if err := sameAsListed(answer, place); err != nil {
		return Place{}, err
	}
	return place, nil
}

// existing finds a namespace that is not ours to make.
func (k *Keeper) existing(ctx context.Context, namespace string) (Place, error) {
	ns, err := k.api.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Place{}, refuseSaying(verdict.WorkspaceAbsent, stepRead, "namespace %s does not exist, and in %s mode it is not the driver's to make",
			namespace, k.settings.Scheme.Mode)
	case err != nil:
		return Place{}, failed(ctx, stepRead, "read namespace "+namespace, err)
	case ending(ns):
		return Place{}, terminating(ns)
	}
	return placeOf(ns), nil
}

func terminating(ns *corev1.Namespace) error {
	return refuseSaying(verdict.WorkspaceTerminating, stepEnding, "namespace %s is being deleted; try again when it is gone", ns.Name)
}

// Delete undoes Ensure: in managed mode it deletes the namespace if it is ours. Nil means that there was nothing of ours or that
// the API server has accepted the delete; it does not wait for the end (contract 9.2). While a namespace that was deleted
// before is still there the answer is UNAVAILABLE, so that whoever repeats the call learns when the name is free.
func (k *Keeper) Delete(ctx context.Context, name string) error {
	if k.settings.Scheme.Mode != driverconf.ModeManaged {
		return nil
	}
	namespace, err := k.settings.Scheme.NamespaceOf(name)
	if err != nil {
		return refuseSaying(verdict.WorkspaceInvalid, stepName, "workspace: %v", err)
	}
	ns, err := k.api.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return failed(ctx, stepRead, "read namespace "+namespace, err)
	}
	if err := k.owns(name, ns); err != nil {
		k.log.Warn().Err(err).Str(keyNamespace, namespace).Msg("a workspace is deleted whose namespace is not ours; it is left alone")
		return nil
	}
	if ending(ns) {
		return terminating(ns)
	}
	if ns.UID == "" {
		return refuse(verdict.WorkspaceUnreadable, stepDelete, "namespace %s has no uid, and nothing is deleted by its name alone", namespace)
	}
	err = k.api.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &ns.UID}})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err): // another namespace has the name by now, or this one is already on its way
		return refuseSaying(verdict.WorkspaceTerminating, stepDelete, "namespace %s changed while it was being deleted; try again", namespace)
	default:
		return failed(ctx, stepDelete, "delete namespace "+namespace, err)
	}
}
