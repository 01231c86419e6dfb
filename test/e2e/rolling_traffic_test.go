//go:build portcullis_long

package e2e_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/companions"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/credentials"
	"github.com/portcullis-mesh/portcullis/test/gateway/driver"
	"github.com/portcullis-mesh/portcullis/test/traffic"
)

// rollLimit ends the wait for a rollout, or for what is left of a sandbox, that will never be over.
const rollLimit = 5 * time.Minute

// severalLanes have a create, a stop, a start and a delete under way at any moment, most likely.
const severalLanes = 2

// town is an installation with sandboxes that run, and with what comes and goes beside them.
type town struct {
	*installation
	whole *testing.T // the test, of which the steps are parts
	// stays is in a namespace that may be used, closed in one whose label was taken away when it ran.
	stays, closed gateway.Sandbox
	// busy is a namespace that may be used, in which so many sandboxes at once come and go.
	busy   string
	lanes  int
	visits atomic.Int64      // of those
	pods   map[string]string // of the two, uids by name
	bearer []traffic.Bearer
	lives  atomic.Int64
	keys   *credentials.Authority
	epoch  atomic.Uint64
	// excused is what the step that goes on excuses.
	excused []traffic.Excuse
}

// settle has two sandboxes run and closes the namespace of one of them.
func settle(t *testing.T, w *town) {
	t.Helper()
	i := w.installation
	w.busy = i.workspace(t, "busy")
	var err error
	w.stays, err = i.create(t, i.wish(t, i.workspace(t, "stays"), "box"))
	noError(t, err)
	w.closed, err = i.create(t, i.wish(t, i.workspace(t, "closed"), "box"))
	noError(t, err)
	i.admit(t, w.closed.Workspace, false)
	cluster.Eventually(t, "the gate is closed for "+w.closed.Workspace, func(ctx context.Context) error {
		if i.gateway.EnsureWorkspace(ctx, w.closed.Workspace) == nil {
			return errors.New("it may be used")
		}
		return nil
	})
	var ring credentials.Ring
	ring, err = ring.Rotated()
	noError(t, err)
	w.keys, err = credentials.New("openshell", ring, time.Now)
	noError(t, err)
	w.pods = w.residentPods(t)
	w.bearer = []traffic.Bearer{
		w.bearerOf(t, w.stays, traffic.Allowed), w.bearerOf(t, w.closed, traffic.Barred), w.foreigner(t),
	}
}

// bearerOf is the credential of a sandbox's supervisor, as the kubelet gives it to its Pod.
func (w *town) bearerOf(t *testing.T, s gateway.Sandbox, standing traffic.Standing) traffic.Bearer {
	t.Helper()
	pod, err := w.c.Client().CoreV1().Pods(s.Workspace).Get(t.Context(), "os-supervisor-"+s.ID, metav1.GetOptions{})
	noError(t, err)
	return traffic.Bearer{
		Standing: standing, Sandbox: s.ID, Identity: s.RuntimeIdentity, Credential: w.c.Token(t, s.Workspace, "default", tokenFor(pod)),
	}
}

// foreigner is the credential of a Pod in a namespace that never was a workspace.
func (w *town) foreigner(t *testing.T) traffic.Bearer {
	t.Helper()
	pod := startProbe(t, w.c, w.namespace(t, "foreign"), "stranger")
	return traffic.Bearer{Standing: traffic.Barred, Sandbox: w.stays.ID, Credential: w.c.Token(t, pod.Namespace, "default", tokenFor(pod))}
}

func tokenFor(pod *corev1.Pod) cluster.TokenRequest {
	return cluster.TokenRequest{Audiences: []string{"openshell-gateway"}, Pod: pod, TTL: time.Hour}
}

// load is the traffic for the sandboxes that are there, and for more.
func (w *town) load(t *testing.T) *traffic.Load {
	t.Helper()
	churn := func(namespace string, standing traffic.Standing) traffic.Churn {
		return traffic.Churn{
			Standing: standing, Wish: func() *computev1.DriverSandbox { return w.visitor(t, namespace, standing) }, Bundle: func(id string) []byte { return w.bundle(t, id) },
			Left:  func(ctx context.Context, s *computev1.DriverSandbox) []string { return w.left(ctx, namespace, s) },
			Lived: func() { w.visits.Add(1) },
		}
	}
	churns := []traffic.Churn{churn(w.closed.Workspace, traffic.Barred)}
	for range w.lanes {
		churns = append(churns, churn(w.busy, traffic.Allowed))
	}
	return &traffic.Load{
		Driver: w.driver, Gateway: driver.Gateway("1"), Residents: []string{w.stays.ID, w.closed.ID}, Bearers: w.bearer,
		Churns: churns, Pace: 100 * time.Millisecond,
	}
}

