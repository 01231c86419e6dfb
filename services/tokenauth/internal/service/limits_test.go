package service_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// refusesAsTooMany demands the refusal of a call beyond a limit, which is named.
func refusesAsTooMany(t *testing.T, got answer, limit string) {
	t.Helper()
	d, _ := verdict.FromError(got.err)
	if status.Code(got.err) != codes.ResourceExhausted || d.Reason != verdict.TooManyCalls || !d.Retryable() || !strings.Contains(d.Explanation, limit) {
		t.Errorf("%v: %+v", got.err, d)
	}
}

// TestOneBearerCannotTakeAllRoom: calls that only wait for the decision about one credential leave room for others, and
// the same credential for another gateway is another bearer.
func TestOneBearerCannotTakeAllRoom(t *testing.T) {
	settings := service.DefaultSettings()
	settings.MaxConcurrent, settings.MaxConcurrentPerBearer = 6, 3
	h := newHanging()
	f := serve(t, settings, h, nil)
	c := f.client("lifecycle")
	waiting := []<-chan answer{call(t.Context(), c, "greedy")}
	get(t, h.begun)
	for i := range 2 {
		waiting = append(waiting, call(t.Context(), c, "greedy"))
		commandtest.Eventually(t, "the call is in", func() bool { return f.gauge("portcullis_tokenauth_calls_in_progress") == float64(i+2) })
	}
	for range 10 {
		refusesAsTooMany(t, get(t, call(t.Context(), c, "greedy")), "max_concurrent_per_bearer")
	}
	waiting = append(waiting, call(t.Context(), c, "modest"), callFor(t.Context(), c, "b", "greedy"))
	get(t, h.begun)
	get(t, h.begun)
	close(h.let)
	for _, w := range waiting {
		if got := get(t, w); got.err != nil {
			t.Error(got.err)
		}
	}
	if got := get(t, call(t.Context(), c, "greedy")); got.err != nil {
		t.Errorf("there is room again: %v", got.err)
	}
}

// TestTheDefaultsRefuseBeforeTheTransportWaits: a connection has room for one call more than the limits, so that the one
// beyond gets an answer; and one caller may have all, since there is only one.
func TestTheDefaultsRefuseBeforeTheTransportWaits(t *testing.T) {
	s := service.DefaultSettings()
	if streams := meshrpc.DefaultConfig().MaxConcurrentStreams; s.MaxConcurrent >= streams {
		t.Errorf("%d calls at once, %d streams", s.MaxConcurrent, streams)
	}
	s.MaxConcurrent, s.MaxConcurrentPerBearer = 2, 1
	h := newHanging()
	f := serve(t, s, h, nil)
	c := f.client("lifecycle")
	waiting := []<-chan answer{call(t.Context(), c, "a"), call(t.Context(), c, "b")}
	get(t, h.begun)
	get(t, h.begun)
	refusesAsTooMany(t, get(t, call(t.Context(), c, "c")), "max_concurrent allows")
	close(h.let)
	for _, w := range waiting {
		get(t, w)
	}
}

func TestTooManyCalls(t *testing.T) {
	settings := service.DefaultSettings()
	settings.MaxConcurrent, settings.MaxConcurrentPerCaller = 3, 2
	h := newHanging()
	f := serve(t, settings, h, nil)
	one, two := f.client("lifecycle"), f.client("supervisorctl")
	refuses := func(got answer, which string) { t.Helper(); refusesAsTooMany(t, got, which) }
	if spec, _ := verdict.TooManyCalls.Spec(); spec.Outcome != verdict.Unknown {
		t.Errorf("nothing was looked at, and that is called %s", spec.Outcome)
	}
	waiting := []<-chan answer{call(t.Context(), one, "a"), call(t.Context(), one, "b")}
	get(t, h.begun)
	get(t, h.begun)
	refuses(get(t, call(t.Context(), one, "c")), "max_concurrent_per_caller")
	waiting = append(waiting, call(t.Context(), two, "d"))
	get(t, h.begun)
	refuses(get(t, call(t.Context(), two, "e")), "max_concurrent allows")
	if n := f.gauge("portcullis_tokenauth_calls_in_progress"); n != 3 {
		t.Errorf("%v calls are in progress", n)
	}
	close(h.let)
	for _, w := range waiting {
		if got := get(t, w); got.err != nil {
			t.Error(got.err)
		}
	}
	if got := get(t, call(t.Context(), one, "f")); got.err != nil {
		t.Errorf("there is room again: %v", got.err)
	}
}
