package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func TestMain(m *testing.M) {
	// client-go reports a failed list here as well. What comes after the first of these sleeps until a millisecond has passed since
	// the process began, which is later than synctest's time by many years.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	goleak.VerifyTestMain(m)
}

// TestWhatSomebodyElseDoes: each edit and deletion of a companion leads to a look within a second, at its sandbox alone; one of the
// fence to one at each.
func TestWhatSomebodyElseDoes(t *testing.T) {
	for _, mode := range []driverconf.Mode{driverconf.ModeShared, driverconf.ModeManaged, driverconf.ModeOperator} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := team(3)
				s := newStage(t, mode, all...)
				box, supervisor, workload, service := all[2], all[3], all[4], all[5]
				s.term(func() {
					passes(time.Minute)
					s.looked("box-0", "box-1", "box-2")
					for _, m := range []*metav1.PartialObjectMetadata{box, supervisor, workload, service} {
						s.put(next(m, pickUp))
						passes(time.Second)
						s.looked("box-0")
					}
					s.put(next(fenceMeta(), pickUp))
					passes(time.Second)
					s.looked("box-0", "box-1", "box-2")
					s.remove(egressMeta())
					passes(time.Second)
					s.looked("box-0", "box-1", "box-2")
					s.remove(supervisor)
					passes(time.Second)
					s.looked("box-0")
					s.put(boxMeta(7, releasing()))
					passes(time.Second)
					s.looked("box-7")
					foreign := boxMeta(8, releasing())
					foreign.Labels[workspace.LabelGatewayID] = "red"
					s.put(foreign)
					s.put(supervisorMeta(9, boxMeta(9, running())))
					passes(orphanGrace - time.Second)
					s.looked()
					passes(time.Second)
					if looks := s.looked("box-9"); len(looks) == 1 && looks[0].uid != "uid-9" {
						t.Errorf("%+v", looks)
					}
				})
			})
		})
	}
}

// TestAnAbandonedStart is told to the conductor as such 40 s after it was seen first, and when the leader has changed, too.
func TestAnAbandonedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := boxMeta(1, preparing())
		s := newStage(t, driverconf.ModeShared, box)
		for range 2 {
			s.term(func() {
				passes(plan.IdleLimit)
				s.looked()
				if n := s.leading.Load(); n != 1 {
					t.Errorf("%d terms", n)
				}
				passes(time.Second)
				looks := s.looked("box-1", "box-1")
				if len(looks) == 2 && (looks[0].idle != 0 || looks[1].idle < plan.IdleLimit || looks[1].idle > plan.IdleLimit+time.Second) {
					t.Errorf("%+v", looks)
				}
			})
		}
		s.term(func() {
			passes(30 * time.Second)
			record := preparing()
			record.Attempt = "another"
			s.put(next(box, func(m *metav1.PartialObjectMetadata) { m.Annotations = record.Annotations() }))
			passes(plan.IdleLimit)
			s.looked()
			passes(time.Second)
			s.looked("box-1", "box-1")
		})
	})
}

// TestATermEnds, at once and with all that it began, when it is told to either way; and the next one begins afresh.
func TestATermEnds(t *testing.T) {
	for name, end := range map[string]func(cancel, release func()){
		"lost":     func(cancel, _ func()) { cancel() },
		"released": func(_, release func()) { release() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, driverconf.ModeShared, team(2)...)
				for range 2 {
					ctx, cancel := context.WithCancel(t.Context())
					released, over := make(chan struct{}), make(chan error, 1)
					go func() { over <- s.loop.Lead(ctx, released) }()
					passes(time.Minute)
					s.looked("box-0", "box-1")
					if got := s.sandboxes(); got != 2 {
						t.Errorf("%v sandboxes", got)
					}
					begun := time.Now()
					end(cancel, func() { close(released) })
					if err := <-over; err != nil || time.Since(begun) != 0 {
						t.Errorf("%v after %s", err, time.Since(begun))
					}
					if got := s.sandboxes(); got != 0 {
						t.Errorf("%v sandboxes after the term", got)
					}
					cancel()
				}
			})
		})
	}
	t.Run("with a look under way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, driverconf.ModeShared, boxMeta(1, releasing()))
			s.loop.conductor = hanging{}
			begun := time.Now()
			s.term(func() { passes(time.Minute) })
			if took := time.Since(begun); took != time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	})
	t.Run("while the API server is away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, driverconf.ModeShared)
			s.client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, fmt.Errorf("dial: %w", context.DeadlineExceeded)
			})
			begun := time.Now()
			s.term(func() { passes(10 * time.Minute) })
			if took := time.Since(begun); took != 10*time.Minute {
				t.Errorf("it took %s", took)
			}
			if lines := strings.Count(s.log.String(), "a watch does not work"); lines < int(kinds) || lines > 11*int(kinds) {
				t.Errorf("%d lines", lines)
			}
		})
	})
}

