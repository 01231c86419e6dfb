package inquiry_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/apitest"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/inquiry"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// waitFor is a fault that lets a request through once all of marks are set.
func waitFor(marks ...*atomic.Bool) apitest.Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		for slices.ContainsFunc(marks, func(m *atomic.Bool) bool { return !m.Load() }) {
			select {
			case <-r.Context().Done():
				return true
			case <-time.After(time.Millisecond):
			}
		}
		return false
	}
}

// TestTheSecondInquiryAboutAPodReadsAllAtOnce: nothing is answered before all has been asked for.
func TestTheSecondInquiryAboutAPodReadsAllAtOnce(t *testing.T) {
	f := start(t, driverconf.ModeOperator)
	grants(t, f.decide(t, f.world.Token), f.mode)
	before := len(f.Seen())
	marks := map[string]*atomic.Bool{apitest.TokenReviews: {}, apitest.Namespaces: {}, apitest.Pods: {}, apitest.Sandboxes: {}}
	wait := waitFor(marks[apitest.TokenReviews], marks[apitest.Namespaces], marks[apitest.Pods], marks[apitest.Sandboxes])
	for resource, mark := range marks {
		f.On(resource, func(w http.ResponseWriter, r *http.Request) bool {
			mark.Store(true)
			return wait(w, r)
		})
	}
	grants(t, f.decide(t, f.world.Token), f.mode)
	if seen := f.Seen()[before:]; len(seen) != 4 {
		t.Errorf("asked for %v", seen)
	}
}

// TestARememberedSandboxIsOnlyWhereToLook: what has become of the Sandbox since, or of the Pod, decides.
func TestARememberedSandboxIsOnlyWhereToLook(t *testing.T) {
	const other = "11111111-2222-4333-8444-555555555555"
	for name, c := range map[string]struct {
		change func(*apitest.World)
		want   verdict.Reason // empty for a grant
		asked  []string       // of Sandboxes, in the second inquiry
	}{
		"the Pod belongs to another": {func(w *apitest.World) {
			w.Pod.OwnerReferences[0].Name, w.Sandbox.Name = "box2", "box2"
		}, "", []string{"box", "box2"}},
		"the Pod belongs to another, and the first is there": {func(w *apitest.World) {
			w.Pod.OwnerReferences[0].Name = "box2"
		}, verdict.SandboxNotFound, []string{"box", "box2"}},
		"the Pod belongs to one of the same name": {func(w *apitest.World) { w.Pod.OwnerReferences[0].UID = other }, verdict.SandboxReplaced, []string{"box"}},
		"the Pod belongs to it through another version": {func(w *apitest.World) {
			w.Pod.OwnerReferences[0].APIVersion, w.Sandbox.APIVersion = "agents.x-k8s.io/v1alpha1", "agents.x-k8s.io/v1alpha1"
		}, "", []string{"box", "box"}},
		"the Pod belongs to nobody":  {func(w *apitest.World) { w.Pod.OwnerReferences = nil }, verdict.PodOwnerInvalid, []string{"box"}},
		"the Sandbox is gone":        {func(w *apitest.World) { w.Sandbox = nil }, verdict.SandboxNotFound, []string{"box"}},
		"the Sandbox was made anew":  {func(w *apitest.World) { w.Sandbox.UID = other }, verdict.SandboxReplaced, []string{"box"}},
		"the Sandbox is another's":   {func(w *apitest.World) { w.Sandbox.Labels["openshell.ai/gateway-id"] = "a-b" }, verdict.SandboxOtherGateway, []string{"box"}},
		"the Pod is gone":            {func(w *apitest.World) { w.Pod = nil }, verdict.PodNotFound, []string{"box"}},
		"the Pod was made anew":      {func(w *apitest.World) { w.Pod.UID = other }, verdict.PodReplaced, []string{"box"}},
		"the token is not taken now": {func(w *apitest.World) { w.Status.Authenticated = false }, verdict.CredentialNotAccepted, []string{"box"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, driverconf.ModeManaged)
			grants(t, f.decide(t, f.world.Token), f.mode)
			f.Change(c.change)
			before := len(f.Seen())
			// The reads ahead are under way before the review ends.
			var boxes atomic.Bool
			f.On(apitest.Sandboxes, func(http.ResponseWriter, *http.Request) bool { boxes.Store(true); return false })
			f.On(apitest.TokenReviews, waitFor(&boxes))
			if got := f.decide(t, f.world.Token); c.want == "" {
				grants(t, got, f.mode)
			} else {
				refuses(t, got, c.want)
			}
			var asked []string
			for _, request := range f.Seen()[before:] {
				var name string
				if n, _ := fmt.Sscanf(request, "GET sandboxes "+apitest.NamespaceIn(f.mode)+"/%s", &name); n == 1 {
					asked = append(asked, name)
				}
			}
			if !slices.Equal(asked, c.asked) {
				t.Errorf("asked for the Sandboxes %v, want %v", asked, c.asked)
			}
		})
	}
}

