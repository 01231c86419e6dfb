package conduct

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// world is a Cluster in memory, with an Agent Sandbox controller that does at once what is wanted of it.
type world struct {
	mu       sync.Mutex
	counter  int
	box      *sandboxapi.Object
	policies map[string]*networkingv1.NetworkPolicy
	services map[string]*corev1.Service
	pods     map[string]*corev1.Pod
	secrets  map[string]*corev1.Secret
	sources  map[string]*corev1.Secret

	// writes are those that were carried out, reads how many there were, and asked of what.
	writes []string
	reads  int
	asked  []string
	// home is the uid of the namespace.
	home types.UID
	// handed are the Secrets as the conductor handed them over: it wipes their bytes.
	handed []*corev1.Secret
	// before and after stand between the conductor and each write: an error of before keeps it from being carried out, one of after
	// keeps its success to itself.
	before, after func(write string) error
	// read stands before each read, which fails with its error.
	read func(what string) error
	// tells is what a watch of one Pod does; nil when there is none.
	tells func(ctx context.Context, name, version string) error
	// admit changes the workload Pod that the controller makes; nil makes it as it is asked for.
	admit func(*corev1.Pod)
	// idle is a controller that does nothing. lingers keeps deleted Pods, as a finalizer does.
	idle, lingers bool

	// events are those that were written; deny refuses them, denied times.
	events []*corev1.Event
	deny   error
	denied int
}

func newWorld(box *sandboxapi.Object) *world {
	return &world{
		box: box, home: "uid-namespace", policies: map[string]*networkingv1.NetworkPolicy{}, services: map[string]*corev1.Service{},
		pods: map[string]*corev1.Pod{}, secrets: map[string]*corev1.Secret{}, sources: map[string]*corev1.Secret{},
	}
}

func (w *world) next() string {
	w.counter++
	return strconv.Itoa(w.counter)
}

func get[T any](w *world, ctx context.Context, what string, objects map[string]*T, name string, clone func(*T) *T) (*T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads, w.asked = w.reads+1, append(w.asked, what+" "+name)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if w.read != nil {
		if err := w.read(what + " " + name); err != nil {
			return nil, err
		}
	}
	if found, ok := objects[name]; ok {
		return clone(found), nil
	}
	return nil, fmt.Errorf("read %s: %w", name, cluster.ErrAbsent)
}

// write carries a write out, unless something stands in its way.
func (w *world) write(ctx context.Context, what string, do func() error) error {
	w.mu.Lock()
	before, after := w.before, w.after
	w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if before != nil {
		if err := before(what); err != nil {
			return err
		}
	}
	w.mu.Lock()
	err := do()
	if err == nil {
		w.writes = append(w.writes, what)
	}
	w.mu.Unlock()
	if err == nil && after != nil {
		err = after(what)
	}
	return err
}

func create[T any](w *world, objects map[string]*T, name string, stored *T) error {
	if _, ok := objects[name]; ok {
		return fmt.Errorf("create %s: %w", name, cluster.ErrExists)
	}
	objects[name] = stored
	return nil
}

func (w *world) stamp(m *metav1.ObjectMeta) {
	m.UID, m.ResourceVersion, m.Generation = types.UID("uid-"+w.next()), w.next(), 1
}

func (w *world) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	all := map[string]*corev1.Namespace{name: {ObjectMeta: metav1.ObjectMeta{Name: name, UID: w.home}}}
	return get(w, ctx, "namespace", all, name, (*corev1.Namespace).DeepCopy)
}

func (w *world) Policy(ctx context.Context, _, name string) (*networkingv1.NetworkPolicy, error) {
	return get(w, ctx, "policy", w.policies, name, (*networkingv1.NetworkPolicy).DeepCopy)
}

func (w *world) Service(ctx context.Context, _, name string) (*corev1.Service, error) {
	return get(w, ctx, "service", w.services, name, (*corev1.Service).DeepCopy)
}

func (w *world) Pod(ctx context.Context, _, name string) (*corev1.Pod, error) {
	return get(w, ctx, "pod", w.pods, name, (*corev1.Pod).DeepCopy)
}

func (w *world) SourceSecret(ctx context.Context, _, name string) (*corev1.Secret, error) {
	return get(w, ctx, "secret", w.sources, name, (*corev1.Secret).DeepCopy)
}

func (w *world) Sandbox(ctx context.Context, _, name string) (*sandboxapi.Object, error) {
	all := map[string]*sandboxapi.Object{}
	w.mu.Lock()
	if w.box != nil {
		all[w.box.Name] = w.box
	}
	w.mu.Unlock()
	return get(w, ctx, "sandbox", all, name, clone)
}

func clone(o *sandboxapi.Object) *sandboxapi.Object {
	c := *o
	c.Annotations, c.Labels = maps.Clone(o.Annotations), maps.Clone(o.Labels)
	c.Conditions = slices.Clone(o.Conditions)
	o.Template.DeepCopyInto(&c.Template)
	return &c
}

