package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/program"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// dialects are those of the two versions of the resource. Clusters that serve only the older one must be of their own.
var dialects = map[string]func(*testing.T) (*cluster.Cluster, reconcile.Dialect){
	"v1beta1": func(t *testing.T) (*cluster.Cluster, reconcile.Dialect) {
		return cluster.Start(t, cluster.ControlPlane), reconcile.Newest()
	},
	"v1alpha1": func(t *testing.T) (*cluster.Cluster, reconcile.Dialect) {
		return cluster.StartPrivate(t).Cluster, reconcile.V1alpha1WithoutSuspended()
	},
}

// started is a Site with a daemon that is ready.
func started(t *testing.T) (*supervisor.Site, *supervisor.Client) {
	t.Helper()
	s := supervisor.New(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
	return s, s.Client(s.Start())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// namespace makes one.
func namespace(t testing.TB, s *supervisor.Site, labels ...string) string {
	t.Helper()
	set := map[string]string{}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		set[key] = value
	}
	name, err := s.Namespace(t.Context(), set)
	must(t, err)
	return name
}

// whole are the companions of a Box that has a run of this generation.
func whole(b *supervisor.Box, generation string) []string {
	keys := []string{
		supervisor.Pods + "/" + b.Name, supervisor.Pods + "/" + b.SupervisorName(), supervisor.Services + "/" + b.ServiceName(),
		supervisor.Secrets + "/" + b.SecretName("sandbox", generation), supervisor.Secrets + "/" + b.SecretName("supervisor", generation),
	}
	slices.Sort(keys)
	return keys
}

// demandSet demands exactly the whole set of one Box in its namespace.
func demandSet(t testing.TB, s *supervisor.Site, b *supervisor.Box, run supervisor.Run) {
	t.Helper()
	if diff := cmp.Diff(whole(b, run.Generation), s.History.Now(b.Namespace).Companions()); diff != "" {
		t.Errorf("objects of the run (-want +got):\n%s", diff)
	}
}

// demandNothing demands that nothing of a run is left, and the Service only where it may. A call that ends is answered after that; on a busy
// machine it is answered before, says so, and the loop goes on.
func demandNothing(t testing.TB, s *supervisor.Site, b *supervisor.Box, service bool) {
	t.Helper()
	var want []string
	if service {
		want = []string{supervisor.Services + "/" + b.ServiceName()}
	}
	ctx, cancel := context.WithTimeout(t.Context(), program.Limit)
	defer cancel()
	err := supervisor.Await(ctx, func() error {
		if diff := cmp.Diff(want, s.History.Now(b.Namespace).Companions()); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	if err != nil {
		t.Errorf("objects that are left (-want +got):\n%s", err)
	}
}

// demandIdentity compares what was answered with what is there.
func demandIdentity(t testing.TB, s *supervisor.Site, b *supervisor.Box, got *supervisorv1.RuntimeIdentity) {
	t.Helper()
	now := s.History.Now(b.Namespace)
	want := &supervisorv1.RuntimeIdentity{
		Namespace: b.Namespace, SandboxUid: b.UID,
		SupervisorUid: string(now[supervisor.Pods+"/"+b.SupervisorName()].GetUID()),
		WorkloadUid:   string(now[supervisor.Pods+"/"+b.Name].GetUID()),
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
}

// demandRefused demands one of the reasons.
func demandRefused(t testing.TB, err error, reasons ...verdict.Reason) verdict.Decision {
	t.Helper()
	decision, explained := verdict.FromError(err)
	if err == nil || !explained || !slices.Contains(reasons, decision.Reason) {
		t.Fatalf("refused with %v, want %v", err, reasons)
	}
	if spec, _ := decision.Reason.Spec(); decision.Explain() == "" || spec.Reason != decision.Reason {
		t.Errorf("%s is no reason that explains: %q", decision.Reason, decision.Explain())
	}
	return decision
}

// record are the annotations of the Sandbox that say how far its run is, without their common beginning.
func record(t testing.TB, b *supervisor.Box) map[string]string {
	t.Helper()
	box, err := b.Object(t.Context())
	must(t, err)
	return recordOf(box)
}

func recordOf(box *api.Sandbox) map[string]string {
	all := map[string]string{}
	for key, value := range box.Annotations {
		if rest, found := strings.CutPrefix(key, "openshell.ai/sandbox-runtime-"); found {
			all[rest] = value
		}
	}
	return all
}

// A sandbox goes through its life: created, asked for again, completed by the loop, stopped, started, started anew while it runs, stopped
// by the loop when it has lost its supervisor, removed. What holds at every
// moment of it the History judges.
func TestRun(t *testing.T) {
	t.Parallel()
	for name, of := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, dialect := of(t)
			s := supervisor.New(t, c, dialect)
			client := s.Client(s.Start())
			b := s.Box(namespace(t, s, restricted))
			provision(t, s, client, b)
			again(t, s, client, b)
			awaitStatus(t, client, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)
			release(t, s, client, b, b.Run)
			second := restart(t, s, client, b, supervisor.Run{Generation: b.Run.Generation, Session: supervisor.NewRun(2).Session, Epoch: 2})
			third := restart(t, s, client, b, supervisor.NewRun(3)) // over the second, which stands
			release(t, s, client, b, third)
			_, err := client.Restart(t.Context(), b, second)
			must(t, err) // of another generation, so nobody knows that it is an old one
			awaitStatus(t, client, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)
			must(t, harms["the supervisor Pod"](t, s, b))
			cluster.Eventually(t, "the loop stops what has lost its supervisor", func(ctx context.Context) error { return stopped(ctx, s, b) })
			second = restart(t, s, client, b, supervisor.NewRun(4))
			remove(t, s, client, b, second)
		})
	}
}

func provision(t *testing.T, s *supervisor.Site, client *supervisor.Client, b *supervisor.Box) {
	t.Helper()
	status, err := client.Status(t.Context(), b)
	must(t, err)
	if status.GetPhase() != supervisorv1.Phase_PHASE_PREPARING {
		t.Errorf("before: %v", status)
	}
	resp, err := client.Provision(t.Context(), b, b.Run)
	must(t, err)
	demandSet(t, s, b, b.Run)
	demandIdentity(t, s, b, resp.GetIdentity())
	demandOrder(t, s, b)
	got := record(t, b)
	for key, want := range map[string]string{
		"generation": b.Run.Generation, "main-process-spec": `{"version":1,"command":["/bin/run","--all"],"tty":false}`, "log-level": "info",
		"workload-uid": resp.GetIdentity().GetWorkloadUid(), "supervisor-uid": resp.GetIdentity().GetSupervisorUid(),
		"bootstrap-session": b.Run.Session, "network-policy-generation": "1",
	} {
		if got[key] != want {
			t.Errorf("the Sandbox records %s %q, want %q", key, got[key], want)
		}
	}
	if diff := cmp.Diff(b.Run.Proto(), resp.GetStatus().GetRun(), protocmp.Transform()); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
}

// demandOrder demands the order of contract 7.2 of the first time that each object is there.
func demandOrder(t testing.TB, s *supervisor.Site, b *supervisor.Box) {
	t.Helper()
	var order []string
	for _, e := range s.History.Events(b.Namespace) {
		key := e.Kind + "/" + e.Object.GetName()
		if e.Kind != supervisor.Sandboxes && !slices.Contains(order, key) {
			order = append(order, key)
		}
	}
	index := func(key string) int { return slices.Index(order, key) }
	steps := []string{
		supervisor.Policies + "/openshell-sandbox-workloads", supervisor.Services + "/" + b.ServiceName(), supervisor.Pods + "/" + b.SupervisorName(),
		supervisor.Pods + "/" + b.Name, supervisor.Secrets + "/" + b.SecretName("sandbox", b.Run.Generation),
	}
	for i := range len(steps) - 1 {
		if index(steps[i]) < 0 || index(steps[i]) > index(steps[i+1]) {
			t.Errorf("%s is not before %s in %q", steps[i], steps[i+1], order)
		}
	}
}

// again repeats the call, which answers the same and writes nothing.
func again(t *testing.T, s *supervisor.Site, client *supervisor.Client, b *supervisor.Box) {
	t.Helper()
	first, err := client.Provision(t.Context(), b, b.Run)
	must(t, err)
	before := len(s.Gate.Writes(b.Namespace))
	calls := sync.WaitGroup{}
	for range 4 {
		calls.Go(func() {
			resp, err := client.Provision(t.Context(), b, b.Run)
			if diff := cmp.Diff(first.GetIdentity(), resp.GetIdentity(), protocmp.Transform()); err != nil || diff != "" {
				t.Errorf("%v, identity (-first +now):\n%s", err, diff)
			}
		})
	}
	calls.Wait()
	for _, w := range s.Gate.Writes(b.Namespace)[before:] {
		if !strings.Contains(w.Path, "/sandboxes/") || w.Method != http.MethodPatch { // the reconcile loop may complete the run meanwhile
			t.Errorf("a repeated call writes: %v", w)
		}
	}
	demandSet(t, s, b, b.Run)
	other := b.Run
	other.Session = supervisor.NewRun(1).Session
	_, err = client.Provision(t.Context(), b, other)
	demandRefused(t, err, verdict.RunIsAnother)
	demandSet(t, s, b, b.Run)
}

func restart(t *testing.T, s *supervisor.Site, client *supervisor.Client, b *supervisor.Box, run supervisor.Run) supervisor.Run {
	t.Helper()
	before := s.History.Now(b.Namespace)
	resp, err := client.Restart(t.Context(), b, run)
	must(t, err)
	demandSet(t, s, b, run)
	demandIdentity(t, s, b, resp.GetIdentity())
	for key, object := range s.History.Now(b.Namespace) {
		old := before[key]
		kept := strings.HasPrefix(key, supervisor.Sandboxes) || strings.HasPrefix(key, supervisor.Policies) || strings.HasPrefix(key, supervisor.Services)
		if old != nil && (old.GetUID() == object.GetUID()) != kept {
			t.Errorf("%s has uid %s before and %s after a restart", key, old.GetUID(), object.GetUID())
		}
	}
	repeated, err := client.Restart(t.Context(), b, run)
	must(t, err)
	if diff := cmp.Diff(resp.GetIdentity(), repeated.GetIdentity(), protocmp.Transform()); diff != "" {
		t.Errorf("identity of the same run (-first +second):\n%s", diff)
	}
	return run
}

func release(t *testing.T, s *supervisor.Site, client *supervisor.Client, b *supervisor.Box, run supervisor.Run) {
	t.Helper()
	late := run
	late.Session = supervisor.NewRun(1).Session
	_, err := client.Release(t.Context(), b, late)
	demandRefused(t, err, verdict.RunIsAnother)
	demandSet(t, s, b, run)
	// A call may name the run's generation otherwise: session and epoch tell which one is meant (contract 2.6).
	named := run
	named.Generation = supervisor.NewRun(1).Generation
	resp, err := client.Release(t.Context(), b, named)
	must(t, err)
	if resp.GetStatus().GetPhase() != supervisorv1.Phase_PHASE_SUSPENDED {
		t.Errorf("after a stop: %v", resp)
	}
	demandNothing(t, s, b, true)
	demandSettled(t, s, b)
	before := len(s.Gate.Writes(b.Namespace))
	_, err = client.Release(t.Context(), b, run)
	must(t, err)
	if more := s.Gate.Writes(b.Namespace)[before:]; len(more) > 0 {
		t.Errorf("a stop of what is stopped writes %v", more)
	}
}

// demandSettled demands that the record is that of a stopped sandbox, and that the controller says so where it can.
func demandSettled(t testing.TB, s *supervisor.Site, b *supervisor.Box) {
	t.Helper()
	if err := settled(t.Context(), s, b); err != nil {
		t.Error(err)
	}
}

func settled(ctx context.Context, s *supervisor.Site, b *supervisor.Box) error {
	box, err := b.Object(ctx)
	if err != nil {
		return err
	}
	want := map[string]string{
		"main-process-spec": `{"version":1,"command":["/bin/run","--all"],"tty":false}`, "log-level": "info", "readiness": "unavailable",
	}
	got := recordOf(box)
	for _, why := range []string{"stop-reason", "stop-explanation"} { // which the loop leaves behind
		delete(got, why)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("record of a stopped sandbox (-want +got):\n%s", diff)
	}
	if !box.Suspended() {
		return errors.New("the Sandbox is not suspended")
	}
	if s.Dialect.ReportSuspended && !slices.ContainsFunc(box.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == api.ConditionSuspended && c.Status == "True" && c.ObservedGeneration == box.Generation
	}) {
		return fmt.Errorf("the controller does not say that it is suspended: %v", box.Status.Conditions)
	}
	return nil
}

func remove(t *testing.T, s *supervisor.Site, client *supervisor.Client, b *supervisor.Box, run supervisor.Run) {
	t.Helper()
	resp, err := client.Remove(t.Context(), b, run)
	must(t, err)
	if resp.GetStatus().GetPhase() != supervisorv1.Phase_PHASE_ABSENT {
		t.Errorf("after a removal: %v", resp)
	}
	demandNothing(t, s, b, false)
	box, err := b.Object(t.Context())
	must(t, err)
	if string(box.UID) != b.UID || box.DeletionTimestamp != nil {
		t.Errorf("the Sandbox is not left to the caller: %v", box.ObjectMeta)
	}
	_, err = client.Remove(t.Context(), b, supervisor.Run{})
	must(t, err)
}
