//go:build portcullis_long

package lifecycle_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// TestSlowGateway: a gateway that takes nothing for long is reset with UNAVAILABLE and not told less than happened.
func TestSlowGateway(t *testing.T) {
	t.Parallel()
	s := standIns(t).Raise(t, "shared", nil, func(o *mesh.Options) {
		o.Extra = map[string][]string{mesh.Lifecycle: {"watch_queue = 64"}}
	})
	wish := s.Wish("team", "box")
	_, err := s.Driver.CreateSandbox(s.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow, err := s.Driver.WatchSandboxes(ctx, &computev1.WatchSandboxesRequest{})
	must(t, err)
	if _, err := slow.Recv(); err != nil {
		t.Fatal(err)
	}
	box, err := s.Cluster.Dynamic().Resource(boxes).Namespace(s.Shared).Get(t.Context(), "team--box", metav1.GetOptions{})
	must(t, err)
	const happenings, writers = 1000, 8 // more than a queue and what a connection holds
	errs := make([]error, writers)
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for n := w; n < happenings && errs[w] == nil; n += writers {
				_, errs[w] = s.Cluster.Client().CoreV1().Events(s.Shared).Create(t.Context(), &corev1.Event{
					ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("happening-%d", n), Namespace: s.Shared},
					InvolvedObject: corev1.ObjectReference{APIVersion: "agents.x-k8s.io/v1beta1", Kind: "Sandbox", Namespace: s.Shared, Name: "team--box", UID: box.GetUID()},
					Type:           corev1.EventTypeNormal, Reason: "Happening", Message: fmt.Sprintf("%d %s", n, strings.Repeat("x", 900)),
					FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(), Count: 1,
				}, metav1.CreateOptions{})
			}
		})
	}
	running.Wait()
	for _, err := range errs {
		must(t, err)
	}
	defer time.AfterFunc(time.Minute, cancel).Stop() // it would wait for ever for what has gone well
	for told := 0; ; told++ {
		if _, err := slow.Recv(); err != nil {
			if status.Code(err) != codes.Unavailable {
				t.Errorf("after %d messages the stream ends with %v", told, err)
			}
			return
		}
	}
}
