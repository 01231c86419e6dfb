package supervisor

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Breaches that are told apart.
var (
	// errOrder is the one that is not of a moment, but of the order of a stop.
	errOrder = errors.New("the workload goes while its supervisor is there")
	// errUnfenced and errEarly are what must never be, whatever somebody does to other objects.
	errUnfenced = errors.New("the fence does not stand")
	errEarly    = errors.New("the workload is let go before its supervisor")
)

// judge goes through what happened in a namespace and reports every breach of the order of contract 7.2 and 7.10, but for those that are
// excused.
func judge(t testing.TB, namespace string, events []Event, excused func(Event, error) bool) {
	t.Helper()
	state := State{}
	for _, e := range events {
		before := state[e.key()]
		if before != nil && before.GetUID() != e.Object.GetUID() {
			before = nil
		}
		state.apply(e)
		if err := breach(state, before, e); err != nil && !excused(e, err) {
			t.Errorf("namespace %s, %s: %v", namespace, e, err)
		}
	}
}

// breach says what is wrong with one event. before is the object before it, nil when it is new.
func breach(state State, before *unstructured.Unstructured, e Event) error {
	switch e.Kind {
	case Secrets:
		return secretBreach(state, before, e)
	case Pods:
		pod, err := as[corev1.Pod](e.Object)
		if err != nil {
			return err
		}
		return podBreach(state, before, pod, e.Removed)
	case Policies:
		if before != nil && e.Object.GetLabels()["openshell.ai/managed-by"] == "openshell" {
			return errors.New("a policy of the fence was changed or removed")
		}
	}
	return nil
}

func podBreach(state State, before *unstructured.Unstructured, pod *corev1.Pod, removed bool) error {
	pair, role := pod.Labels["openshell.ai/boundary-pair"], pod.Labels["openshell.ai/boundary-role"]
	was := &corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: gate}}}}
	if before != nil {
		var err error
		if was, err = as[corev1.Pod](before); err != nil {
			return err
		}
	}
	going := func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }
	switch {
	case role == "workload" && (removed || going(pod)) && !going(was):
		if state[Pods+"/os-supervisor-"+pair] != nil {
			return errOrder
		}
	case removed || going(pod) || gated(pod) || !gated(was):
		return nil
	case role == "workload":
		return letGo(state, pair, false)
	case role == "supervisor":
		return letGo(state, pair, true)
	}
	return nil
}

const gate = "openshell.ai/bootstrap"

func gated(p *corev1.Pod) bool {
	for _, g := range p.Spec.SchedulingGates {
		if g.Name == gate {
			return true
		}
	}
	return false
}

// letGo says what is missing in the moment in which a Pod of a pair loses its gate, the supervisor or the workload.
func letGo(state State, pair string, supervisor bool) error {
	if err := fenced(state); err != nil {
		return fmt.Errorf("%w: %w", errUnfenced, err)
	}
	set, err := setOf(state, pair)
	if err != nil {
		return err
	}
	defer set.wipe()
	if gated(set.supervisor) || gated(set.workload) != supervisor {
		return errEarly
	}
	if set.supervisor.DeletionTimestamp != nil || set.workload.DeletionTimestamp != nil {
		return errors.New("one of the Pods is going")
	}
	recorded := set.box.GetAnnotations()
	for key, want := range map[string]string{
		"openshell.ai/sandbox-runtime-workload-uid":       string(set.workload.UID),
		"openshell.ai/sandbox-runtime-supervisor-uid":     string(set.supervisor.UID),
		"openshell.ai/sandbox-runtime-network-policy-uid": string(state[Policies+"/openshell-sandbox-workloads"].GetUID()),
	} {
		if recorded[key] != want {
			return fmt.Errorf("the Sandbox records %s %q, and it is %q", key, recorded[key], want)
		}
	}
	return set.check(state)
}

// fenced says what of the fence is not as contract 7.3 has it.
func fenced(state State) error {
	boundary := intstr.FromInt32(Port)
	tcp := corev1.ProtocolTCP
	role := func(name string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{"openshell.ai/boundary-role": name}}
	}
	from := role("supervisor")
	for name, want := range map[string]networkingv1.NetworkPolicySpec{
		"openshell-sandbox-workloads": {
			PodSelector: role("workload"), PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &from}},
				Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &boundary}},
			}},
		},
		"openshell-sandbox-supervisors": {
			PodSelector: role("supervisor"), PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{{}},
		},
	} {
		object := state[Policies+"/"+name]
		if object == nil {
			return fmt.Errorf("there is no policy %s", name)
		}
		policy, err := as[networkingv1.NetworkPolicy](object)
		if err != nil {
			return err
		}
		if !equality.Semantic.DeepEqual(policy.Spec, want) || policy.DeletionTimestamp != nil {
			return fmt.Errorf("policy %s is %+v", name, policy.Spec)
		}
	}
	return nil
}

// secretBreach looks at a bootstrap Secret (contract 7.7).
func secretBreach(state State, before *unstructured.Unstructured, e Event) error {
	if e.Object.GetLabels()["openshell.ai/managed-by"] != "openshell" || e.Removed {
		return nil
	}
	secret, err := as[corev1.Secret](e.Object)
	if err != nil {
		return err
	}
	if before != nil {
		was, err := as[corev1.Secret](before)
		if err != nil {
			return err
		}
		if !equality.Semantic.DeepEqual(was.Data, secret.Data) {
			return errors.New("a Secret was written to")
		}
		return nil
	}
	kind, owners := corev1.SecretTypeOpaque, 1
	if secret.Labels["openshell.ai/component"] == "image-pull" { // owned by both Pods (contract 7.1)
		kind, owners = corev1.SecretTypeDockerConfigJson, 2
	}
	if secret.Immutable == nil || !*secret.Immutable || secret.Type != kind || len(secret.OwnerReferences) != owners {
		return fmt.Errorf("immutable %v, type %s, owners %v", secret.Immutable, secret.Type, secret.OwnerReferences)
	}
	set, err := setOf(state, secret.Labels["openshell.ai/sandbox-id"])
	if set == nil || set.workload == nil || set.supervisor == nil {
		return fmt.Errorf("a Secret was made before both Pods stand: %w", err)
	}
	if !gated(set.workload) || !gated(set.supervisor) {
		return errors.New("a Secret was made for a Pod that has no gate any more")
	}
	return fenced(state)
}

func as[T any](u *unstructured.Unstructured) (*T, error) {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return into, nil
}
