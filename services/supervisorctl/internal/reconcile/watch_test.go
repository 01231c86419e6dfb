package reconcile

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// TestTheServedVersion: Sandboxes are watched through the version that is served, and an upgrade is followed by the next list.
func TestTheServedVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := boxMeta(1, releasing())
		old.APIVersion = sandboxapi.V1alpha1.APIVersion()
		s := newStage(t, driverconf.ModeShared, old)
		var mu sync.Mutex
		served := map[string]bool{"v1alpha1": true}
		stop := make(chan struct{})
		absent := func(a clienttesting.Action) error {
			mu.Lock()
			defer mu.Unlock()
			if served[a.GetResource().Version] {
				return nil
			}
			return apierrors.NewNotFound(a.GetResource().GroupResource(), "")
		}
		s.client.PrependReactor("list", sandboxapi.Resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
			err := absent(a)
			return err != nil, nil, err
		})
		s.client.PrependWatchReactor(sandboxapi.Resource, func(a clienttesting.Action) (bool, watch.Interface, error) {
			if err := absent(a); err != nil {
				return true, nil, err
			}
			w, err := s.client.Tracker().Watch(a.GetResource(), a.GetNamespace())
			if err == nil && a.GetResource().Version == "v1alpha1" {
				go func() { <-stop; w.Stop() }()
			}
			return true, w, err
		})
		s.term(func() {
			passes(time.Second)
			s.looked("box-1")
			// The definition is upgraded: the old version's watch ends, and the new one is listed.
			mu.Lock()
			served = map[string]bool{"v1beta1": true}
			mu.Unlock()
			s.put(boxMeta(1, releasing()))
			s.put(boxMeta(2, releasing()))
			close(stop)
			passes(2 * time.Minute)
			found := false
			for _, l := range s.taken() {
				found = found || l.name == "box-2"
			}
			if !found {
				t.Error("a Sandbox of the new version is not found")
			}
			if got := s.metric("portcullis_supervisorctl_reconcile_watch_works", sandboxapi.Resource); got != 1 {
				t.Errorf("the watch works: %v", got)
			}
		})
	})
}

// TestNoVersionIsServed says what is missing.
func TestNoVersionIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, driverconf.ModeShared)
		s.client.PrependReactor("list", sandboxapi.Resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(a.GetResource().GroupResource(), "")
		})
		s.term(func() {
			passes(time.Second)
			s.looked()
			if !strings.Contains(s.log.String(), "install the Agent Sandbox definitions") {
				t.Errorf("it says %s", s.log)
			}
			if got := s.metric("portcullis_supervisorctl_reconcile_watch_works", sandboxapi.Resource); got != 0 {
				t.Errorf("the watch works: %v", got)
			}
			if got := s.metric("portcullis_supervisorctl_reconcile_watch_errors_total", sandboxapi.Resource); got < 1 {
				t.Errorf("%v errors", got)
			}
		})
	})
}

// TestAForbiddenWatch does not stop the rest, and settled sandboxes are looked at more often.
func TestAForbiddenWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, driverconf.ModeShared, team(1)...)
		s.client.PrependReactor("list", "networkpolicies", func(a clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", nil)
		})
		s.term(func() {
			passes(time.Second)
			s.looked("box-0")
			passes(degradedLook)
			s.looked("box-0")
			if !strings.Contains(s.log.String(), "forbidden") {
				t.Errorf("it says %s", s.log)
			}
		})
	})
}
