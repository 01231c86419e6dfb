package labelsource

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// patience of the tests bounds every wait; nothing is expected to take nearly so long.
const testPatience = 60 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// selectAll is the rule of the list without refused names.
type selectAll struct{}

func (selectAll) Apply(candidates []allowlist.Candidate) allowlist.List {
	list, _ := allowlist.Select(candidates, allowlist.Refusals{})
	return list
}

// seldom lists by itself only at the start; the rest is up to the test. Its requests may take minutes.
var seldom = Config{Selector: "a=b", LabelRelist: time.Hour, SourceMaxAge: 2 * time.Hour}

// often lists all the time, and gives a request a fraction of a second.
var often = Config{Selector: "a=b", LabelRelist: 20 * time.Millisecond, SourceMaxAge: 2 * time.Second}

// rig is a running source with what it reports.
type rig struct {
	*testing.T
	api    *apiServer
	source *Source
	reg    *prometheus.Registry
	log    *logBuffer
	relist chan struct{}
	stop   func()

	mu      sync.Mutex
	reports []allowlist.Input
	wake    chan struct{}
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newRig(t *testing.T, api *apiServer, cfg Config) *rig {
	t.Helper()
	r := &rig{T: t, api: api, reg: prometheus.NewRegistry(), log: &logBuffer{}, relist: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	source, err := New(cfg, api.clients(prometheus.NewRegistry()), selectAll{}, allowkv.NewClock(), zerolog.New(r.log), r.reg)
	if err != nil {
		t.Fatal(err)
	}
	r.source = source
	return r
}

// run starts the source, which ends with the test or with stop.
func (r *rig) run() *rig {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.source.Run(ctx, r.relist, r.take) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				r.Errorf("Run: %v", err)
			}
		case <-time.After(testPatience):
			r.Error("Run does not end")
		}
	})
	r.Cleanup(r.stop)
	return r
}

func start(t *testing.T, api *apiServer, cfg Config) *rig {
	t.Helper()
	return newRig(t, api, cfg).run()
}

func (r *rig) take(in allowlist.Input) {
	r.mu.Lock()
	r.reports = append(r.reports, in)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// next waits for the first report from the given one on that fits, and returns it with the number of the one after.
func (r *rig) next(from int, what string, fits func(allowlist.Input) bool) (allowlist.Input, int) {
	r.Helper()
	limit := time.After(testPatience)
	for {
		r.mu.Lock()
		seen := slices.Clone(r.reports)
		r.mu.Unlock()
		for i := from; i < len(seen); i++ {
			if fits(seen[i]) {
				return seen[i], i + 1
			}
		}
		select {
		case <-r.wake:
		case <-limit:
			r.Fatalf("no report: %s. Reports: %+v\nlog:\n%s", what, seen[max(0, len(seen)-20):], r.log)
		}
	}
}

func (r *rig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.reports)
}

// wantList waits for a list of exactly these names.
func (r *rig) wantList(from int, names ...string) (allowlist.Listed, int) {
	r.Helper()
	in, after := r.next(from, fmt.Sprintf("list of %v", names), func(in allowlist.Input) bool {
		listed, ok := in.(allowlist.Listed)
		return ok && slices.Equal(namesOf(listed.List), names)
	})
	return in.(allowlist.Listed), after
}

// wantProof waits for a proof by a list.
func (r *rig) wantProof(from int) int {
	r.Helper()
	_, after := r.next(from, "proof by a list", func(in allowlist.Input) bool {
		switch in := in.(type) {
		case allowlist.Listed:
			return in.Kind == allowlist.ProofList
		case allowlist.Proved:
			return in.Kind == allowlist.ProofList
		default:
			return false
		}
	})
	return after
}

// wantFailure waits for a failure with all these words.
func (r *rig) wantFailure(from int, words ...string) int {
	r.Helper()
	_, after := r.next(from, fmt.Sprintf("failure with %q", words), func(in allowlist.Input) bool {
		failed, ok := in.(allowlist.SourceFailed)
		return ok && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(failed.Err.Error(), w) })
	})
	return after
}

// until waits for a condition of the server or the metrics.
func (r *rig) until(what string, holds func() bool) {
	r.Helper()
	for limit := time.Now().Add(testPatience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(limit) {
			r.Fatalf("never: %s\nlog:\n%s", what, r.log)
		}
	}
}

func (r *rig) wish() { r.relist <- struct{}{} }

// orders checks what no script may bring about: that an order goes down, or that a proof is from the future.
func (r *rig) orders() {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	last := uint64(0)
	for _, in := range r.reports {
		if l, ok := in.(allowlist.Listed); ok {
			if l.Order < last || l.Version != version(l.Order) {
				r.Errorf("order %d, version %s after order %d", l.Order, l.Version, last)
			}
			last = l.Order
		}
	}
}

