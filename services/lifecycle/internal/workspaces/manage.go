package workspaces

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/apistatus"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// manage makes the namespace of a workspace and what belongs in it (contract 9.1).
func (k *Keeper) manage(ctx context.Context, name, namespace string) (Place, error) {
	source, err := k.source(ctx)
	if err != nil {
		return Place{}, err
	}
	ns, err := k.make(ctx, name, namespace, source)
	if err != nil {
		return Place{}, err
	}
	if err := k.usable(name, ns); err != nil {
		return Place{}, err
	}
	if ns, err = k.await(ctx, ns, source); err != nil {
		return Place{}, err
	}
	if err := k.furnish(ctx, namespace); err != nil {
		return Place{}, err
	}
	return placeOf(ns), nil
}

// source are the annotations of the source namespace. That it does not exist is a fault of the settings.
func (k *Keeper) source(ctx context.Context) (map[string]string, error) {
	ns, err := k.api.CoreV1().Namespaces().Get(ctx, k.settings.Source, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, refuse(verdict.WorkspaceAbsent, stepSource,
			"the source namespace %s does not exist; openshell.drivers.kubernetes.namespace must name one that does", k.settings.Source)
	case err != nil:
		return nil, failed(ctx, stepSource, "read the source namespace "+k.settings.Source, err)
	}
	return ns.Annotations, nil
}

// make makes the namespace, or finds that it exists; whose it then is, is yet to be judged.
func (k *Keeper) make(ctx context.Context, name, namespace string, source map[string]string) (*corev1.Namespace, error) {
	want := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace,
		Labels: map[string]string{
			workspace.LabelManagedBy:        workspace.ManagedByOpenShell,
			workspace.LabelGatewayID:        k.settings.Scheme.GatewayID,
			workspace.LabelSandboxWorkspace: name,
		},
		Annotations: k.settings.SCC.copied(source),
	}}
	made, err := k.api.CoreV1().Namespaces().Create(ctx, want, metav1.CreateOptions{})
	if err == nil {
		return made, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, failed(ctx, stepMake, "make namespace "+namespace, err)
	}
	return k.read(ctx, namespace)
}

func (k *Keeper) read(ctx context.Context, namespace string) (*corev1.Namespace, error) {
	found, err := k.api.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err): // it went while we looked
		return nil, refuseSaying(verdict.WorkspaceTerminating, stepRead, "namespace %s was deleted while the workspace was prepared; try again", namespace)
	case err != nil:
		return nil, failed(ctx, stepRead, "read namespace "+namespace, err)
	}
	return found, nil
}

// usable is nil when the namespace is this workspace's and stays.
func (k *Keeper) usable(name string, ns *corev1.Namespace) error {
	if err := k.owns(name, ns); err != nil {
		return refuseSaying(verdict.WorkspaceForeign, stepOwned, "namespace %s exists and is not this workspace's: %v", ns.Name, err)
	}
	if ending(ns) {
		return terminating(ns)
	}
	return nil
}

// owns is nil when the labels say that the namespace is this gateway's, for this workspace.
func (k *Keeper) owns(name string, ns *corev1.Namespace) error {
	if err := k.settings.Scheme.Owns(ns.Name, ns.Labels); err != nil {
		return err
	}
	if got := ns.Labels[workspace.LabelSandboxWorkspace]; got != name {
		return fmt.Errorf("its label %s is %q", workspace.LabelSandboxWorkspace, got)
	}
	return nil
}

// await waits until the cluster's allocator has done its part, where there is one (contract 9.3).
func (k *Keeper) await(ctx context.Context, ns *corev1.Namespace, source map[string]string) (*corev1.Namespace, error) {
	waiting, cancel := context.WithTimeout(ctx, k.settings.AllocationWait)
	defer cancel()
	tick := time.NewTicker(k.settings.AllocationPoll)
	defer tick.Stop()
	for {
		state, text := k.settings.SCC.allocated(source, ns.Annotations)
		if state == allocationDone {
			return ns, nil
		}
		if state == allocationPrevented {
			return nil, refuseSaying(verdict.WorkspaceSCCPrevented, stepAllocated, "namespace %s %s", ns.Name, text)
		}
		select {
		case <-waiting.Done():
			return nil, overdue(ctx, ns.Name, text, k.settings.AllocationWait)
		case <-tick.C:
		}
		seen, err := k.again(waiting, ns)
		if err != nil && waiting.Err() != nil {
			return nil, overdue(ctx, ns.Name, text, k.settings.AllocationWait)
		}
		if err != nil {
			return nil, err
		}
		ns = seen
	}
}

