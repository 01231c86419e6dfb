//go:build portcullis_long

package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// again applies the work tree's manifests and images once more, with the settings as they are to be now.
func (i *installation) again(t *testing.T) {
	t.Helper()
	i.dropJobs(t)
	i.reapply(t)
}

// reapply is that where the Jobs stay as they are.
func (i *installation) reapply(t *testing.T) {
	t.Helper()
	i.deliver(t, filepath.Join("..", ".."), loadShipped(t, i.c))
}

// dropJobs takes away the Jobs of before, which are in the way of others (docs/upgrade.md).
func (i *installation) dropJobs(t *testing.T) {
	t.Helper()
	for _, job := range jobs {
		background := metav1.DeletePropagationBackground
		err := i.c.Client().BatchV1().Jobs(installed).Delete(t.Context(), job, metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		cluster.Eventually(t, "Job "+job+" is gone", func(ctx context.Context) error {
			_, err := i.c.Client().BatchV1().Jobs(installed).Get(ctx, job, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it is there: %w", err)
		})
	}
}

// hold keeps the gateway's Pod until somebody deletes it.
func (i *installation) hold(t *testing.T) {
	t.Helper()
	patch := []byte(`{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`)
	_, err := i.c.Client().AppsV1().StatefulSets(installed).Patch(t.Context(), gatewaySet, types.MergePatchType, patch, metav1.PatchOptions{})
	noError(t, err)
}