// TestAHintOfAnotherNamespaceFindsNothingRemembered: a uid in made-up claims leads nowhere that the claims' own names do not.
func TestAHintOfAnotherNamespaceFindsNothingRemembered(t *testing.T) {
	f := start(t, driverconf.ModeManaged)
	grants(t, f.decide(t, f.world.Token), f.mode)
	before := len(f.Seen())
	refuses(t, f.decide(t, apitest.Token("openshell-a-d", apitest.PodName, apitest.PodUID)), verdict.CredentialNotAccepted)
	for _, request := range f.Seen()[before:] {
		if request == "GET sandboxes openshell-a-d/box" || request == "GET sandboxes "+apitest.NamespaceIn(f.mode)+"/box" {
			t.Errorf("asked for %s", request)
		}
	}
}

// TestOnlyAGrantIsRemembered: no token that is refused, at whatever step, puts anything in.
func TestOnlyAGrantIsRemembered(t *testing.T) {
	f := start(t, driverconf.ModeManaged)
	for i := range 20 {
		refuses(t, f.decide(t, apitest.Token(apitest.NamespaceIn(f.mode), apitest.PodName, fmt.Sprintf("made-up-%d", i))), verdict.CredentialNotAccepted)
	}
	ended := metav1.NewTime(time.Unix(1, 0))
	for reason, change := range map[verdict.Reason]func(*apitest.World){
		verdict.NamespaceTerminating: func(w *apitest.World) { w.Namespace.DeletionTimestamp = &ended },
		verdict.PodReplaced:          func(w *apitest.World) { w.Pod.UID = types.UID("another") },
		verdict.SandboxOtherGateway:  func(w *apitest.World) { w.Sandbox.Labels["openshell.ai/gateway-id"] = "a-b" },
		verdict.SupervisorNotCurrent: func(w *apitest.World) {
			w.Sandbox.Annotations["openshell.ai/sandbox-runtime-supervisor-uid"] = "another"
		},
	} {
		f.Change(func(w *apitest.World) { *w = *apitest.Valid(f.mode); change(w) })
		refuses(t, f.decide(t, f.world.Token), reason)
	}
	if n := f.Remembered(); n != 0 {
		t.Errorf("%d Pods are remembered", n)
	}
	f.Change(func(w *apitest.World) { *w = *apitest.Valid(f.mode) })
	for range 2 {
		grants(t, f.decide(t, f.world.Token), f.mode)
	}
	if n := f.Remembered(); n != 1 {
		t.Errorf("%d Pods are remembered", n)
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	f := start(t, driverconf.ModeShared)
	for i := range 3 * inquiry.MostOwners {
		f.Remember(fmt.Sprint(i), authenticate.Question{Subject: authenticate.SubjectSandbox, Name: fmt.Sprint(i)})
	}
	if n := f.Remembered(); n != inquiry.MostOwners {
		t.Errorf("%d Pods are remembered", n)
	}
}
