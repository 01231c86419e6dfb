package conduct

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
)

func TestNewWantsEverything(t *testing.T) {
	w, registry := newWorld(nil), prometheus.NewRegistry()
	bad := settings(t)
	bad.GRPCEndpoint = ""
	for name, create := range map[string]func() error{
		"no settings": func() error { _, err := New(nil, companion.Options{}, w, zerolog.Nop(), registry, nil); return err },
		"no cluster": func() error {
			_, err := New(settings(t), companion.Options{}, nil, zerolog.Nop(), registry, nil)
			return err
		},
		"no registry": func() error { _, err := New(settings(t), companion.Options{}, w, zerolog.Nop(), nil, nil); return err },
		"no endpoint": func() error { _, err := New(bad, companion.Options{}, w, zerolog.Nop(), registry, nil); return err },
	} {
		if err := create(); err == nil {
			t.Errorf("%s", name)
		}
	}
	if _, err := New(bad, companion.Options{}, w, zerolog.Nop(), registry, nil); err == nil || !strings.Contains(err.Error(), "grpc_endpoint") {
		t.Errorf("%v", err)
	}
}

// TestMetrics: steps by their result, and goals by theirs.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		w := newWorld(fresh())
		c, err := New(settings(t), companion.Options{}, w, zerolog.Nop(), registry, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &site{Conductor: c, t: t, world: w}
		s.do(s.goal(plan.Provision))
		w.before = always("delete pod", errNo)
		if out, err := s.Do(t.Context(), s.goal(plan.Release)); err != nil || out.Step.Action == plan.Done {
			t.Errorf("%v, %+v", err, out.Step)
		}
		want := `
# HELP portcullis_supervisorctl_goals_total Goals by result: done or refused.
# TYPE portcullis_supervisorctl_goals_total counter
portcullis_supervisorctl_goals_total{goal="keep",result="done"} 0
portcullis_supervisorctl_goals_total{goal="keep",result="refused"} 0
portcullis_supervisorctl_goals_total{goal="provision",result="done"} 1
portcullis_supervisorctl_goals_total{goal="provision",result="refused"} 0
portcullis_supervisorctl_goals_total{goal="release",result="done"} 0
portcullis_supervisorctl_goals_total{goal="release",result="refused"} 1
portcullis_supervisorctl_goals_total{goal="remove",result="done"} 0
portcullis_supervisorctl_goals_total{goal="remove",result="refused"} 0
portcullis_supervisorctl_goals_total{goal="restart",result="done"} 0
portcullis_supervisorctl_goals_total{goal="restart",result="refused"} 0
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "portcullis_supervisorctl_goals_total"); err != nil {
			t.Error(err)
		}
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "portcullis_supervisorctl_step_seconds" {
					seen[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = true
				}
			}
		}
		for _, step := range []string{"make-secrets done", "ungate-workload done", "delete-supervisor failed"} {
			if !seen[step] {
				t.Errorf("no step %s: %v", step, seen)
			}
		}
	})
}
