package conduct

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
)

// tracing is a provider that notes which spans begin and end, under which one, and how.
type tracing struct {
	noop.TracerProvider
	mu    sync.Mutex
	spans []*span
}

func (p *tracing) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracerOf{p: p} }

type tracerOf struct {
	noop.Tracer
	p *tracing
}

func (t tracerOf) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	s := &span{p: t.p, name: name, said: map[string]string{}}
	begun := trace.NewSpanStartConfig(options...)
	s.SetAttributes(begun.Attributes()...)
	if parent, ok := trace.SpanFromContext(ctx).(*span); ok {
		s.parent = parent.name
	}
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	t.p.spans = append(t.p.spans, s)
	return trace.ContextWithSpan(ctx, s), s
}

// taken are the spans so far.
func (p *tracing) taken() []*span {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.spans)
}

type span struct {
	noop.Span
	p            *tracing
	name, parent string
	said         map[string]string
	status       codes.Code
	ended        bool
}

func (s *span) SetAttributes(all ...attribute.KeyValue) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	for _, a := range all {
		s.said[string(a.Key)] = a.Value.AsString()
	}
}

func (s *span) SetStatus(code codes.Code, _ string) { s.status = code }

func (s *span) End(...trace.SpanEndOption) { s.ended = true }

// TestStepsAreSpans of the trace that the call belongs to, one for each step, and none is left open.
func TestStepsAreSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, newWorld(fresh()))
		ctx := trace.ContextWithSpan(t.Context(), &span{p: s.spans, name: "call"})
		if out, err := s.Do(ctx, s.goal(plan.Provision)); err != nil || out.Step.Action != plan.Done {
			t.Fatalf("%v, %+v", err, out.Step)
		}
		var got, want []string
		for _, action := range []plan.Action{
			plan.CreateWorkloadFence, plan.CreateSupervisorFence, plan.CreateService, plan.CreateSupervisor, plan.Resume, plan.Write,
			plan.MakeSecrets, plan.UngateSupervisor, plan.UngateWorkload, plan.Write,
		} {
			want = append(want, "step "+action.String())
		}
		said := map[string]string{attributeGoal: "provision", attributeNamespace: namespace, attributeSandbox: boxName, attributeResult: resultDone}
		for _, span := range s.spans.taken() {
			if span.name != "step "+plan.Await.String() {
				got = append(got, span.name)
			}
			if diff := cmp.Diff(said, span.said); diff != "" || !span.ended || span.parent != "call" || span.status != codes.Unset {
				t.Errorf("%s under %q, ended %t, status %s (-want +got):\n%s", span.name, span.parent, span.ended, span.status, diff)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("spans (-want +got):\n%s", diff)
		}
	})
}

// TestSpansSayHowAStepEnded, without the cluster's words, and there are spans of what the loop does, which no call is around.
func TestSpansSayHowAStepEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		result string
		status codes.Code
	}{
		"refused": {fmt.Errorf("%w: hush", cluster.ErrRefused), resultRefused, codes.Error},
		"failed":  {errors.New("hush"), resultFailed, codes.Error},
		"moved":   {cluster.ErrConflict, resultMoved, codes.Unset},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, newWorld(fresh()))
			s.do(s.goal(plan.Provision))
			s.world.change(func(w *world) { w.end(boxName) })
			s.world.before = always("delete pod", tc.err)
			before := len(s.spans.taken())
			if _, err := s.Do(t.Context(), Goal{Want: plan.Want{Goal: plan.Keep, Ref: theRef()}}); err != nil {
				t.Fatal(err)
			}
			for _, span := range s.spans.taken()[before:] {
				if span.name != "step delete-supervisor" {
					continue
				}
				if span.said[attributeResult] != tc.result || span.said[attributeGoal] != "keep" || span.status != tc.status || !span.ended || strings.Contains(fmt.Sprint(span.said), "hush") {
					t.Errorf("%s: %v, status %s, ended %t", name, span.said, span.status, span.ended)
				}
				return
			}
			t.Errorf("%s: the loop's step has no span", name)
		})
	}
}
