package driver_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/driver"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// tries is how often a step was done.
func (w *world) tries(step string) (n int) {
	for _, done := range w.steps() {
		if done == step {
			n++
		}
	}
	return n
}

// fails makes a step fail a number of times, and then succeed.
func (w *world) fails(step string, times int) {
	w.faults[step] = errAPI
	w.before[step] = func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if times--; times < 0 {
			delete(w.faults, step)
		}
	}
}

// run has the driver do what it does by itself, until the test ends it.
func run(t *testing.T, d *driver.Driver) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// An API server that is away for some seconds keeps nothing from being undone, and the caller is answered when it is.
func TestUndoGoesOnTrying(t *testing.T) {
	for _, at := range []string{"provision", "answered"} {
		synctest.Test(t, func(t *testing.T) {
			w := base(t)
			w.faults[at] = errAPI
			w.fails("delete "+uid, 6)
			began := time.Now()
			if _, err := w.driver(t).CreateSandbox(t.Context(), &computev1.CreateSandboxRequest{Sandbox: wish()}); err == nil {
				t.Fatal("created")
			}
			if tries, took := w.tries("delete "+uid), time.Since(began); len(w.objects) != 0 || tries != 7 || took < time.Second || took > 30*time.Second {
				t.Errorf("%s: %d objects left after %d tries in %s", at, len(w.objects), tries, took)
			}
		})
	}
}

// What cannot be deleted in time is deleted later, also when it does not bear the mark any more: the answer to the request that takes it
// off may have been lost.
func TestUndoThatIsOwed(t *testing.T) {
	for _, at := range []string{"provision", "answered"} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			w := base(t)
			w.log = &log
			w.faults[at], w.faults["delete "+uid], w.faults["abandoned"] = errAPI, errAPI, errAPI
			d := w.driver(t)
			began := time.Now()
			if _, err := d.CreateSandbox(t.Context(), &computev1.CreateSandboxRequest{Sandbox: wish()}); err == nil {
				t.Fatal("created")
			}
			if took := time.Since(began); took < 29*time.Second || took > 31*time.Second {
				t.Errorf("it was given up after %s", took)
			}
			if len(w.objects) != 1 {
				t.Fatalf("%d objects", len(w.objects))
			}
			marked := map[string]string{"provision": `"marked":true`, "answered": `"marked":false`}[at]
			if !strings.Contains(log.String(), marked) || !strings.Contains(log.String(), "goes on trying") {
				t.Errorf("the log says %s", log.String())
			}
			w.fails("delete "+uid, 3)
			before := w.tries("delete " + uid)
			end := run(t, d)
			time.Sleep(time.Minute)
			end()
			if tries := w.tries("delete "+uid) - before; len(w.objects) != 0 || tries != 4 {
				t.Errorf("%d objects left after %d more tries", len(w.objects), tries)
			}
		})
	}
}

// What was found with its mark is reaped as it was found. One that was written to meanwhile is looked at anew, and no more.
func TestReapOfWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := base(t)
		created(t, w, wish())
		w.faults["reap "+uid] = errors.Join(errAPI, cluster.ErrChanged)
		d := w.driver(t)
		end := run(t, d)
		time.Sleep(3500 * time.Millisecond)
		if tries := w.tries("reap " + uid); tries != 3 || w.tries("abandoned") != 3 || w.tries("delete "+uid) != 0 || len(w.objects) != 1 {
			t.Errorf("%q, %d objects", w.steps(), len(w.objects))
		}
		w.mu.Lock()
		delete(w.faults, "reap "+uid)
		w.mu.Unlock()
		time.Sleep(time.Second)
		end()
		if len(w.objects) != 0 {
			t.Error("it stays")
		}
	})
}

// What a run rests on is asked once more when it is there and before anybody is told of it: to raise it may take minutes.
func TestWhatChangesWhileARunIsRaised(t *testing.T) {
	cases := map[string]struct {
		change func(*world)
		code   codes.Code
	}{
		"leaves the list":          {func(w *world) { w.faults["still"] = refusal(verdict.NotListed) }, codes.FailedPrecondition},
		"the list ages":            {func(w *world) { w.faults["still"] = refusal(verdict.Stale) }, codes.Unavailable},
		"the claim is made anew":   {func(w *world) { w.looks[attached] = claim("claim-2") }, codes.FailedPrecondition},
		"the claim cannot be read": {func(w *world) { w.faults["look "+attached] = errAPI }, codes.Unavailable},
		"nothing changes":          {func(*world) {}, codes.OK},
	}
	for name, c := range cases {
		t.Run("create, "+name, func(t *testing.T) {
			w := base(t)
			w.looks[attached] = claim("claim-1")
			w.before["provision"] = func() { c.change(w) }
			_, err := w.driver(t).CreateSandbox(t.Context(), &computev1.CreateSandboxRequest{Sandbox: attaching(t)})
			if ok := c.code == codes.OK; status.Code(err) != c.code || (len(w.objects) == 1) != ok || slices.Contains(w.steps(), "answered") != ok {
				t.Errorf("error %v, want %s; %q, %d left", err, c.code, w.steps(), len(w.objects))
			}
		})
		t.Run("start, "+name, func(t *testing.T) {
			w := base(t)
			w.looks[attached] = claim("claim-1")
			d := created(t, w, attaching(t))
			w.identity.SupervisorUid = "uid-8"
			w.before["restart g0000000000000001"] = func() { c.change(w) }
			_, err := d.StartSandbox(t.Context(), start())
			var want []string
			if c.code != codes.OK {
				want = []string{`g0000000000000001 of session "", epoch 0`}
			}
			if status.Code(err) != c.code || !slices.Equal(w.released, want) || len(w.objects) != 1 {
				t.Errorf("error %v, want %s; released %q", err, c.code, w.released)
			}
		})
		t.Run("start of the run that stands, "+name, func(t *testing.T) {
			w := base(t)
			w.looks[attached] = claim("claim-1")
			d := created(t, w, attaching(t))
			w.before["restart g0000000000000001"] = func() { c.change(w) }
			if _, err := d.StartSandbox(t.Context(), start()); status.Code(err) != c.code || len(w.released) != 0 {
				t.Errorf("error %v, want %s; released %q", err, c.code, w.released)
			}
		})
	}
}

