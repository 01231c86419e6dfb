package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// jobsEnd: what is done once comes to an end in a time in which somebody still watches, and is gone soon after, as it is in the way of the next
// apply; what is done again and again ends before the next. What failed leaves its log (TestWhatFailedLeavesItsLog).
func jobsEnd(w *deploy.World) (found breaches) {
	const longest, after = 900, 120
	for _, object := range w.Objects {
		path := []string{"spec"}
		switch object.GetKind() {
		case "Job":
			ttl, has, _ := unstructured.NestedInt64(object.Object, "spec", "ttlSecondsAfterFinished")
			if !has || ttl > after {
				found.add("Job %s is there long after its end", object.GetName())
			}
		case "CronJob":
			path = []string{"spec", "jobTemplate", "spec"}
		default:
			continue
		}
		deadline, has, _ := unstructured.NestedInt64(object.Object, append(slices.Clone(path), "activeDeadlineSeconds")...)
		if !has || deadline > longest {
			found.add("%s %s may hang for ever", object.GetKind(), object.GetName())
		}
		if again, _, _ := unstructured.NestedString(object.Object, append(slices.Clone(path), "template", "spec", "restartPolicy")...); again != string(corev1.RestartPolicyNever) {
			found.add("%s %s takes its log along when it fails", object.GetKind(), object.GetName())
		}
	}
	return found
}

// jobs are those of a rendering, in a namespace of the test.
type jobs struct {
	*cluster.Cluster
	client dynamic.ResourceInterface
	all    []*unstructured.Unstructured
}

func newJobs(t *testing.T, of string) *jobs {
	t.Helper()
	c := cluster.Start(t, cluster.ControlPlane)
	// Pods that are not as they should be are only warned of: none of them runs.
	namespace := c.Namespace(t)
	j := &jobs{Cluster: c, client: c.Dynamic().Resource(batchv1.SchemeGroupVersion.WithResource("jobs")).Namespace(namespace)}
	for _, object := range rendered(t)[of].Objects {
		if object.GetKind() == "Job" {
			object = object.DeepCopy()
			object.SetNamespace(namespace)
			j.all = append(j.all, object)
		}
	}
	if len(j.all) != 2 {
		t.Fatalf("%s has %d Jobs", of, len(j.all))
	}
	return j
}

// changed are the Jobs as they are after a change.
func (j *jobs) changed(t *testing.T, change func(*batchv1.JobSpec)) *jobs {
	t.Helper()
	other := &jobs{Cluster: j.Cluster, client: j.client}
	for _, object := range j.all {
		var job batchv1.Job
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &job); err != nil {
			t.Fatal(err)
		}
		change(&job.Spec)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&job)
		if err != nil {
			t.Fatal(err)
		}
		delete(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
		other.all = append(other.all, &unstructured.Unstructured{Object: content})
	}
	return other
}

// apply is what kubectl does.
func (j *jobs) apply(t *testing.T) error {
	t.Helper()
	var all []error
	for _, object := range j.all {
		_, err := j.client.Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "deploy-test", Force: true})
		all = append(all, err)
	}
	return errors.Join(all...)
}

// gone waits until there are none.
func (j *jobs) gone(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, "the Jobs are gone", func(ctx context.Context) error {
		list, err := j.client.List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = errors.New("not yet")
		}
		return err
	})
}