// TestLines: people are told of changes, not of looks.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, driverconf.ModeShared, team(1)...)
		step := plan.Step{Action: plan.Refuse, Reason: plan.Collision, Explanation: "the Service is not ours"}
		s.answer = func(conduct.Goal) (conduct.Outcome, error) { return outcome(step, ready(0)), nil }
		const gauge = "portcullis_supervisorctl_reconcile_refused_sandboxes"
		s.term(func() {
			passes(time.Hour)
			if n := len(s.taken()); n < 10 || n > 20 {
				t.Errorf("%d looks", n)
			}
			line := s.log.String()
			if strings.Count(line, "\n") != 1 || !strings.Contains(line, `"reason":"companion_collision"`) || !strings.Contains(line, "not ours") ||
				!strings.Contains(line, `"sandbox":"box-0"`) || !strings.Contains(line, `"sandbox_id":"`+id(0)) {
				t.Errorf("it says %s", line)
			}
			if got := s.metric(gauge, string(plan.Collision)); got != 1 {
				t.Errorf("refused: %v", got)
			}
			s.log.Reset()
			s.mu.Lock()
			s.answer = nil
			s.mu.Unlock()
			passes(10 * time.Minute)
			if line := s.log.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, `"former_reason":"companion_collision"`) {
				t.Errorf("it says %s", line)
			}
			if got := s.metric(gauge, ""); got != -1 {
				t.Errorf("refused: %v", got)
			}
			s.log.Reset()
			s.mu.Lock()
			s.answer = func(conduct.Goal) (conduct.Outcome, error) {
				return outcome(plan.Step{Action: plan.Done, Reason: plan.FenceAltered, Explanation: "a port was opened"}, releasing()), nil
			}
			s.mu.Unlock()
			s.put(next(fenceMeta(), pickUp))
			passes(time.Minute)
			if line := s.log.String(); !strings.Contains(line, `"reason":"fence_altered"`) || !strings.Contains(line, "a port was opened") {
				t.Errorf("it says %s", line)
			}
			if got := s.metric("portcullis_supervisorctl_reconcile_stops_total", string(plan.FenceAltered)); got < 1 {
				t.Errorf("stops: %v", got)
			}
		})
	})
}

// TestWorkers: as many sandboxes are worked on at once as there are workers, and no more.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*metav1.PartialObjectMetadata
		for i := range 20 {
			all = append(all, boxMeta(i, releasing()))
		}
		s := newStage(t, driverconf.ModeShared, all...)
		free := make(chan struct{})
		s.answer = func(conduct.Goal) (conduct.Outcome, error) {
			<-free
			return outcome(plan.Step{Action: plan.Done}, releasing()), nil
		}
		s.term(func() {
			passes(0)
			if n := len(s.taken()); n != DefaultSettings().Workers {
				t.Errorf("%d at once", n)
			}
			close(free)
			passes(0)
			if n := len(s.taken()); n != 20-DefaultSettings().Workers {
				t.Errorf("%d afterwards", n)
			}
		})
	})
}

// TestOneEventRousesAll: what concerns several sandboxes is not worked on by one worker alone.
func TestOneEventRousesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, driverconf.ModeShared, team(5)...)
		s.term(func() {
			passes(time.Minute)
			s.taken()
			free := make(chan struct{})
			s.mu.Lock()
			s.answer = func(conduct.Goal) (conduct.Outcome, error) {
				<-free
				return outcome(plan.Step{Action: plan.Done}, running()), nil
			}
			s.mu.Unlock()
			s.put(next(fenceMeta(), pickUp))
			passes(0)
			s.looked("box-0", "box-1", "box-2", "box-3", "box-4")
			close(free)
		})
	})
}