// The run of a start that is refused late is ended although its caller has gone and supervisorctl is away for a moment; that another run
// stands by then is for supervisorctl to see, and is no reason to ask again.
func TestRetract(t *testing.T) {
	raise := func(t *testing.T) (*world, *driver.Driver, context.Context) {
		w := base(t)
		d := created(t, w, wish())
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		w.identity.SupervisorUid = "uid-8"
		w.before["restart g0000000000000001"] = func() { w.faults["still"] = refusal(verdict.NotListed) }
		w.before["still"] = func() {
			if w.faults["still"] != nil {
				cancel()
			}
		}
		return w, d, ctx
	}
	const release = "release " + uid
	synctest.Test(t, func(t *testing.T) {
		w, d, ctx := raise(t)
		w.fails(release, 3)
		if _, err := d.StartSandbox(ctx, start()); err == nil || w.tries(release) != 4 || !w.suspended {
			t.Errorf("error %v, %d tries", err, w.tries(release))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w, d, ctx := raise(t)
		w.faults[release] = verdict.Refuse(verdict.RunIsAnother, "x", "y").Err()
		if _, err := d.StartSandbox(ctx, start()); err == nil || w.tries(release) != 1 {
			t.Errorf("error %v, %d tries", err, w.tries(release))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w, d, ctx := raise(t)
		w.faults[release] = status.Error(codes.Unavailable, "refused")
		began := time.Now()
		if _, err := d.StartSandbox(ctx, start()); err == nil || w.tries(release) < 10 || time.Since(began) > 5*time.Minute {
			t.Errorf("error %v, %d tries in %s", err, w.tries(release), time.Since(began))
		}
	})
}

// A run that is retracted is named by what its record says of it: the generation is the call's alone, and another call may have given the
// run another name. Whoever tells no record is asked by the generation.
func TestRetractNamesTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		recorded *supervisorv1.Run
		want     string
	}{
		"the record has the call's generation": {
			&supervisorv1.Run{GenerationId: "g0000000000000001", SessionId: "s-2", AuthEpoch: 2}, `g0000000000000001 of session "s-2", epoch 2`,
		},
		"another call named the generation": {
			&supervisorv1.Run{GenerationId: "g0000000000000009", SessionId: "s-2", AuthEpoch: 2}, `g0000000000000001 of session "s-2", epoch 2`,
		},
		"no record is told": {nil, `g0000000000000001 of session "", epoch 0`},
	} {
		t.Run(name, func(t *testing.T) {
			w := base(t)
			d := created(t, w, wish())
			w.identity.SupervisorUid, w.recorded = "uid-8", c.recorded
			w.before["restart g0000000000000001"] = func() { w.faults["still"] = refusal(verdict.NotListed) }
			if _, err := d.StartSandbox(t.Context(), start()); err == nil || !slices.Equal(w.released, []string{c.want}) {
				t.Errorf("error %v, released %q, want %q", err, w.released, c.want)
			}
		})
	}
}

// A removal that takes for ever leaves the delete its time, if the call has any left.
func TestDeleteKeepsItsTime(t *testing.T) {
	const remove = "remove " + namespace + "/box " + uid
	for name, c := range map[string]struct {
		limit   time.Duration // of the gateway; 0 for none
		takes   time.Duration
		deleted bool
	}{
		"the removal never ends":          {0, time.Hour, true},
		"a gateway that waits for 10 s":   {10 * time.Second, time.Hour, true},
		"a gateway that has gone":         {10 * time.Second, 0, false},
		"all in time":                     {0, 0, true},
		"nearly all of what it may take ": {0, 3*time.Minute + 40*time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := base(t)
			d := created(t, w, wish())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.limit)
				defer cancel()
			}
			w.takes = map[string]time.Duration{remove: c.takes}
			if !c.deleted {
				w.before[remove] = cancel
			}
			got, err := d.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: id})
			if got.GetDeleted() != c.deleted || (err == nil) != c.deleted || (len(w.objects) == 0) != c.deleted {
				t.Errorf("%s: deleted %t, error %v, %q", name, got.GetDeleted(), err, w.steps())
			}
		})
	}
}

// TestPullSecretsOfOtherSettings: a stopped sandbox starts although the settings name other Secrets by now: supervisorctl puts those of the
// new run in the place of the old ones.
func TestPullSecretsOfOtherSettings(t *testing.T) {
	w := base(t)
	w.settings.ImagePullSecrets = []string{"registry-of-then", "another"}
	created(t, w, wish())
	if n := len(w.objects[0].Template.Spec.ImagePullSecrets); n != 2 {
		t.Fatalf("the template has %d pull Secrets", n)
	}
	for _, now := range [][]string{{"registry-of-today"}, nil, {"a", "b", "c"}} {
		w.settings.ImagePullSecrets = now
		if _, err := w.driver(t).StartSandbox(t.Context(), start()); err != nil {
			t.Errorf("with %q: %v", now, err)
		}
	}
	w.objects[0].Template.Spec.HostNetwork = true
	if _, err := w.driver(t).StartSandbox(t.Context(), start()); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a template with something else: %v", err)
	}
}