// visitor is a new sandbox. Only one that may be made gets a volume.
func (w *town) visitor(t *testing.T, namespace string, standing traffic.Standing) *computev1.DriverSandbox {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	id := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	name := fmt.Sprintf("visitor-%d", w.lives.Add(1))
	if standing == traffic.Allowed {
		volume(t, w.c, namespace, "workspace-"+name)
	}
	return &computev1.DriverSandbox{Id: id, Name: name, Workspace: namespace, Spec: &computev1.DriverSandboxSpec{
		LogLevel: "info", Command: companions.Workload("sleep"), Template: &computev1.DriverSandboxTemplate{}, LaunchAuthentication: w.bundle(t, id),
	}}
}

func (w *town) bundle(t *testing.T, id string) []byte {
	bundle, err := w.keys.Bundle(credentials.Run{
		SandboxID: id, SessionID: id, Generation: traffic.Generation, Rotation: 1, AuthEpoch: w.epoch.Add(1),
	})
	if err != nil {
		t.Errorf("make a launch bundle: %v", err)
	}
	return bundle.Expose()
}

// left waits until no object of a sandbox is there, and returns what still is when it has waited for long.
func (w *town) left(ctx context.Context, namespace string, s *computev1.DriverSandbox) (found []string) {
	_ = wait.PollUntilContextTimeout(ctx, time.Second, rollLimit, true, func(ctx context.Context) (bool, error) {
		found = nil
		for _, resource := range []schema.GroupVersionResource{
			api.V1beta1.Resource(), corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("secrets"),
			corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		} {
			objects, err := w.c.Dynamic().Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				found = append(found, err.Error())
				continue
			}
			for _, o := range objects.Items {
				if o.GetName() == s.GetName() || o.GetName() == "workspace-"+s.GetName() || strings.Contains(o.GetName(), s.GetId()) {
					found = append(found, o.GetKind()+" "+o.GetName())
				}
			}
		}
		return len(found) == 0, nil
	})
	return found
}

// unproven is what is answered while nobody vouches for the list. A NATS server that is alone may be away for longer than max_staleness when
// the node is slow to start another: that the gate is closed then is what was promised.
const unproven = "the operator namespace allowlist is not available"

// bearable is how long NATS may be away without excuse: max_staleness of 15 s, without what its clients take to find it again.
const bearable = 10 * time.Second

// excuse takes for once what else would be a lost request, until the step is over.
func (w *town) excuse(refusal string) {
	w.excused = append(w.excused, traffic.Excuse{Message: refusal})
}

// excuseOutage is excuse for a step in which nobody vouches for the list until a reader of the documents has gone on.
func (w *town) excuseOutage(refusal string) {
	w.excused = append(w.excused, traffic.Excuse{Message: refusal, Lasting: true})
}

// under does something while traffic goes on, and judges that.
func (w *town) under(t *testing.T, what string, do func(t *testing.T)) {
	t.Helper()
	t.Run(what, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan []traffic.Request, 1)
		load := w.load(t)
		go func() { ended <- load.Run(ctx) }()
		defer func() {
			end()
			requests := <-ended
			faults := traffic.Judge(requests, w.excused...)
			t.Logf("%s: %d faults excused\n%s", what, len(traffic.Judge(requests))-len(faults), traffic.Count(requests))
			for _, f := range faults {
				t.Error(f)
			}
			w.excused = nil
			if calls := traffic.Undecided(requests); len(calls) > 0 {
				t.Errorf("nobody ever said no to %v for what is not allowed", calls)
			}
			w.demandResidents(t)
		}()
		do(t)
	})
}

// demandResidents: the Pods of the sandboxes that run are those that they were, and the one whose supervisor may still ask for a token does
// what it is told. The other's keeps its session for as long as that lasts, and gets no other.
func (w *town) demandResidents(t *testing.T) {
	t.Helper()
	if now := w.residentPods(t); !maps.Equal(now, w.pods) {
		t.Errorf("the Pods of the sandboxes were %v and are %v", w.pods, now)
	}
	if got := w.does(t, w.stays.ID, "echo", "still here"); got != "still here" {
		t.Errorf("the command says %q", got)
	}
}

func (w *town) residentPods(t *testing.T) map[string]string {
	t.Helper()
	uids := map[string]string{}
	for _, s := range []gateway.Sandbox{w.stays, w.closed} {
		pods, err := w.c.Client().CoreV1().Pods(s.Workspace).List(t.Context(), metav1.ListOptions{})
		noError(t, err)
		for _, pod := range pods.Items {
			restarts := int32(0)
			for _, c := range pod.Status.ContainerStatuses {
				restarts += c.RestartCount
			}
			uids[s.Workspace+"/"+pod.Name] = fmt.Sprintf("%s, %d restarts", pod.UID, restarts)
		}
	}
	if len(uids) != 4 {
		t.Errorf("two sandboxes have the Pods %v", slices.Sorted(maps.Keys(uids)))
	}
	return uids
}
