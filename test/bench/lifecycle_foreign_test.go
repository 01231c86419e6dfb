package bench_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// BenchmarkLifecycleForeign runs once, whatever b.N is, and prints its table: what the Pods of another gateway's sandboxes cost lifecycle
// in operator mode, where nothing on a workload's Pod but its owner says whose it is. As many sandboxes as of the view are the other's.
func BenchmarkLifecycleForeign(b *testing.B) {
	others := *viewSandboxes
	v, _ := newView(b, 0)
	empty := v.resident()
	v.forEach(others, v.foreign)
	v.awaitForeign(2 * others)
	now, most := v.resident(), v.memory("VmHWM:")
	v.must(v.site.Mesh.Process(mesh.Lifecycle).Stop())
	start := time.Now()
	v.must(v.site.Mesh.Run(b.Context(), mesh.Lifecycle))
	v.awaitForeign(2 * others)
	listed := time.Since(start)
	show(b, "foreign", fmt.Sprintf("| lifecycle in operator mode, resident | |\n| --- | --- |\n| without Pods | %.1f MiB |\n"+
		"| when %d sandboxes of another gateway, with %d Pods, were made / most since the start | %.1f / %.1f MiB |\n"+
		"| started anew before them, all listed after %.2f s / most since the start | %.1f / %.1f MiB |",
		mib(empty), others, 2*others, mib(now), mib(most), listed.Seconds(), mib(v.resident()), mib(v.memory("VmHWM:"))))
}

// foreign makes the Pods of the n-th sandbox of another gateway. Its object is of no matter here: lifecycle selects those of its own.
func (v *view) foreign(n int) error {
	id := fmt.Sprintf("%08d%s", n, v.id[8:])
	box := new(unstructured.Unstructured)
	box.SetName(fmt.Sprintf("theirs-%05d", n))
	box.SetUID(types.UID(id))
	for i := range v.pods {
		if _, err := v.copyPod(ofAnother(&v.pods[i]), box, id); err != nil {
			return err
		}
	}
	return nil
}

func ofAnother(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	if pod.Labels[workspace.LabelGatewayID] != "" { // a workload's has none (contract 4.3)
		pod.Labels[workspace.LabelGatewayID] = "another"
	}
	return pod
}

// awaitForeign waits until lifecycle has passed over n Pods.
func (v *view) awaitForeign(n int) {
	v.b.Helper()
	v.site.Eventually("all foreign Pods are known", func() error {
		var passed float64
		for labels, value := range series(v.b, v.site.Mesh.Admin(mesh.Lifecycle), "portcullis_lifecycle_watch_passed_over_objects") {
			if strings.Contains(labels, `"pods"`) {
				passed += value
			}
		}
		if int(passed) != n {
			return fmt.Errorf("%.0f of %d", passed, n)
		}
		return nil
	})
}
