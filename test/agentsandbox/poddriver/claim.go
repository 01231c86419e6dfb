package poddriver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claimKey names one claim, so that a successor of the same name is another one.
type claimKey struct {
	namespace, name string
	uid             types.UID
}

// volumePrefix begins the name of every volume that a driver made.
const volumePrefix = "stand-in-"

// volume is the name of the volume made for a claim.
func (k claimKey) volume() string { return volumePrefix + string(k.uid) }

func (d *Driver) claimChanged(o any, _ bool) {
	claim, ok := o.(*corev1.PersistentVolumeClaim)
	if ok && d.cfg.Owns(claim.Namespace) {
		d.claimQueue.Add(claimKey{claim.Namespace, claim.Name, claim.UID})
	}
}

// provision makes a volume that belongs to the claim, which the real controller manager then binds, and removes it when
// the claim is gone.
func (d *Driver) provision(ctx context.Context, key claimKey) error {
	volumes := d.client.CoreV1().PersistentVolumes()
	o, exists, err := d.claims.GetIndexer().GetByKey(key.namespace + "/" + key.name)
	if err != nil {
		return err
	}
	if !exists || o.(*corev1.PersistentVolumeClaim).UID != key.uid {
		err := volumes.Delete(ctx, key.volume(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove volume %s: %w", key.volume(), err)
		}
		return nil
	}
	claim := o.(*corev1.PersistentVolumeClaim)
	if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
		return nil
	}
	_, err = volumes.Create(ctx, volumeFor(claim, key), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make a volume for claim %s/%s: %w", key.namespace, key.name, err)
	}
	return nil
}

// volumeFor returns a volume that only this claim can have.
func volumeFor(claim *corev1.PersistentVolumeClaim, key claimKey) *corev1.PersistentVolume {
	class := ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: key.volume()},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         claim.Spec.Resources.Requests,
			AccessModes:      claim.Spec.AccessModes,
			StorageClassName: class,
			VolumeMode:       claim.Spec.VolumeMode,
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: key.namespace, Name: key.name, UID: key.uid,
			},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/nonexistent/" + key.volume()},
			},
		},
	}
}
