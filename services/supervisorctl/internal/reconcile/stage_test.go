package reconcile

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// stage is an API server's metadata and a conductor that reads it. Time is synctest's.
type stage struct {
	t      *testing.T
	client *metadatafake.FakeMetadataClient
	reg    *prometheus.Registry
	log    *bytes.Buffer
	loop   *Loop

	mu    sync.Mutex
	looks []lookAt
	// answer replaces the conductor's answer; nil for what the Sandbox's record says.
	answer func(goal conduct.Goal) (conduct.Outcome, error)
	now    map[string]int
	most   int
	// leading is how many terms there are.
	leading atomic.Int32
}

// lookAt is one call of the conductor.
type lookAt struct {
	name, uid string
	idle      time.Duration
	at        time.Time
}

func newStage(t *testing.T, mode driverconf.Mode, all ...*metav1.PartialObjectMetadata) *stage {
	t.Helper()
	s := &stage{t: t, reg: prometheus.NewRegistry(), log: &bytes.Buffer{}, now: map[string]int{}}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s.client = metadatafake.NewSimpleMetadataClient(scheme)
	for _, m := range all {
		s.put(m)
	}
	s.newLoop(mode)
	return s
}

// wholePods are the Pods of the same API server.
func (s *stage) wholePods(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	w, err := s.client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace).Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(in watch.Event) (watch.Event, bool) {
		if m, ok := in.Object.(*metav1.PartialObjectMetadata); ok {
			in.Object = wholePod(m)
		}
		return in, true
	}), nil
}

func (s *stage) newLoop(mode driverconf.Mode) {
	s.t.Helper()
	var err error
	s.loop, err = New(DefaultSettings(), workspace.Scheme{Mode: mode, GatewayID: gateway, Namespace: ns}, s, s.client, s.wholePods, zerolog.New(s.log), s.reg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.loop.random = func() float64 { return 0 }
}

// Do implements Conductor.
func (s *stage) Do(_ context.Context, goal conduct.Goal) (conduct.Outcome, error) {
	s.mu.Lock()
	s.looks = append(s.looks, lookAt{goal.Ref.Name, goal.Ref.UID, goal.Idle, time.Now()})
	s.now[goal.Ref.UID]++
	s.most = max(s.most, s.now[goal.Ref.UID])
	answer := s.answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now[goal.Ref.UID]--
		s.mu.Unlock()
	}()
	if answer != nil {
		return answer(goal)
	}
	found, err := s.client.Tracker().Get(sandboxapi.V1beta1.GroupVersionResource(), goal.Ref.Namespace, goal.Ref.Name)
	if err != nil {
		return conduct.Outcome{Step: plan.Step{Action: plan.Done}, Facts: plan.Facts{Sandbox: plan.Absent[sandboxapi.Object]()}}, nil
	}
	m := found.(*metav1.PartialObjectMetadata)
	return conduct.Outcome{Step: plan.Step{Action: plan.Done}, Facts: plan.Facts{Sandbox: plan.Found(sandboxapi.Object{
		Sandbox:         sandboxapi.Sandbox{Namespace: m.Namespace, Name: m.Name, UID: string(m.UID), Labels: m.Labels, Annotations: m.Annotations},
		ResourceVersion: m.ResourceVersion, Version: sandboxapi.V1beta1, Mode: sandboxapi.Running,
	})}}, nil
}

// Lead implements Conductor.
func (s *stage) Lead() func() {
	s.leading.Add(1)
	return func() { s.leading.Add(-1) }
}

// taken are the looks since the last time.
func (s *stage) taken() []lookAt {
	s.mu.Lock()
	defer s.mu.Unlock()
	looks := s.looks
	s.looks = nil
	return looks
}

// term leads for as long as play takes.
func (s *stage) term(play func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	released, over := make(chan struct{}), make(chan error, 1)
	go func() { over <- s.loop.Lead(ctx, released) }()
	play()
	cancel()
	if err := <-over; err != nil {
		s.t.Error(err)
	}
	if n := s.leading.Load(); n != 0 {
		s.t.Errorf("%d terms after the last", n)
	}
	if s.most > 1 {
		s.t.Errorf("%d looks at one sandbox at a time", s.most)
	}
}

// put makes or changes an object.
func (s *stage) put(m *metav1.PartialObjectMetadata) {
	s.t.Helper()
	gvr := resourceOf(m)
	if _, err := s.client.Tracker().Get(gvr, m.Namespace, m.Name); err == nil {
		err = s.client.Tracker().Update(gvr, m, m.Namespace)
		if err != nil {
			s.t.Fatal(err)
		}
		return
	}
	if err := s.client.Tracker().Create(gvr, m, m.Namespace); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) remove(m *metav1.PartialObjectMetadata) {
	s.t.Helper()
	if err := s.client.Tracker().Delete(resourceOf(m), m.Namespace, m.Name); err != nil {
		s.t.Fatal(err)
	}
}

func resourceOf(m *metav1.PartialObjectMetadata) schema.GroupVersionResource {
	gv, _ := schema.ParseGroupVersion(m.APIVersion)
	return gv.WithResource(map[string]string{"Sandbox": "sandboxes", "Pod": "pods", "Service": "services", "NetworkPolicy": "networkpolicies"}[m.Kind])
}

// team is n sandboxes that run, with all that is theirs, and the fence.
func team(n int) []*metav1.PartialObjectMetadata {
	all := []*metav1.PartialObjectMetadata{fenceMeta(), egressMeta()}
	for i := range n {
		box := boxMeta(i, ready(i))
		all = append(all, box, supervisorMeta(i, box), workloadMeta(i, box), serviceMeta(i, box))
	}
	return all
}

// passes lets time pass, and all be done that is to be done.
func passes(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *stage) looked(want ...string) []lookAt {
	s.t.Helper()
	looks := s.taken()
	got := map[string]int{}
	for _, l := range looks {
		got[l.name]++
	}
	for _, name := range want {
		got[name]--
	}
	for name, n := range got {
		if n != 0 {
			s.t.Errorf("%s was looked at %+d times more than it should: %+v", name, n, looks)
		}
	}
	return looks
}

// sandboxes is the gauge.
func (s *stage) sandboxes() float64 {
	return s.metric("portcullis_supervisorctl_reconcile_sandboxes", "")
}

// metric is the sum of a metric's series, those with the label value when one is given; -1 when there is none.
func (s *stage) metric(name, label string) float64 {
	s.t.Helper()
	families, err := s.reg.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	sum, found := 0.0, false
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				sum, found = sum+m.GetCounter().GetValue()+m.GetGauge().GetValue(), true
			}
		}
	}
	if !found {
		return -1
	}
	return sum
}
