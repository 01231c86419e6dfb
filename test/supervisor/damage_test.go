//go:build portcullis_long

package supervisor_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// victim is one object of a set.
type victim struct {
	kind string
	name func(b *supervisor.Box) string
	// edit is a merge patch that makes it another than it must be.
	edit string
	// stranger is the spec of what somebody puts in its place.
	stranger map[string]any
	// more is what else may be edited of it, and no other damage: of a Pod a strategic merge patch, of the subresource if there is one.
	more, subresource string
}

func named(name string) func(*supervisor.Box) string {
	return func(*supervisor.Box) string { return name }
}

func ownName(b *supervisor.Box) string { return b.Name }

func secretName(kind string) func(*supervisor.Box) string {
	return func(b *supervisor.Box) string { return b.SecretName(kind, b.Run.Generation) }
}

var (
	strangersPod     = supervisor.Object{"containers": []any{supervisor.Object{"name": "c", "image": "registry.example/c"}}}
	strangersPolicy  = supervisor.Object{"podSelector": supervisor.Object{}, "policyTypes": []any{"Ingress"}}
	strangersService = supervisor.Object{"ports": []any{supervisor.Object{"port": int64(1)}}}
	withoutRole      = `{"metadata":{"labels":{"openshell.ai/boundary-role":null}}}`
	withoutOwner     = `{"metadata":{"labels":{"openshell.ai/managed-by":null,"openshell.ai/sandbox-id":null}}}`
)

var victims = map[string]victim{
	"workloads' policy": {
		kind: supervisor.Policies, name: named("openshell-sandbox-workloads"), edit: `{"spec":{"egress":[{}]}}`, stranger: strangersPolicy,
	},
	"supervisors' policy": {
		kind: supervisor.Policies, name: named("openshell-sandbox-supervisors"), edit: `{"spec":{"egress":[]}}`, stranger: strangersPolicy,
	},
	"Service": {
		kind: supervisor.Services, name: (*supervisor.Box).ServiceName, edit: `{"spec":{"selector":{"openshell.ai/boundary-role":"other"}}}`, stranger: strangersService,
	},
	"supervisor Pod":     {kind: supervisor.Pods, name: (*supervisor.Box).SupervisorName, edit: withoutRole, stranger: strangersPod},
	"workload Pod":       {kind: supervisor.Pods, name: ownName, edit: withoutRole, stranger: strangersPod},
	"supervisor's image": {kind: supervisor.Pods, name: (*supervisor.Box).SupervisorName, more: image("supervisor")},
	"workload's image":   {kind: supervisor.Pods, name: ownName, more: image("agent")},
	"supervisor's guest": {kind: supervisor.Pods, name: (*supervisor.Box).SupervisorName, more: guest, subresource: "ephemeralcontainers"},
	"workload's guest":   {kind: supervisor.Pods, name: ownName, more: guest, subresource: "ephemeralcontainers"},
	"sandbox Secret":     {kind: supervisor.Secrets, name: secretName("sandbox"), edit: withoutOwner},
	"supervisor Secret":  {kind: supervisor.Secrets, name: secretName("supervisor"), edit: withoutOwner},
	"Sandbox": {
		kind: supervisor.Sandboxes, name: ownName, edit: `{"metadata":{"annotations":{"openshell.ai/sandbox-runtime-supervisor-uid":"another"}}}`,
		stranger: supervisor.Object{"operatingMode": "Suspended", "podTemplate": supervisor.Object{"spec": strangersPod}},
	},
	"Sandbox's mode": {kind: supervisor.Sandboxes, name: ownName, more: `{"spec":{"operatingMode":"Suspended"}}`},
}

// image exchanges that of a container, as somebody with the right to patch Pods can while it runs.
func image(container string) string {
	return `{"spec":{"containers":[{"name":"` + container + `","image":"registry.example/exchanged"}]}}`
}

// guest is a container that somebody with the right to debug Pods puts beside the others.
const guest = `{"spec":{"ephemeralContainers":[{"name":"guest","image":"registry.example/guest"}]}}`

// How an object is damaged.
const (
	edited   = "edited"
	removed  = "deleted"
	replaced = "replaced"
	stuck    = "deleted and held by a finalizer"
)

// When it is.
const (
	beforeSecrets = "before the Secrets"
	beforeGates   = "before the gates are lifted"
	running       = "while it runs"
	stopping      = "during a stop"
)

// damage is one case.
type damage struct {
	victim, how, when string
	victimOf          victim
	box               *supervisor.Box
	// stranger is what was put in the place of the object.
	stranger *unstructured.Unstructured
	// call is how the call ended that was under way, and outcome where all came to rest.
	call    error
	outcome string
}

