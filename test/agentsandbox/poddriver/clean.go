package poddriver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	cleanPoll = 50 * time.Millisecond
	// cleanLimit ends the wait for something that never goes, such as a Pod with a finalizer that nobody takes away.
	cleanLimit = 90 * time.Second
)

// clean removes what a driver that has stopped would leave in the namespaces it owned: the Pods on its Node, whose
// deletion nobody would confirm any more and which would keep their namespace Terminating for ever, and the volumes it
// made with their claims. It returns when they are gone.
func (d *Driver) clean(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, cleanPoll, true, func(ctx context.Context) (bool, error) {
		now := errors.Join(d.cleanPods(ctx), d.cleanVolumes(ctx))
		if ctx.Err() == nil || last == nil { // what the end of the wait did to the last try says nothing
			last = now
		}
		return now == nil, nil
	})
	if err != nil {
		return fmt.Errorf("clean up after the pod driver (start it before what makes Pods, so that it ends last): %w: %w", err, last)
	}
	return nil
}

// cleanPods deletes the Pods that are there, and those that the scheduler may yet bind. It returns an error while there
// are any.
func (d *Driver) cleanPods(ctx context.Context) error {
	pods, err := d.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	var remain []error
	for _, pod := range pods.Items {
		if !d.cfg.Owns(pod.Namespace) || pod.Spec.NodeName != "" && pod.Spec.NodeName != nodeName {
			continue
		}
		remain = append(remain, fmt.Errorf("pod %s/%s is there", pod.Namespace, pod.Name))
		err := d.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64),
			Preconditions:      &metav1.Preconditions{UID: &pod.UID},
		})
		if !goneOrOther(err) {
			remain = append(remain, fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	return errors.Join(remain...)
}

// cleanVolumes deletes the volumes and, because a bound volume stays as long as its claim, the claims. It returns an error
// while there are any volumes.
func (d *Driver) cleanVolumes(ctx context.Context) error {
	volumes, err := d.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	var remain []error
	for _, volume := range volumes.Items {
		claim := volume.Spec.ClaimRef
		if !strings.HasPrefix(volume.Name, volumePrefix) || claim == nil || !d.cfg.Owns(claim.Namespace) {
			continue
		}
		remain = append(remain, fmt.Errorf("volume %s of claim %s/%s is there", volume.Name, claim.Namespace, claim.Name))
		if volume.DeletionTimestamp == nil {
			remain = append(remain, d.deleteVolume(ctx, &volume))
		}
	}
	return errors.Join(remain...)
}

func (d *Driver) deleteVolume(ctx context.Context, volume *corev1.PersistentVolume) error {
	claim := volume.Spec.ClaimRef
	err := d.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &claim.UID},
	})
	if !goneOrOther(err) {
		return fmt.Errorf("delete claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	err = d.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &volume.UID},
	})
	if !goneOrOther(err) {
		return fmt.Errorf("delete volume %s: %w", volume.Name, err)
	}
	return nil
}

// goneOrOther tells that a deletion went through, or that the object is gone or has been followed by another of its name.
func goneOrOther(err error) bool {
	return err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err)
}