// metric reads one series, by name and label value.
func (r *rig) metric(name, label string) float64 {
	r.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "portcullis_nswatch_"+name {
			continue
		}
		for _, m := range family.GetMetric() {
			if label == "" || len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	r.Fatalf("there is no metric %s with %q", name, label)
	return 0
}

func namesOf(l allowlist.List) []string {
	var names []string
	for e := range l.All() {
		names = append(names, e.Name)
	}
	return names
}

func TestListsWatchesAndFollows(t *testing.T) {
	r := start(t, startAPI(t, "b", "a"), seldom)
	first, n := r.wantList(0, "a", "b")
	if first.Order != 100 || first.Kind != allowlist.ProofList {
		t.Errorf("the first report is %+v", first)
	}
	if e, _ := first.List.Lookup("a"); e.UID != "uid-a" {
		t.Errorf("the uid is %q", e.UID)
	}
	r.until("watch", func() bool { return r.metric("label_watch_starts_total", "") == 1 })
	r.api.put("c", false)
	added, n := r.wantList(n, "a", "b", "c")
	if added.Order != 103 || added.Kind != allowlist.ProofWatch || added.ProvenAt <= first.ProvenAt {
		t.Errorf("the report of an added namespace is %+v", added)
	}
	r.api.drop("a")
	_, n = r.wantList(n, "b", "c")
	r.wish()
	if again, _ := r.wantList(n, "b", "c"); again.Kind != allowlist.ProofList || again.Order != 106 {
		t.Errorf("a wish is answered by %+v", again)
	}
	r.orders()
	if got := r.metric("label_namespaces", ""); got != 2 {
		t.Errorf("the gauge shows %v namespaces", got)
	}
	if r.metric("label_last_success_timestamp_seconds", "") == 0 || r.metric("label_list_duration_seconds", "") != 2 {
		t.Error("the lists are not in the metrics")
	}
}

func TestAsksOnlyForWhatItMayAndNeverForACachedList(t *testing.T) {
	r := start(t, startAPI(t, "a"), often)
	n := r.wantProof(0)
	for range 3 {
		n = r.wantProof(n)
	}
	r.until("watch", func() bool { _, _, watches, _ := r.api.seen(); return watches > 0 })
	_, _, _, requests := r.api.seen()
	for _, q := range requests {
		query := q.URL.Query()
		if q.Method != http.MethodGet || q.URL.Path != "/api/v1/namespaces" || query.Get("labelSelector") != "a=b" {
			t.Errorf("request %s %s", q.Method, q.URL)
		}
		if !strings.Contains(q.Header.Get("Accept"), "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata") {
			t.Errorf("accepts %s", q.Header.Get("Accept"))
		}
		if query.Get("watch") == "" {
			if query.Has("resourceVersion") || query.Has("resourceVersionMatch") || query.Has("limit") {
				t.Errorf("a list is asked for with %s", q.URL.RawQuery)
			}
			continue
		}
		seconds, err := time.ParseDuration(query.Get("timeoutSeconds") + "s")
		if query.Get("resourceVersion") != "100" || query.Get("allowWatchBookmarks") != "true" || err != nil || seconds < leastWatch || seconds > mostWatch {
			t.Errorf("a watch is asked for with %s", q.URL.RawQuery)
		}
	}
}

func TestRefusesSelectorsThatLeaveTheChoiceToNobody(t *testing.T) {
	api := startAPI(t)
	for _, c := range []struct{ name, selector, says string }{
		{"empty", "", "selects namespaces that nobody labelled"},
		{"blank", "  ", "selects namespaces that nobody labelled"},
		{"excludes", "a!=b", "selects namespaces that nobody labelled"},
		{"excludes a label", "!a", "selects namespaces that nobody labelled"},
		{"what every namespace has", "kubernetes.io/metadata.name", "selects namespaces that nobody labelled"},
		{"no selector", "a=b=c", "is not a label selector"},
		{"open set", "a in (b", "is not a label selector"},
		{"too long", "a in (b" + strings.Join(long(80), "") + ")", "at most 4096"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := seldom
			cfg.Selector = c.selector
			_, err := New(cfg, api.clients(prometheus.NewRegistry()), selectAll{}, allowkv.NewClock(), zerolog.Nop(), prometheus.NewRegistry())
			if err == nil || !strings.Contains(err.Error(), "openshell.drivers.kubernetes.operator_namespace_label") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v, want one that names the setting and says %q", err, c.says)
			}
		})
	}
}

// long are n more values of a set.
func long(n int) []string {
	var values []string
	for i := range n {
		values = append(values, fmt.Sprintf(",%s%d", strings.Repeat("v", 58), i))
	}
	return values
}

func TestRefusesWhatItCannotWorkWith(t *testing.T) {
	api := startAPI(t)
	clients := api.clients(prometheus.NewRegistry())
	contradiction := seldom
	contradiction.SourceMaxAge = contradiction.LabelRelist
	for name, build := range map[string]func() (*Source, error){
		"no clients": func() (*Source, error) {
			return New(seldom, nil, selectAll{}, allowkv.NewClock(), zerolog.Nop(), prometheus.NewRegistry())
		},
		"no selection": func() (*Source, error) {
			return New(seldom, clients, nil, allowkv.NewClock(), zerolog.Nop(), prometheus.NewRegistry())
		},
		"no clock": func() (*Source, error) {
			return New(seldom, clients, selectAll{}, nil, zerolog.Nop(), prometheus.NewRegistry())
		},
		"no registerer": func() (*Source, error) {
			return New(seldom, clients, selectAll{}, allowkv.NewClock(), zerolog.Nop(), nil)
		},
		"relist as long as the proof": func() (*Source, error) {
			return New(contradiction, clients, selectAll{}, allowkv.NewClock(), zerolog.Nop(), prometheus.NewRegistry())
		},
	} {
		if s, err := build(); err == nil || s != nil {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

func TestRunsAgainAndOnlyOnceAtATime(t *testing.T) {
	api := startAPI(t, "a")
	r := start(t, api, seldom)
	_, n := r.wantList(0, "a")
	if err := r.source.Run(t.Context(), nil, r.take); err == nil {
		t.Error("it runs twice at a time")
	}
	r.stop()
	api.put("b", false)
	r.run()
	if l, _ := r.wantList(n, "a", "b"); l.Kind != allowlist.ProofList {
		t.Errorf("the first report of the second run is %+v", l)
	}
	r.orders()
}