// TestJobsAreAppliedAgain: the same twice is no change. Other settings or another image are refused while a Job is there: after the documented
// line, which deletes it, and by itself when it has hung for too long, it can be applied again.
func TestJobsAreAppliedAgain(t *testing.T) {
	t.Parallel()
	const shown = "kubectl delete job -n portcullis nats-bootstrap portcullis-provision --ignore-not-found"
	j := newJobs(t, "certs-job")
	for range 2 {
		if err := j.apply(t); err != nil {
			t.Fatal(err)
		}
	}
	changes := map[string]func(*batchv1.JobSpec){
		"image": func(s *batchv1.JobSpec) { s.Template.Spec.Containers[0].Image = "registry.example/you/another:v2" },
		"settings": func(s *batchv1.JobSpec) {
			i := slices.IndexFunc(s.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil })
			s.Template.Spec.Volumes[i].ConfigMap.Name = "portcullis-config-another"
		},
	}
	for name, change := range changes {
		other := j.changed(t, change)
		if err := other.apply(t); err == nil || !strings.Contains(err.Error(), "field is immutable") {
			t.Errorf("with another %s the server says %v; if it takes that now, nothing need be deleted", name, err)
		}
		for _, object := range j.all {
			background := metav1.DeletePropagationBackground
			if err := j.client.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
				t.Fatal(err)
			}
		}
		j.gone(t)
		if err := other.apply(t); err != nil {
			t.Errorf("with another %s, after %s: %v", name, shown, err)
		}
		j = other
	}
	for _, object := range j.all {
		if err := j.client.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	j.gone(t)
	// No Pod ever runs here, so a Job hangs. Only its times are shorter than those of jobsEnd.
	one, none := int64(1), int32(0)
	short := j.changed(t, func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds, s.TTLSecondsAfterFinished = &one, &none })
	if err := short.apply(t); err != nil {
		t.Fatal(err)
	}
	j.gone(t)
	if err := j.apply(t); err != nil {
		t.Errorf("after Jobs that hung: %v", err)
	}
	for _, document := range []string{"install.md", "upgrade.md", "nats.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", document))
		if err != nil || !strings.Contains(string(text), shown) {
			t.Errorf("docs/%s does not say %s: %v", document, shown, err)
		}
	}
}

// fail is what a kubelet says of a Pod of a Job whose program ends with an error: with restartPolicy Never the Pod has failed, else its container
// is started again and again, which the Job controller counts.
func fail(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) error {
	const tries = 100
	name := pod.Spec.Containers[0].Name
	pod.Status.Phase = corev1.PodFailed
	ended := corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		pod.Status.Phase = corev1.PodRunning
		ended.RestartCount = tries
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{ended}
	_, err := c.Client().CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// TestWhatFailedLeavesItsLog: the Job controller keeps a Pod of a Job that failed, so that somebody who is told of it later can read why.
func TestWhatFailedLeavesItsLog(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.ControlPlane)
	// None of its accounts is there, and no rule of admission is in question.
	namespace := c.Namespace(t)
	specs := map[string]batchv1.JobSpec{}
	for _, object := range rendered(t)["certs-job"].Objects {
		var job batchv1.Job
		var renewal batchv1.CronJob
		var err error
		switch object.GetKind() {
		case "Job":
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &job)
			specs[object.GetName()+"-once"] = job.Spec
		case "CronJob":
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &renewal)
			specs[object.GetName()+"-weekly"] = renewal.Spec.JobTemplate.Spec
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(specs) != 3 {
		t.Fatalf("there are %d Jobs", len(specs))
	}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// It fails at its first try. Whoever may not run Pods makes none, so the account is another.
			spec.BackoffLimit, spec.Template.Spec.ServiceAccountName = new(int32(0)), "default"
			made, err := c.Client().BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			mine := metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + made.Name}
			cluster.Eventually(t, "its Pod is there, and fails", func(ctx context.Context) error {
				pods, err := c.Client().CoreV1().Pods(namespace).List(ctx, mine)
				if err != nil || len(pods.Items) == 0 {
					return errors.Join(err, errors.New("there is none"))
				}
				return fail(ctx, c, &pods.Items[0])
			})
			cluster.Eventually(t, "the Job has failed", func(ctx context.Context) error {
				job, err := c.Client().BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
				if err == nil && !slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
					return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue
				}) {
					err = fmt.Errorf("not yet: %+v", job.Status)
				}
				return err
			})
			pods, err := c.Client().CoreV1().Pods(namespace).List(t.Context(), mine)
			if err != nil || len(pods.Items) != 1 || pods.Items[0].DeletionTimestamp != nil {
				t.Errorf("the Pod with the log is deleted: %v", err)
			}
		})
	}
}