func (d *damage) String() string { return d.victim + " is " + d.how + " " + d.when }

func damages(name string, v victim) []*damage {
	var all []*damage
	for _, how := range []string{edited, removed, replaced, stuck} {
		for _, when := range []string{beforeSecrets, beforeGates, running, stopping} {
			late := v.kind == supervisor.Secrets && when == beforeSecrets
			if !late && (v.more == "" || how == edited) {
				all = append(all, &damage{victim: name, how: how, when: when, victimOf: v})
			}
		}
	}
	return all
}

// Somebody edits, deletes, replaces or blocks any object of a set at any moment of its life. Whatever it is: the call that is under way
// is answered, with a reason when it did not do what was asked; what a stranger made is left alone; and all comes to rest, either whole
// and ready, or stopped with nothing left, or, when the Sandbox is gone, with nothing at all.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, v := range victims {
		t.Run(name, func(t *testing.T) { // one after the other: each needs a machine
			if v.kind == supervisor.Secrets {
				t.Parallel() // most of their time nothing happens
			}
			s := supervisor.New(t, sharedCluster(t), newest)
			s.LogLevel = "info"
			client := s.Client(s.Start())
			all := damages(name, v)
			errs := make([]error, len(all))
			var cases sync.WaitGroup
			const atOnce = 4
			turns := make(chan struct{}, atOnce)
			for i, d := range all {
				cases.Go(func() {
					turns <- struct{}{}
					defer func() { <-turns }()
					ctx, cancel := context.WithTimeout(t.Context(), d.limit())
					defer cancel()
					errs[i] = d.work(ctx, s, client)
				})
			}
			cases.Wait()
			for i, d := range all {
				t.Logf("%s: %s; the call: %s", d, d.outcome, reasonOf(d.call))
				if errs[i] != nil {
					t.Errorf("%s: %v", d, errs[i])
				}
			}
		})
	}
}

func reasonOf(err error) string {
	if err == nil {
		return "granted"
	}
	decision, _ := verdict.FromError(err)
	return fmt.Sprintf("%s (%s)", decision.Reason, decision.Explain())
}

// work brings a sandbox to the moment, does the damage, and waits for the end.
func (d *damage) work(ctx context.Context, s *supervisor.Site, client *supervisor.Client) error {
	ns, err := s.Namespace(ctx, nil)
	if err != nil {
		return err
	}
	if d.box, err = s.Make(ctx, ns); err != nil {
		return err
	}
	s.History.Disordered(ns) // a part that is gone drags others with it, in no order
	for _, key := range d.excused() {
		s.History.Excuse(ns, key)
	}
	if d.unseen() {
		s.History.Incomplete(ns, supervisor.Pods+"/"+d.box.Name)
	}
	call := provisioned
	if d.when == running || d.when == stopping {
		if err := provisioned(ctx, client, d.box); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		if err := until(ctx, func(ctx context.Context) error { return quiet(ctx, s, d.box) }); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		call = released
	}
	if d.when == running {
		call = nil
	}
	answered, err := d.interrupt(ctx, s, client, call)
	if err != nil {
		return err
	}
	if err := d.unblock(ctx, s, answered); err != nil {
		return err
	}
	if err := d.answer(ctx, answered); err != nil {
		return err
	}
	if d.contested() {
		if err := d.giveWay(ctx, s, client); err != nil {
			return err
		}
	}
	return errors.Join(until(ctx, func(ctx context.Context) error { return d.rest(ctx, s) }), d.untouched(ctx, s))
}

// excused are the objects whose fate is not judged: the one that is damaged, and what is on its way in that moment and may arrive, which is a
// Secret or the supervisor's gate.
func (d *damage) excused() []string {
	keys := []string{d.victimOf.kind + "/" + d.victimOf.name(d.box), supervisor.Pods + "/" + d.box.SupervisorName()}
	for _, kind := range []string{"sandbox", "supervisor"} {
		keys = append(keys, supervisor.Secrets+"/"+d.box.SecretName(kind, d.box.Run.Generation))
	}
	return keys
}

// unseen reports whether the damage may be noticed only after the workload was let go. Before that the fence and its Pod are looked at again,
// and the others are not: without them it is fenced, and nobody gets in. Nobody here may look for a Secret at all.
func (d *damage) unseen() bool {
	begun := d.when == beforeSecrets || d.when == beforeGates
	return begun && d.victimOf.kind != supervisor.Policies && d.victimOf.kind != supervisor.Pods
}

