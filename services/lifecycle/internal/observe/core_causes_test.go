package observe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/progress"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
)

func TestWarningsAreCausesUntilThePodGetsFurther(t *testing.T) {
	c := listedCore(t)
	c.changeBox(put(boxItem("u1", "a", 2, 2)))
	c.changePod(put(podItem("u1", 2, false, false)))
	says := func(text string, want bool) {
		t.Helper()
		if got := c.ids["a"].state().String(); strings.Contains(got, text) != want {
			t.Errorf("%q in it is not %t: %s", text, want, got)
		}
	}
	e := eventItem("e1", "u1-w", 3, 1)
	e.Value.Type, e.Value.Reason, e.Value.Message = "Warning", "FailedMount", "no such secret"
	c.changeEvent(put(e))
	says("volume: FailedMount: no such secret", true)
	c.changePod(put(podItem("u1", 4, false, false)))
	says("FailedMount", true)
	c.changeEvent(put(eventItem("e2", "u1-w", 5, 1)))
	says("FailedMount", false)
}

func TestAFailedPullIsACauseUntilTheImageIsThere(t *testing.T) {
	c := listedCore(t)
	c.changeBox(put(boxItem("u1", "a", 2, 2)))
	c.changePod(put(podItem("u1", 2, false, false)))
	const cause = `image pull: Failed to pull image \"i\"`
	for n, step := range []struct {
		kind, reason, message string
		want                  bool
	}{
		{"Normal", "Scheduled", "to a node", false},
		{"Normal", "Pulling", `Pulling image "i"`, false},
		{"Warning", "Failed", `Failed to pull image "i": connection refused`, true},
		{"Warning", "Failed", "Error: ErrImagePull", true},
		{"Normal", "BackOff", `Back-off pulling image "i"`, true},
		{"Normal", "Pulling", `Pulling image "i"`, true}, // again
		{"Normal", "Pulled", `Successfully pulled image "i"`, false},
	} {
		e := eventItem(fmt.Sprint("e", n), "u1-w", uint64(3+n), 1)
		e.Value.Type, e.Value.Reason, e.Value.Message = step.kind, step.reason, step.message
		c.changeEvent(put(e))
		if got := c.ids["a"].state().String(); strings.Contains(got, cause) != step.want {
			t.Errorf("after %s the cause is told %t: %s", step.reason, !step.want, got)
		}
	}
}

// A kubelet leaves out events when it has many, also the one that says that the image is there at last.
func TestACauseEndsWhenTheContainersBegin(t *testing.T) {
	const cause = "image pull: Failed to pull image"
	pulls := func(version uint64) Change[progress.Event] {
		e := eventItem(fmt.Sprint("e", version), "u1-w", version, 1)
		e.Value.Type, e.Value.Reason, e.Value.Message = "Warning", "Failed", `Failed to pull image "i": connection refused`
		return put(e)
	}
	state := func(version uint64, begun uint16, all bool) Change[snapshot.Pod] {
		p := podItem("u1", version, false, false)
		p.Value.Begun, p.Value.AllBegun = begun, all
		return put(p)
	}
	for name, tc := range map[string]struct {
		then func(c *core)
		want bool
	}{
		"nothing began":           {func(c *core) { c.changePod(state(9, 0, false)) }, true},
		"one began":               {func(c *core) { c.changePod(state(9, 1, false)) }, false},
		"one began, then another": {func(c *core) { c.changePod(state(9, 1, false)); c.changeEvent(pulls(10)) }, true},
		"the same as before": {func(c *core) {
			c.changePod(state(9, 1, false))
			c.changeEvent(pulls(10))
			c.changePod(state(11, 1, false))
		}, true},
		"all began":                 {func(c *core) { c.changePod(state(9, 2, true)) }, false},
		"the event comes behind it": {func(c *core) { c.changePod(state(9, 2, true)); c.changeEvent(pulls(10)) }, false},
	} {
		c := listedCore(t)
		c.changeBox(put(boxItem("u1", "a", 2, 2)))
		c.changePod(state(2, 0, false))
		c.changeEvent(pulls(3))
		if got := c.ids["a"].state().String(); !strings.Contains(got, cause) {
			t.Fatalf("the cause is not told: %s", got)
		}
		tc.then(c)
		if got := c.ids["a"].state().String(); strings.Contains(got, cause) != tc.want {
			t.Errorf("%s: the cause is told %t: %s", name, !tc.want, got)
		}
	}
}
