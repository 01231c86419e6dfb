package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// boxName is the sandbox's name, and that of its workload's Pod.
const boxName = "box"

// order watches in which order things happen around a workload: the API server gives every write a number, and the numbers grow.
type order struct {
	watches []watch.Interface
	reading sync.WaitGroup

	mu    sync.Mutex
	fence uint64            // the write that made the workloads' policy
	free  map[string]uint64 // by Pod, the first write after which it may run
}

// watchOrder begins before anything is there.
func (w *World) watchOrder(ctx context.Context) (*order, error) {
	o := &order{free: map[string]uint64{}}
	pods, err1 := w.client.CoreV1().Pods(w.team).Watch(ctx, metav1.ListOptions{})
	policies, err2 := w.client.NetworkingV1().NetworkPolicies(w.team).Watch(ctx, metav1.ListOptions{})
	for _, one := range []watch.Interface{pods, policies} {
		if one != nil {
			o.watches = append(o.watches, one)
		}
	}
	if err := errors.Join(err1, err2); err != nil {
		o.stop()
		return nil, fmt.Errorf("watch the order: %w", err)
	}
	for _, one := range o.watches {
		o.reading.Go(func() {
			for e := range one.ResultChan() {
				o.take(e)
			}
		})
	}
	return o, nil
}

func (o *order) stop() {
	for _, one := range o.watches {
		one.Stop()
	}
	o.reading.Wait()
}

func (o *order) take(e watch.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch object := e.Object.(type) {
	case *networkingv1.NetworkPolicy:
		if object.Name == workspace.WorkloadFence && o.fence == 0 {
			o.fence, _ = strconv.ParseUint(object.ResourceVersion, 10, 64)
		}
	case *corev1.Pod:
		if len(object.Spec.SchedulingGates) == 0 && o.free[object.Name] == 0 {
			o.free[object.Name], _ = strconv.ParseUint(object.ResourceVersion, 10, 64)
		}
	default:
	}
}

// judge demands fence, supervisor, workload.
func (o *order) judge(ctx context.Context, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, shortWait)
	defer cancel()
	var fence, supervisor, workload uint64
	err := eventually(ctx, func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		fence, supervisor, workload = o.fence, o.free[workspace.SupervisorPod(id)], o.free[boxName]
		if fence == 0 || supervisor == 0 || workload == 0 {
			return fmt.Errorf("the watches have not seen all: fence %d, supervisor %d, workload %d", fence, supervisor, workload)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	seen := fmt.Sprintf("fence made (write %d), supervisor let go (%d), workload let go (%d)", fence, supervisor, workload)
	if fence >= supervisor || supervisor >= workload {
		return "", errors.New("not in this order: " + seen)
	}
	return seen, nil
}