// moments choose the write in front of which the damage is done.
var moments = map[string]func(supervisor.Write) bool{
	beforeSecrets: func(w supervisor.Write) bool {
		return w.Method == http.MethodPost && strings.HasSuffix(w.Path, "/secrets")
	},
	beforeGates: func(w supervisor.Write) bool {
		return w.Method == http.MethodPatch && strings.Contains(w.Path, "/pods/")
	},
	stopping: func(w supervisor.Write) bool {
		return w.Method == http.MethodDelete && strings.Contains(w.Path, "/pods/")
	},
}

// interrupt does the damage in the middle of a call, and returns where its end is told.
func (d *damage) interrupt(ctx context.Context, s *supervisor.Site, client *supervisor.Client,
	call func(context.Context, *supervisor.Client, *supervisor.Box) error,
) (chan error, error) {
	answered := make(chan error, 1)
	if call == nil {
		answered <- nil
		return answered, d.harm(ctx, s)
	}
	hold := s.Gate.Pause(d.box.Namespace, moments[d.when])
	defer hold.Deliver()
	go func() { answered <- call(ctx, client, d.box) }()
	select {
	case <-hold.Reached():
	case err := <-answered:
		return nil, fmt.Errorf("the call ended before the moment: %w", err)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return answered, d.harm(ctx, s)
}

const finalizer = "portcullis.test/held"

// harm does the damage.
func (d *damage) harm(ctx context.Context, s *supervisor.Site) error {
	objects, name := s.History.Objects(d.victimOf.kind, d.box.Namespace), d.victimOf.name(d.box)
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	patch := func(text string) error {
		_, err := objects.Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	if d.victimOf.more != "" && d.victimOf.kind == supervisor.Pods {
		var of []string
		if d.victimOf.subresource != "" {
			of = append(of, d.victimOf.subresource)
		}
		_, err := objects.Patch(ctx, name, types.StrategicMergePatchType, []byte(d.victimOf.more), metav1.PatchOptions{}, of...)
		return err
	}
	switch d.how {
	case edited:
		return patch(cmp.Or(d.victimOf.edit, d.victimOf.more))
	case removed:
		return objects.Delete(ctx, name, metav1.DeleteOptions{})
	case stuck:
		return errors.Join(patch(`{"metadata":{"finalizers":["`+finalizer+`"]}}`), objects.Delete(ctx, name, metav1.DeleteOptions{}))
	}
	old, err := objects.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	stranger := &unstructured.Unstructured{Object: supervisor.Object{"metadata": supervisor.Object{"name": name}}}
	stranger.SetGroupVersionKind(old.GroupVersionKind())
	if d.victimOf.stranger != nil {
		stranger.Object["spec"] = runtimeCopy(d.victimOf.stranger)
	}
	for { // the controller may be quicker to put something there
		if err := objects.Delete(ctx, name, now); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		d.stranger, err = objects.Create(ctx, stranger, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

func runtimeCopy(o map[string]any) map[string]any {
	return (&unstructured.Unstructured{Object: o}).DeepCopy().Object
}

// unblock takes the finalizer away after some time, or when the call is answered.
func (d *damage) unblock(ctx context.Context, s *supervisor.Site, answered chan error) error {
	if d.how != stuck {
		return nil
	}
	if d.when != running {
		select {
		case err := <-answered:
			answered <- err
			if pod := d.victimOf.kind == supervisor.Pods; err == nil && d.when == stopping && pod {
				return errors.New("a stop is granted while a Pod of the run is there")
			}
		case <-time.After(5 * time.Second): // how long the finalizer's owner takes
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	_, err := s.History.Objects(d.victimOf.kind, d.box.Namespace).Patch(ctx, d.victimOf.name(d.box), types.JSONPatchType,
		[]byte(`[{"op":"test","path":"/metadata/finalizers/0","value":"`+finalizer+`"},{"op":"remove","path":"/metadata/finalizers/0"}]`), metav1.PatchOptions{})
	return err
}

// answer waits for the call, whose refusal must have a reason.
func (d *damage) answer(ctx context.Context, answered chan error) error {
	select {
	case d.call = <-answered:
	case <-ctx.Done():
		return errors.New("the call is not answered")
	}
	if decision, explained := verdict.FromError(d.call); d.call != nil && (!explained || decision.Reason == verdict.Unexplained) {
		return fmt.Errorf("the call is refused without a reason: %w", d.call)
	}
	return nil
}

// until repeats a look until it finds nothing wrong.
func until(ctx context.Context, look func(context.Context) error) error {
	var last error
	for {
		err := look(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil { // else it is only that the time is over
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not at rest: %w", last)
		case <-time.After(250 * time.Millisecond): // between two looks
		}
	}
}
