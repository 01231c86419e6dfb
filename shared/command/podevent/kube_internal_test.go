package podevent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
)

var inPod = Pod{Namespace: "portcullis", Name: "nswatch-5d4f-x2x", UID: "0b1c"}

func daemonIn(pod Pod) *kube { return &kube{pod: pod, daemon: "nswatch", counts: map[string]int32{}} }

// tell writes a notice as write does, to a stand-in.
func tell(t *testing.T, k *kube, client *fake.Clientset, n notice, now time.Time) {
	t.Helper()
	e := k.event(n, now)
	written, err := k.put(t.Context(), client.CoreV1().Events(k.pod.Namespace), e)
	if err != nil {
		t.Fatal(err)
	}
	k.counts[e.Name] = written.Count
}

func stored(t *testing.T, client *fake.Clientset) []corev1.Event {
	t.Helper()
	list, err := client.CoreV1().Events(inPod.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestEventOnThePod(t *testing.T) {
	e := daemonIn(inPod).event(notice{"bucket", "BucketNotReady", "bucket: bad", epoch}, epoch.Add(patience))
	want := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "portcullis", Name: "nswatch-5d4f-x2x", UID: "0b1c"}
	if e.InvolvedObject != want || e.Namespace != "portcullis" || e.Type != "Warning" || e.Reason != "BucketNotReady" || e.Message != "bucket: bad" || e.Count != 1 {
		t.Errorf("%+v", e)
	}
	if !e.FirstTimestamp.Time.Equal(epoch) || !e.LastTimestamp.Time.Equal(epoch.Add(patience)) || e.Source.Component != "nswatch" {
		t.Errorf("%+v", e)
	}
	if e := daemonIn(inPod).event(notice{reason: reasonReady}, epoch); e.Type != "Normal" {
		t.Errorf("the end is a %s", e.Type)
	}
}

// TestOneEventForEachReason: counted and brought up to date, also by a process that did not make it.
func TestOneEventForEachReason(t *testing.T) {
	client, k := fake.NewClientset(), daemonIn(inPod)
	of := func(message string) notice { return notice{"bucket", "BucketNotReady", message, epoch} }
	tell(t, k, client, of("bucket: bad"), epoch)
	tell(t, k, client, of("bucket: worse"), epoch.Add(time.Minute))
	tell(t, daemonIn(inPod), client, of("bucket: worst"), epoch.Add(2*time.Minute))
	again := daemonIn(inPod)
	tell(t, again, client, of("bucket: worst"), epoch.Add(3*time.Minute))
	tell(t, again, client, of("bucket: worst"), epoch.Add(4*time.Minute))
	got := stored(t, client)
	if len(got) != 1 || got[0].Count != 3 || got[0].Message != "bucket: worst" ||
		!got[0].LastTimestamp.Time.Equal(epoch.Add(4*time.Minute)) || !got[0].FirstTimestamp.Time.Equal(epoch) {
		t.Errorf("%+v", got)
	}
	if err := client.CoreV1().Events(inPod.Namespace).Delete(t.Context(), got[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	tell(t, again, client, of("bucket: bad"), epoch.Add(time.Hour)) // it was forgotten
	if got := stored(t, client); len(got) != 1 || got[0].Count != 1 || again.counts[got[0].Name] != 1 {
		t.Errorf("%+v", got)
	}
	tell(t, k, client, notice{reason: reasonReady, message: "ready", since: epoch}, epoch.Add(time.Hour))
	if got := stored(t, client); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestNamesOfEvents: one for each Pod, daemon and reason, and always one that the API server takes.
func TestNamesOfEvents(t *testing.T) {
	names := map[string]string{}
	for _, pod := range []Pod{inPod, {inPod.Namespace, inPod.Name, "another"}, {inPod.Namespace, strings.Repeat("a", longest), "0b1c"}} {
		for _, daemonName := range []string{"nswatch", "tokenauth"} {
			for _, reason := range []string{"BucketNotReady", "Ready"} {
				name := nameOf(pod, daemonName, reason)
				if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
					t.Errorf("%s: %v", name, problems)
				}
				if other := names[name]; other != "" {
					t.Errorf("%v %s %s has the name of %s", pod, daemonName, reason, other)
				}
				names[name] = fmt.Sprint(pod, daemonName, reason)
			}
		}
	}
}

// TestPodOf: an environment that names the Pod, and what is wrong with others.
func TestPodOf(t *testing.T) {
	whole := map[string]string{"POD_NAME": inPod.Name, "POD_NAMESPACE": inPod.Namespace, "POD_UID": inPod.UID}
	look := func(env map[string]string) func(string) (string, bool) {
		return func(name string) (string, bool) { value, ok := env[name]; return value, ok }
	}
	if pod, err := PodOf(look(whole)); err != nil || pod != inPod {
		t.Errorf("%v, %v", pod, err)
	}
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		for value, want := range map[string]string{"": "is not set", "a/b": "is no name", "a\nb": "is no name", strings.Repeat("a", longest+1): "is no name"} {
			env := maps.Clone(whole)
			env[name] = value
			if pod, err := PodOf(look(env)); err == nil || pod != (Pod{}) || !strings.HasPrefix(err.Error(), name+" "+want) {
				t.Errorf("%s=%q: %v, %v", name, value, pod, err)
			}
		}
	}
}

// TestNoClient: a daemon whose way to the API server is not there says which file is at fault.
func TestNoClient(t *testing.T) {
	cfg := kubeclient.DefaultConfig()
	cfg.Kubeconfig = "/nonexistent/kubeconfig"
	k := daemonIn(inPod)
	k.cfg = cfg
	if err := k.write(t.Context(), notice{reason: reasonReady}, epoch); err == nil || !strings.Contains(err.Error(), cfg.Kubeconfig) || errors.Unwrap(err) == nil {
		t.Errorf("%v", err)
	}
}