// TestAThousand: an hour of a thousand settled sandboxes takes no write and few looks.
func TestAThousand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, driverconf.ModeShared, team(1000)...)
		s.term(func() {
			passes(time.Hour)
			if n := len(s.taken()); n < 6000 || n > 7500 {
				t.Errorf("%d looks", n)
			}
			for _, a := range s.client.Actions() {
				if verb := a.GetVerb(); verb != "list" && verb != "watch" {
					t.Errorf("the loop itself sends %s %s", verb, a.GetResource())
				}
				if a.GetNamespace() != ns {
					t.Errorf("%s of %s in namespace %q", a.GetVerb(), a.GetResource(), a.GetNamespace())
				}
			}
			if n := len(s.client.Actions()); n > 2*int(kinds) {
				t.Errorf("%d requests", n)
			}
		})
	})
}

// TestNew refuses what cannot work, and registers once.
func TestNew(t *testing.T) {
	client := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	for name, tc := range map[string]struct {
		edit func(cfg *Settings, scheme *workspace.Scheme)
		want string
	}{
		"defaults":   {func(*Settings, *workspace.Scheme) {}, ""},
		"no workers": {func(c *Settings, _ *workspace.Scheme) { c.Workers = 0 }, "reconcile_workers is 0"},
		"many":       {func(c *Settings, _ *workspace.Scheme) { c.Workers = 65 }, "reconcile_workers is 65"},
		"no resync":  {func(c *Settings, _ *workspace.Scheme) { c.Resync = 0 }, "reconcile_resync is 0s"},
		"rare":       {func(c *Settings, _ *workspace.Scheme) { c.Resync = driverconf.Duration(time.Hour) }, "reconcile_resync is 1h"},
		"full often": {func(c *Settings, _ *workspace.Scheme) { c.FullLook = driverconf.Duration(time.Second) }, "reconcile_full_look is 1s"},
		"full never": {func(c *Settings, _ *workspace.Scheme) { c.FullLook = driverconf.Duration(25 * time.Hour) }, "reconcile_full_look is 25h"},
		"no rate":    {func(c *Settings, _ *workspace.Scheme) { c.Rate = 0 }, "reconcile_rate is 0"},
		"high rate":  {func(c *Settings, _ *workspace.Scheme) { c.Rate = 1001 }, "reconcile_rate is 1001"},
		"no scheme":  {func(_ *Settings, s *workspace.Scheme) { *s = workspace.Scheme{} }, "reconcile:"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, scheme := DefaultSettings(), workspace.Scheme{Mode: driverconf.ModeShared, GatewayID: gateway, Namespace: ns}
			tc.edit(&cfg, &scheme)
			_, err := New(cfg, scheme, hanging{}, client, noPods, zerolog.Nop(), prometheus.NewRegistry())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	scheme := workspace.Scheme{Mode: driverconf.ModeShared, GatewayID: gateway, Namespace: ns}
	reg := prometheus.NewRegistry()
	if _, err := New(DefaultSettings(), scheme, hanging{}, client, noPods, zerolog.Nop(), reg); err != nil {
		t.Fatal(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if _, err := New(DefaultSettings(), scheme, hanging{}, client, noPods, zerolog.Nop(), reg); err == nil {
		t.Error("registered twice")
	}
	for name, err := range map[string]error{
		"no conductor": second(New(DefaultSettings(), scheme, nil, client, noPods, zerolog.Nop(), prometheus.NewRegistry())),
		"no client":    second(New(DefaultSettings(), scheme, hanging{}, nil, noPods, zerolog.Nop(), prometheus.NewRegistry())),
		"no Pods":      second(New(DefaultSettings(), scheme, hanging{}, client, nil, zerolog.Nop(), prometheus.NewRegistry())),
		"no registry":  second(New(DefaultSettings(), scheme, hanging{}, client, noPods, zerolog.Nop(), nil)),
	} {
		if err == nil {
			t.Error(name)
		}
	}
}

func second(_ *Loop, err error) error { return err }

// noPods are never watched.
func noPods(context.Context, string, metav1.ListOptions) (watch.Interface, error) {
	return nil, errors.New("nobody leads")
}