func (w *world) CreatePolicy(ctx context.Context, wanted *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error) {
	made := wanted.DeepCopy()
	return made, w.write(ctx, "create policy "+wanted.Name, func() error {
		w.stamp(&made.ObjectMeta)
		return create(w, w.policies, wanted.Name, made.DeepCopy())
	})
}

func (w *world) CreateService(ctx context.Context, wanted *corev1.Service) (*corev1.Service, error) {
	made := wanted.DeepCopy()
	return made, w.write(ctx, "create service "+wanted.Name, func() error {
		w.stamp(&made.ObjectMeta)
		made.Spec.ClusterIP = "10.96.0.7"
		return create(w, w.services, wanted.Name, made.DeepCopy())
	})
}

func (w *world) CreatePod(ctx context.Context, wanted *corev1.Pod) (*corev1.Pod, error) {
	made := wanted.DeepCopy()
	return made, w.write(ctx, "create pod "+wanted.Name, func() error {
		w.stamp(&made.ObjectMeta)
		made.Status.Phase = corev1.PodPending
		return create(w, w.pods, wanted.Name, made.DeepCopy())
	})
}

func (w *world) CreateSecret(ctx context.Context, wanted *corev1.Secret) (string, error) {
	w.mu.Lock()
	w.handed = append(w.handed, wanted)
	w.mu.Unlock()
	uid := ""
	err := w.write(ctx, "create secret "+wanted.Name, func() error {
		made := wanted.DeepCopy()
		made.UID = types.UID("uid-" + w.next())
		uid = string(made.UID)
		return create(w, w.secrets, wanted.Name, made)
	})
	if err != nil {
		return "", err
	}
	return uid, nil
}

func (w *world) DeletePod(ctx context.Context, _, name, uid string) error {
	return w.write(ctx, "delete pod "+name, func() error {
		if pod, ok := w.pods[name]; ok && string(pod.UID) == uid {
			w.end(name)
		}
		return nil
	})
}

// end takes a Pod away, with the Secrets that it owns.
func (w *world) end(name string) {
	pod := w.pods[name]
	if w.lingers {
		pod.DeletionTimestamp, pod.ResourceVersion = new(metav1.Now()), w.next()
		return
	}
	delete(w.pods, name)
	maps.DeleteFunc(w.secrets, func(_ string, s *corev1.Secret) bool {
		return slices.ContainsFunc(s.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == pod.UID })
	})
}

func (w *world) DeleteService(ctx context.Context, _, name, uid string) error {
	return w.write(ctx, "delete service "+name, func() error {
		if found, ok := w.services[name]; ok && string(found.UID) == uid {
			delete(w.services, name)
		}
		return nil
	})
}

func (w *world) DeleteSecret(ctx context.Context, _, name, uid string) error {
	what := "delete secret " + name
	if uid == "" {
		what += " by its name alone"
	}
	return w.write(ctx, what, func() error {
		if found := w.secrets[name]; found != nil && (uid == "" || string(found.UID) == uid) {
			delete(w.secrets, name)
		}
		return nil
	})
}

// AwaitPod says what tells does, or nothing at all: whoever waits has to look.
func (w *world) AwaitPod(ctx context.Context, _, name, version string) error {
	w.mu.Lock()
	tells := w.tells
	w.mu.Unlock()
	if tells == nil {
		return errors.New("no watch")
	}
	return tells(ctx, name, version)
}

func (w *world) Policies(ctx context.Context, _ string) ([]networkingv1.NetworkPolicy, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads, w.asked = w.reads+1, append(w.asked, "policies")
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list policies: %w", err)
	}
	if w.read != nil {
		if err := w.read("policies"); err != nil {
			return nil, err
		}
	}
	var all []networkingv1.NetworkPolicy
	for _, name := range slices.Sorted(maps.Keys(w.policies)) {
		all = append(all, *w.policies[name].DeepCopy())
	}
	return all, nil
}

// CreateEvent keeps an Event, unless the world denies it.
func (w *world) CreateEvent(_ context.Context, wanted *corev1.Event) (*corev1.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deny != nil {
		w.denied++
		return nil, w.deny
	}
	w.events = append(w.events, wanted.DeepCopy())
	return wanted, nil
}

// CountEvent counts one that is there.
func (w *world) CountEvent(_ context.Context, _, name string, _ []byte) (*corev1.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Name == name {
			e.Count++
			return e.DeepCopy(), nil
		}
	}
	return nil, fmt.Errorf("count event %s: %w", name, cluster.ErrAbsent)
}