// again reads the namespace that was read before.
func (k *Keeper) again(ctx context.Context, ns *corev1.Namespace) (*corev1.Namespace, error) {
	seen, err := k.read(ctx, ns.Name)
	switch {
	case err != nil:
		return nil, err
	case seen.UID != ns.UID: // whose the new one is, is to be judged from the start
		return nil, refuseSaying(verdict.WorkspaceTerminating, stepAllocated,
			"namespace %s was deleted and made again while its allocation was awaited; try again", ns.Name)
	case ending(seen):
		return nil, terminating(seen)
	}
	return seen, nil
}

// overdue is that the allocator did not come, or that the call, which is ctx, ended before.
func overdue(ctx context.Context, namespace, lacks string, wait time.Duration) error {
	if ctx.Err() != nil {
		return refuse(verdict.CallEnded, stepAllocated, "the call ended while namespace %s was waited for: it %s", namespace, lacks)
	}
	return refuseSaying(verdict.WorkspaceSCCPending, stepAllocated,
		"the cluster's allocator has not given namespace %s its ranges within %s: it %s", namespace, wait, lacks)
}

// furnish makes the ServiceAccount of the Pods and, where it is asked for, the policy that lets the gateway in.
func (k *Keeper) furnish(ctx context.Context, namespace string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: k.settings.Account}}
	_, err := k.api.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return failed(ctx, stepAccount, fmt.Sprintf("make ServiceAccount %s in namespace %s", k.settings.Account, namespace), err)
	}
	if !k.settings.SSHIngress.Enabled {
		return nil
	}
	return k.applyIngress(ctx, namespace)
}

// applyIngress makes the policy as it must be, unless somebody else has one under the name: that is left alone. An apply that is not forced is
// refused only where both give one field different values, so what it would come to is looked at first.
func (k *Keeper) applyIngress(ctx context.Context, namespace string) error {
	body, err := json.Marshal(k.ingress(namespace))
	if err != nil {
		return fmt.Errorf("write the policy %s: %w", workspace.SSHIngress, err)
	}
	what := fmt.Sprintf("apply NetworkPolicy %s in namespace %s", workspace.SSHIngress, namespace)
	for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
		applied, err := k.api.NetworkingV1().NetworkPolicies(namespace).Patch(ctx, workspace.SSHIngress, types.ApplyPatchType, body,
			metav1.PatchOptions{FieldManager: fieldManager, DryRun: dryRun})
		switch {
		case apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict): // any other conflict is one that passes
			return foreignIngress(what, apistatus.Logged(err))
		case err != nil:
			return failed(ctx, stepIngress, what, err)
		}
		if other := coauthor(applied); other != "" {
			return foreignIngress(what, other+" has written to its spec")
		}
	}
	return nil
}

func foreignIngress(what, why string) error {
	return refuse(verdict.WorkspaceRefused, stepIngress, "%s: it is somebody else's and left alone; delete it, and it is made anew: %s", what, why)
}

// coauthor names who else has a part in a policy's spec; empty when nobody has.
func coauthor(policy *networkingv1.NetworkPolicy) string {
	for _, entry := range policy.ManagedFields {
		if entry.Manager == fieldManager && entry.Operation == metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil || fields["f:spec"] != nil {
			return fmt.Sprintf("%.64q", entry.Manager)
		}
	}
	return ""
}

// fieldManager is the stock driver's (contract 9.1), so that the policy stays one owner's when either runs.
const fieldManager = "openshell"

// sshPort is where a sandbox takes SSH.
const sshPort = 2222

// ingress lets the gateway's Pods reach the sandboxes of a managed namespace by SSH (contract 9.1 step 6).
func (k *Keeper) ingress(namespace string) *networkingv1.NetworkPolicy {
	from := networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: k.settings.SSHIngress.GatewayNamespace}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: k.settings.SSHIngress.GatewayPodSelector},
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Name: workspace.SSHIngress, Namespace: namespace,
			Labels: map[string]string{workspace.LabelManagedBy: workspace.ManagedByOpenShell},
		},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{workspace.LabelManagedBy: workspace.ManagedByOpenShell}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{from},
				Ports: []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(sshPort))}},
			}},
		},
	}
}
