package poddriver

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (d *Driver) podChanged(o any, deleted bool) {
	pod, ok := o.(*corev1.Pod)
	if !ok || !d.cfg.Owns(pod.Namespace) {
		return
	}
	if deleted {
		d.mu.Lock()
		delete(d.seen, pod.UID)
		d.mu.Unlock()
		return
	}
	d.podQueue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
}

// drive takes one Pod a step further.
func (d *Driver) drive(ctx context.Context, key types.NamespacedName) error {
	o, exists, err := d.pods.GetIndexer().GetByKey(key.String())
	if err != nil || !exists {
		return err
	}
	pod := o.(*corev1.Pod)
	behaviour, err := d.behaviour(pod)
	if err != nil {
		return d.refuse(ctx, pod, err)
	}
	s := situation{pod: pod, behaviour: behaviour, bind: d.cfg.Bind, now: time.Now(), seen: d.remembered(pod.UID)}
	if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending {
		if s.blocked, err = d.missingSource(ctx, pod); err != nil {
			return err
		}
	}
	p := next(s)
	d.mu.Lock()
	d.seen[pod.UID] = p.seen
	d.mu.Unlock()
	if err := d.carryOut(ctx, pod, p); err != nil {
		return err
	}
	if p.again > 0 {
		d.podQueue.AddAfter(key, p.again)
	}
	return nil
}

func (d *Driver) remembered(uid types.UID) seen {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[uid]
}

func (d *Driver) behaviour(pod *corev1.Pod) (Behaviour, error) {
	d.mu.Lock()
	b, ok := d.overrides[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
	d.mu.Unlock()
	if ok {
		return b, nil
	}
	if d.cfg.Rule != nil {
		if b, ok := d.cfg.Rule(pod); ok {
			return b, nil
		}
	}
	if text, ok := pod.Annotations[AnnotationBehaviour]; ok {
		return ParseBehaviour(text)
	}
	return Behaviour{}, nil
}

// refuse fails a Pod whose annotation makes no sense, so that the test that wrote it fails with the reason in sight.
func (d *Driver) refuse(ctx context.Context, pod *corev1.Pod, reason error) error {
	if ended(pod) {
		return nil
	}
	status := report{pod: pod, now: time.Now()}.ended(End{ExitCode: crashedExit})
	status.Reason, status.Message = "UnknownBehaviour", reason.Error()
	return d.writeStatus(ctx, pod, status)
}

func (d *Driver) carryOut(ctx context.Context, pod *corev1.Pod, p plan) error {
	client := d.client.CoreV1().Pods(pod.Namespace)
	if p.bind {
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
		}
		if err := client.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("bind pod %s/%s to node %s: %w", pod.Namespace, pod.Name, nodeName, err)
		}
	}
	if p.status != nil {
		if err := d.writeStatus(ctx, pod, p.status); err != nil {
			return err
		}
	}
	if !p.remove {
		return nil
	}
	err := client.Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("confirm the deletion of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (d *Driver) writeStatus(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus) error {
	updated := pod.DeepCopy()
	updated.Status = *status
	_, err := d.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