func (w *world) Ungate(ctx context.Context, at *corev1.Pod, gate string, index int, annotations map[string]string) (*corev1.Pod, error) {
	var ungated *corev1.Pod
	name := at.Name
	err := w.write(ctx, "ungate "+name, func() error {
		pod, ok := w.pods[name]
		if !ok {
			return fmt.Errorf("ungate %s: %w", name, cluster.ErrAbsent)
		}
		if gates := pod.Spec.SchedulingGates; pod.UID != at.UID || pod.ResourceVersion != at.ResourceVersion || index < 0 || index >= len(gates) || gates[index].Name != gate {
			return fmt.Errorf("ungate %s: %w", name, cluster.ErrConflict)
		}
		pod.Spec.SchedulingGates = slices.Delete(pod.Spec.SchedulingGates, index, index+1)
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		maps.Copy(pod.Annotations, annotations)
		pod.ResourceVersion = w.next()
		ungated = pod.DeepCopy()
		return nil
	})
	return ungated, err
}

func (w *world) ChangeSandbox(ctx context.Context, at *sandboxapi.Object, change cluster.Change) (*sandboxapi.Object, error) {
	var changed *sandboxapi.Object
	what := fmt.Sprintf("change sandbox to %s", cmpPhase(at, change))
	err := w.write(ctx, what, func() error {
		switch {
		case w.box == nil:
			return fmt.Errorf("%s: %w", what, cluster.ErrAbsent)
		case w.box.UID != at.UID, !change.WhateverStatus && w.box.ResourceVersion != at.ResourceVersion:
			return fmt.Errorf("%s: %w", what, cluster.ErrConflict)
		case w.box.Generation != at.Generation, w.box.Deleting != at.Deleting, !maps.Equal(w.box.Annotations, at.Annotations), !maps.Equal(w.box.Labels, at.Labels):
			return fmt.Errorf("%s: %w", what, cluster.ErrConflict)
		}
		w.apply(change)
		changed = clone(w.box)
		w.reconcile()
		return nil
	})
	return changed, err
}

// cmpPhase is the phase that a change leads to, and the mode.
func cmpPhase(at *sandboxapi.Object, change cluster.Change) string {
	const key = "openshell.ai/sandbox-runtime-bootstrap-phase"
	phase := at.Annotations[key]
	if to, ok := change.Annotations[key]; ok {
		phase, _ = to.(string)
	}
	if phase == "" {
		phase = "rest"
	}
	if change.Mode != 0 {
		phase += ", " + change.Mode.String()
	}
	return phase
}

func (w *world) apply(change cluster.Change) {
	for key, value := range change.Annotations {
		if text, ok := value.(string); ok {
			w.box.Annotations[key] = text
		} else {
			delete(w.box.Annotations, key)
		}
	}
	if change.Mode != 0 {
		w.box.Mode = change.Mode
		w.box.Generation++
	}
	if change.Volumes != nil {
		w.box.Template.Spec.Volumes, w.box.Template.Spec.ImagePullSecrets = change.Volumes, change.PullSecrets
	}
	w.box.ResourceVersion = w.next()
}

// reconcile is what the controller does.
func (w *world) reconcile() {
	if w.idle {
		return
	}
	name := w.box.PodName()
	_, there := w.pods[name]
	switch {
	case w.box.Mode == sandboxapi.Running && !there:
		pod := &corev1.Pod{ObjectMeta: *w.box.Template.ObjectMeta.DeepCopy(), Spec: *w.box.Template.Spec.DeepCopy()}
		pod.Namespace, pod.Name = w.box.Namespace, name
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "workspace", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "workspace-" + w.box.Name},
		}})
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: w.box.Version.APIVersion(), Kind: sandboxapi.Kind, Name: w.box.Name, UID: types.UID(w.box.UID), Controller: new(true), BlockOwnerDeletion: new(true),
		}}
		w.stamp(&pod.ObjectMeta)
		pod.Status.Phase = corev1.PodPending
		if w.admit != nil {
			w.admit(pod)
		}
		w.pods[name] = pod
	case w.box.Mode == sandboxapi.Suspended && there:
		w.end(name)
	}
	w.say(sandboxapi.ConditionSuspended, w.box.Mode == sandboxapi.Suspended && w.pods[name] == nil, "")
}

// say sets a condition of the Sandbox.
func (w *world) say(kind string, is bool, message string) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	w.box.Conditions = slices.DeleteFunc(w.box.Conditions, func(c sandboxapi.Condition) bool { return c.Type == kind })
	w.box.Conditions = append(w.box.Conditions, sandboxapi.Condition{Type: kind, Status: string(status), Message: message, ObservedGeneration: w.box.Generation})
	w.box.ResourceVersion = w.next()
}

// change lets somebody else do something.
func (w *world) change(do func(w *world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do(w)
}

// done are the writes that were carried out.
func (w *world) done() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.writes)
}

// always makes an error for every write that begins like this.
func always(write string, err error) func(string) error {
	return func(what string) error {
		if strings.HasPrefix(what, write) {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
}

var _ Cluster = (*world)(nil)
