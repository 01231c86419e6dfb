package crd

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// step is what has to be done to the installed definition.
type step int

const (
	_ step = iota
	stepCreate
	stepKeep
	stepUpdate
)

// Install makes the cluster serve variant v and returns once it answers. It creates the definition, widens V1beta1 to
// Both, refreshes an older text of the same variant, and leaves Both in place when V1beta1 is asked for, since Both
// serves v1beta1 alike. It refuses everything else. It is bounded by ctx and by one minute.
func Install(ctx context.Context, config *rest.Config, v Variant) error {
	return apply(ctx, config, v, planInstall)
}

// Upgrade turns a V1alpha1 cluster into Both, which is what happens to a cluster whose operator installs the newer Agent
// Sandbox: stored objects stay as they are and are converted whenever they are read. A [Converter] must run for that.
// It refuses when the cluster is not V1alpha1. Watches of Sandboxes end, as in the real upgrade.
func Upgrade(ctx context.Context, config *rest.Config) error {
	return apply(ctx, config, Both, func(have, _ Variant) (step, error) {
		if have != V1alpha1 {
			return 0, fmt.Errorf("upgrade the Sandbox CRD to %q: the cluster has variant %q and only %q can be upgraded",
				Both, have, V1alpha1)
		}
		return stepUpdate, nil
	})
}

// planInstall decides what Install does on a cluster that has variant have, which is "" without a definition.
func planInstall(have, want Variant) (step, error) {
	switch {
	case have == "":
		return stepCreate, nil
	case have == want:
		return stepUpdate, nil
	case have == Both && want == V1beta1:
		return stepKeep, nil
	case have == V1beta1 && want == Both:
		return stepUpdate, nil
	}
	return 0, fmt.Errorf("install variant %q of the Sandbox CRD: the cluster has %q, and changing it would break the tests "+
		"that use it; use a cluster of your own, Upgrade (from %q), or Uninstall first", want, have, V1alpha1)
}

func apply(ctx context.Context, config *rest.Config, v Variant, plan func(have, want Variant) (step, error)) error {
	want, err := definition(v)
	if err != nil {
		return err
	}
	definitions, err := client(config)
	if err != nil {
		return err
	}
	err = retry(ctx, "apply the CRD "+Name, func(ctx context.Context) (bool, error) {
		have, err := definitions.Get(ctx, Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			have, err = nil, nil
		}
		if err != nil {
			return false, err
		}
		if have != nil && have.DeletionTimestamp != nil {
			return false, errors.New("it is still being deleted")
		}
		next, err := plan(variantOf(have), v)
		switch {
		case err != nil:
			return false, refusal{err}
		case next == stepCreate:
			_, err = definitions.Create(ctx, want.DeepCopy(), metav1.CreateOptions{})
		case next == stepUpdate && !sameText(have, want):
			_, err = definitions.Update(ctx, merge(have, want), metav1.UpdateOptions{})
		}
		// A neighbour that was quicker answers with AlreadyExists or Conflict; the next round sees its result.
		return err == nil, err
	})
	if err != nil {
		return err
	}
	return awaitServed(ctx, config, v)
}

// merge returns have with the text of want. A registered converter stays registered.
func merge(have, want *apiextensions.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	merged := have.DeepCopy()
	want.Spec.DeepCopyInto(&merged.Spec)
	if old := have.Spec.Conversion; old != nil && old.Webhook != nil && want.Spec.Conversion != nil {
		merged.Spec.Conversion = old.DeepCopy()
	}
	if merged.Annotations == nil {
		merged.Annotations = map[string]string{}
	}
	for k, v := range want.Annotations {
		merged.Annotations[k] = v
	}
	return merged
}

// awaitServed waits until each version answers a LIST. The Established condition alone is not enough: the API server
// installs the paths after it has written the condition.
func awaitServed(ctx context.Context, config *rest.Config, v Variant) error {
	sandboxes, err := dynamic.NewForConfig(unlimited(config))
	if err != nil {
		return fmt.Errorf("make a dynamic client: %w", err)
	}
	for _, version := range v.Versions() {
		what := fmt.Sprintf("wait until %s is served", version.APIVersion())
		err := retry(ctx, what, func(ctx context.Context) (bool, error) {
			_, err := sandboxes.Resource(version.Resource()).List(ctx, metav1.ListOptions{Limit: 1})
			// 500 is an answer too: the path exists, and a stored object needs a converter that is not there yet.
			var status apierrors.APIStatus
			return err == nil || errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
