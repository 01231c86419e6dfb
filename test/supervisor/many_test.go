//go:build portcullis_long

package supervisor_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// Fifty sandboxes are asked for at once, in few namespaces: all come up, each with a set of its own, and all go.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const most, places = 50, 5
	s, client := started(t)
	var boxes []*supervisor.Box
	for range places {
		ns := namespace(t, s)
		for range most / places {
			boxes = append(boxes, s.Box(ns))
		}
	}
	each := func(what string, call func(*supervisor.Box) error) {
		var calls sync.WaitGroup
		for _, b := range boxes {
			calls.Go(func() {
				if err := call(b); err != nil {
					t.Errorf("%s %s/%s: %v", what, b.Namespace, b.Name, err)
				}
			})
		}
		calls.Wait()
	}
	each("provision", func(b *supervisor.Box) error {
		_, err := client.Provision(t.Context(), b, b.Run)
		return err
	})
	demandAll(t, s, boxes)
	each("remove", func(b *supervisor.Box) error {
		_, err := client.Remove(t.Context(), b, b.Run)
		return err
	})
	for _, b := range boxes {
		demandNothing(t, s, b, false)
	}
}

// demandAll demands the sets of all Boxes, and nothing else where they are.
func demandAll(t *testing.T, s *supervisor.Site, boxes []*supervisor.Box) {
	t.Helper()
	want, got := map[string]bool{}, map[string]bool{}
	for _, b := range boxes {
		for _, key := range whole(b, b.Run.Generation) {
			want[b.Namespace+"/"+key] = true
		}
		for _, key := range s.History.Now(b.Namespace).Companions() {
			got[b.Namespace+"/"+key] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}
