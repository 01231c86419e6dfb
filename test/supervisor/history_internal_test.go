package supervisor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// verdicts records the failures of a test.
type verdicts struct {
	testing.TB
	said []string
}

func (v *verdicts) Helper() {}

func (v *verdicts) Errorf(format string, args ...any) {
	v.said = append(v.said, fmt.Sprintf(format, args...))
}

// A watch that the API server has lost track of, as it may when it has too much to do, leaves a gap, in which a Sandbox may have come: it is
// told with its cause, and what is there is not judged as if there had been none.
func TestAGapIsToldAndNotJudged(t *testing.T) {
	t.Parallel()
	const expired = "too old resource version: 5 (9)"
	orphan := secret(t, func(s *corev1.Secret) { s.Namespace, s.ResourceVersion = "x-1", "6" })
	for name, status := range map[string]runtime.Object{
		"as a status": &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: expired},
		"as any object": &unstructured.Unstructured{Object: map[string]any{
			"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure", "code": int64(410), "reason": "Expired", "message": expired,
		}},
		"not at all": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := &verdicts{TB: t}
			h := &History{t: said, prefix: "x-", events: map[string][]Event{}, lawless: map[string]bool{}, excused: map[string]bool{}, disordered: map[string]bool{}, incomplete: map[string]bool{}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			events := []watch.Event{{Type: watch.Added, Object: orphan}}
			if status != nil {
				events = append(events, watch.Event{Type: watch.Error, Object: status})
			}
			source := &cache.ListWatch{WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				w := watch.NewFakeWithChanSize(len(events), false)
				for _, e := range events {
					w.Action(e.Type, e.Object)
				}
				return w, nil
			}}
			watcher, err := watchtools.NewRetryWatcherWithContext(ctx, "5", source)
			if err != nil {
				t.Fatal(err)
			}
			if status == nil {
				cancel() // with the test
			}
			h.follow(ctx, Secrets, watcher)
			if status == nil {
				h.events["x-1"] = []Event{{Kind: Secrets, Revision: 6, Object: orphan}}
			}
			h.judged()
			got := strings.Join(said.said, "\n")
			if gap := strings.Contains(got, "has a gap") && strings.Contains(got, expired); gap != (status != nil) || strings.Contains(got, "before both Pods") != (status == nil) {
				t.Errorf("it says %s", got)
			}
		})
	}
}
