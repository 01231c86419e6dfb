package conduct

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
)

// tracing is a provider that notes which spans begin and end, and under which one.
type tracing struct {
	noop.TracerProvider
	mu           sync.Mutex
	begun, ended []string
}

func (p *tracing) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracerOf{p: p} }

type tracerOf struct {
	noop.Tracer
	p *tracing
}

func (t tracerOf) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	s := &span{p: t.p, name: name}
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	if parent, ok := trace.SpanFromContext(ctx).(*span); ok {
		t.p.begun = append(t.p.begun, parent.name+" > "+name)
	}
	return trace.ContextWithSpan(ctx, s), s
}

type span struct {
	noop.Span
	p    *tracing
	name string
}

func (s *span) TracerProvider() trace.TracerProvider { return s.p }

func (s *span) End(...trace.SpanEndOption) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.p.ended = append(s.p.ended, s.name)
}

// TestStepsAreSpans of the trace that the call belongs to, one for each step, and none is left open.
func TestStepsAreSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, newWorld(fresh()))
		p := &tracing{}
		ctx := trace.ContextWithSpan(t.Context(), &span{p: p, name: "call"})
		if out, err := s.Do(ctx, s.goal(plan.Provision)); err != nil || out.Step.Action != plan.Done {
			t.Fatalf("%v, %+v", err, out.Step)
		}
		var want []string
		for _, action := range []plan.Action{
			plan.CreateWorkloadFence, plan.CreateSupervisorFence, plan.CreateService, plan.CreateSupervisor, plan.Resume, plan.Write,
			plan.MakeSecrets, plan.UngateSupervisor, plan.UngateWorkload, plan.Write,
		} {
			want = append(want, "call > step "+action.String())
		}
		got := slices.DeleteFunc(slices.Clone(p.begun), func(name string) bool { return name == "call > step "+plan.Await.String() })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("spans (-want +got):\n%s", diff)
		}
		if len(p.ended) != len(p.begun) {
			t.Errorf("%d spans begun, %d ended: %q", len(p.begun), len(p.ended), p.ended)
		}
	})
}
