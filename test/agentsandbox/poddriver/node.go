package poddriver

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// nodeName is the Node that all drivers of a cluster share.
	nodeName = "stand-in"

	// nodeAddress is the host address that Pods report. Nothing listens there for them.
	nodeAddress = "127.0.0.1"

	leaseNamespace = "kube-node-lease"
	leaseSeconds   = 40 // as a kubelet's
	renewInterval  = 5 * time.Second
	nodeRetry      = 100 * time.Millisecond
)

// keepNode keeps the Node present, Ready and leased until ctx ends, and closes registered after the first success.
func (d *Driver) keepNode(ctx context.Context, registered chan<- struct{}) {
	done := sync.OnceFunc(func() { close(registered) })
	for {
		wait := renewInterval
		err := d.refreshNode(ctx)
		switch {
		case err == nil:
			done()
		case ctx.Err() == nil:
			d.cfg.Log.Debug().Err(err).Str("node", nodeName).Msg("keep the node, trying again")
			d.mu.Lock()
			d.lastError = err
			d.mu.Unlock()
			wait = nodeRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (d *Driver) refreshNode(ctx context.Context) error {
	nodes := d.client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, nodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		node, err = nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:   nodeName,
			Labels: map[string]string{corev1.LabelHostname: nodeName, corev1.LabelOSStable: "linux"},
		}}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("register node %s: %w", nodeName, err)
	}
	if err := d.renewLease(ctx); err != nil {
		return fmt.Errorf("renew the lease of node %s: %w", nodeName, err)
	}
	if nodeReady(node) {
		return nil
	}
	node = node.DeepCopy()
	node.Status = readyStatus(time.Now())
	if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("report node %s ready: %w", nodeName, err)
	}
	return nil
}

func nodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// readyStatus describes a node on which everything fits.
func readyStatus(now time.Time) corev1.NodeStatus {
	plenty := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("10000"),
		corev1.ResourceMemory:           resource.MustParse("100Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Ti"),
		corev1.ResourcePods:             resource.MustParse("100000"),
	}
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: "StandIn", Message: "no kubelet runs here",
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
		}
	}
	return corev1.NodeStatus{
		Capacity:    plenty,
		Allocatable: plenty,
		Conditions: []corev1.NodeCondition{
			condition(corev1.NodeReady, corev1.ConditionTrue),
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse),
			condition(corev1.NodeDiskPressure, corev1.ConditionFalse),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse),
		},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress}},
	}
}

// renewLease is what keeps the node from being declared lost. Drivers that share the node renew the same lease.
func (d *Driver) renewLease(ctx context.Context) error {
	leases := d.client.CoordinationV1().Leases(leaseNamespace)
	now := metav1.NewMicroTime(time.Now())
	lease, err := leases.Get(ctx, nodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordination.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName},
			Spec: coordination.LeaseSpec{
				HolderIdentity: new(nodeName), LeaseDurationSeconds: new(int32(leaseSeconds)), RenewTime: &now,
			},
		}, metav1.CreateOptions{})
	} else if err == nil {
		lease.Spec.RenewTime = &now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil // another driver has just renewed it
	}
	return err
}
