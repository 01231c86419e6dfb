package poddriver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// missingSource names the first thing that a Pod's volumes need and that does not exist, or returns "".
func (d *Driver) missingSource(ctx context.Context, pod *corev1.Pod) (string, error) {
	for _, s := range sources(pod) {
		present, err := d.present(ctx, pod.Namespace, s)
		if err != nil {
			return "", fmt.Errorf("look for %s %s of pod %s/%s: %w", s.kind, s.name, pod.Namespace, pod.Name, err)
		}
		if !present {
			return fmt.Sprintf("%s %q is missing", s.kind, s.name), nil
		}
	}
	return "", nil
}

type source struct{ kind, name string }

const (
	secretSource    = "secret"
	configMapSource = "configmap"
	claimSource     = "bound persistentvolumeclaim"
)

// sources lists what the volumes of a Pod need. A source marked optional is not needed.
func sources(pod *corev1.Pod) []source {
	var all []source
	add := func(kind, name string, optional *bool) {
		if optional == nil || !*optional {
			all = append(all, source{kind, name})
		}
	}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.Secret != nil:
			add(secretSource, v.Secret.SecretName, v.Secret.Optional)
		case v.ConfigMap != nil:
			add(configMapSource, v.ConfigMap.Name, v.ConfigMap.Optional)
		case v.PersistentVolumeClaim != nil:
			add(claimSource, v.PersistentVolumeClaim.ClaimName, nil)
		case v.Projected != nil:
			for _, p := range v.Projected.Sources {
				if p.Secret != nil {
					add(secretSource, p.Secret.Name, p.Secret.Optional)
				}
				if p.ConfigMap != nil {
					add(configMapSource, p.ConfigMap.Name, p.ConfigMap.Optional)
				}
			}
		}
	}
	return all
}

func (d *Driver) present(ctx context.Context, namespace string, s source) (present bool, err error) {
	core := d.client.CoreV1()
	present = true
	switch s.kind {
	case secretSource:
		_, err = core.Secrets(namespace).Get(ctx, s.name, metav1.GetOptions{})
	case configMapSource:
		_, err = core.ConfigMaps(namespace).Get(ctx, s.name, metav1.GetOptions{})
	case claimSource:
		var claim *corev1.PersistentVolumeClaim
		claim, err = core.PersistentVolumeClaims(namespace).Get(ctx, s.name, metav1.GetOptions{})
		present = err == nil && claim.Status.Phase == corev1.ClaimBound
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return present, err
}
