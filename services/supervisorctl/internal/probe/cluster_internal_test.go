package probe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary/canarytest"
)

// stand is a cluster whose one node runs canaries in a World. The zero faults are none.
type stand struct {
	world *canarytest.World

	mu       sync.Mutex
	policies map[string]*networkingv1.NetworkPolicy
	pods     map[string]*corev1.Pod
	stops    map[string]context.CancelFunc
	running  sync.WaitGroup
	deleted  []string
	writes   []string
	uids     int

	// starts is how long a Pod takes to run.
	starts time.Duration
	// admit changes what is created; kubelet changes what a Pod that runs says, and false keeps it from running.
	admit   func(*corev1.Pod)
	kubelet func(*corev1.Pod) bool
	// fails answers a request, named "verb kind name", in the cluster's place.
	fails func(request string) error
	// unheard: a Pod is made, and the answer is this error.
	unheard error
}

func newStand() *stand {
	return &stand{
		world: canarytest.Sound(), starts: time.Second, policies: map[string]*networkingv1.NetworkPolicy{}, pods: map[string]*corev1.Pod{}, stops: map[string]context.CancelFunc{},
	}
}

func (s *stand) request(ctx context.Context, verb, kind, name string) error {
	if verb != "get" {
		s.writes = append(s.writes, verb+" "+kind+" "+name)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.fails != nil {
		return s.fails(verb + " " + kind + " " + name)
	}
	return nil
}

func found[T any](objects map[string]*T, name string) (*T, error) {
	if o, ok := objects[name]; ok {
		return o, nil
	}
	return nil, fmt.Errorf("read %s: %w", name, cluster.ErrAbsent)
}

func (s *stand) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, s.request(ctx, "get", "namespace", name)
}

func (s *stand) Policy(ctx context.Context, _, name string) (*networkingv1.NetworkPolicy, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request(ctx, "get", "policy", name); err != nil {
		return nil, err
	}
	p, err := found(s.policies, name)
	return p.DeepCopy(), err
}

func (s *stand) CreatePolicy(ctx context.Context, wanted *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request(ctx, "create", "policy", wanted.Name); err != nil {
		return nil, err
	}
	p := wanted.DeepCopy()
	s.uids++
	p.UID, p.Generation = types.UID(fmt.Sprintf("uid-%d", s.uids)), 1
	s.policies[p.Name] = p
	return p.DeepCopy(), nil
}

func (s *stand) Pod(ctx context.Context, _, name string) (*corev1.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request(ctx, "get", "pod", name); err != nil {
		return nil, err
	}
	p, err := found(s.pods, name)
	return p.DeepCopy(), err
}

func (s *stand) CreatePod(ctx context.Context, wanted *corev1.Pod) (*corev1.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request(ctx, "create", "pod", wanted.Name); err != nil {
		return nil, err
	}
	p := wanted.DeepCopy()
	s.uids++
	p.UID, p.CreationTimestamp = types.UID(fmt.Sprintf("uid-%d", s.uids)), metav1.NewTime(time.Now())
	if s.admit != nil {
		s.admit(p)
	}
	s.pods[p.Name] = p
	running, stop := context.WithCancel(context.Background())
	s.stops[p.Name] = stop
	s.running.Go(func() { s.live(running, p.Name) })
	if s.unheard != nil {
		return nil, s.unheard
	}
	return p.DeepCopy(), nil
}

func (s *stand) DeletePod(ctx context.Context, _, name, uid string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request(ctx, "delete", "pod", name); err != nil {
		return err
	}
	if p := s.pods[name]; p != nil && string(p.UID) == uid {
		delete(s.pods, name)
		s.deleted = append(s.deleted, name)
		if stop := s.stops[name]; stop != nil {
			stop()
		}
	}
	return nil
}

func (s *stand) list(_ context.Context, _ string, with map[string]string) ([]corev1.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		if err := s.fails("list pod"); err != nil {
			return nil, err
		}
	}
	var all []corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		matches := true
		for key, value := range with {
			matches = matches && s.pods[name].Labels[key] == value
		}
		if matches {
			all = append(all, *s.pods[name].DeepCopy())
		}
	}
	return all, nil
}

// live is the node's part: it starts the Pod, runs its canary, and keeps what that leaves behind.
func (s *stand) live(ctx context.Context, name string) {
	select {
	case <-time.After(s.starts):
	case <-ctx.Done():
		return
	}
	var plan *canary.Plan
	runs := s.change(name, func(p *corev1.Pod) bool {
		plan, _ = canary.DecodePlan(p.Spec.Containers[0].Args[2])
		p.Spec.NodeName, p.Status.PodIP, p.Status.Phase = "node-1", canarytest.WorkloadIP, corev1.PodRunning
		state(p, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
		return s.kubelet == nil || s.kubelet(p)
	})
	if !runs {
		return
	}
	network := s.world.Workload()
	if plan.Role == canary.Supervisor {
		network = s.world.Supervisor()
	}
	text, err := canary.Run(ctx, plan, network).Encode()
	s.change(name, func(p *corev1.Pod) bool {
		p.Status.Phase = corev1.PodSucceeded
		ended := &corev1.ContainerStateTerminated{Reason: "Completed", Message: string(text)}
		if err != nil {
			ended.ExitCode, ended.Message = 1, err.Error()
		}
		state(p, corev1.ContainerState{Terminated: ended})
		return true
	})
}

func state(p *corev1.Pod, is corev1.ContainerState) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: is}}
}

func (s *stand) change(name string, change func(*corev1.Pod) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[name]
	return p != nil && change(p)
}

// names are the Pods that are left.
func (s *stand) names() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(s.pods)), " ")
}
