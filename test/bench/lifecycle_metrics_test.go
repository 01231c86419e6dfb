package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// series are the samples of one metric that a daemon shows, by their labels.
func series(b *testing.B, admin, metric string) map[string]float64 {
	b.Helper()
	text, err := fetch(b.Context(), "http://"+admin+"/metrics")
	if err != nil {
		b.Fatal(err)
	}
	found := map[string]float64{}
	for line := range bytes.Lines(text) {
		labels, value, ok := strings.Cut(strings.TrimSpace(string(line)), "} ")
		labels, isIt := strings.CutPrefix(labels, metric+"{")
		if !ok || !isIt {
			continue
		}
		if found[labels], err = strconv.ParseFloat(value, 64); err != nil {
			b.Fatal(err)
		}
	}
	return found
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", url, answer.Status, text)
	}
	return text, err
}

// profile begins to write what createProfiles asks for; finish waits until that is done.
func (d *duel) profile() (finish func()) {
	if *createProfiles == "" {
		return func() {}
	}
	var running sync.WaitGroup
	for _, daemon := range spenders {
		admin := d.site.Mesh.Admin(daemon)
		running.Go(func() {
			text, err := fetch(d.b.Context(), "http://"+admin+"/debug/pprof/profile?seconds=20")
			if err == nil {
				err = os.WriteFile(filepath.Join(*createProfiles, daemon+".pprof"), text, 0o600)
			}
			if err != nil {
				d.b.Error(err)
			}
		})
	}
	return running.Wait
}

// steps is how long the steps of a call have taken so far, in seconds, and how many of each there were.
type steps struct{ seconds, count map[string]float64 }

func stepsOf(b *testing.B, admin string) steps {
	b.Helper()
	const metric = "portcullis_lifecycle_step_seconds"
	return steps{seconds: series(b, admin, metric+"_sum"), count: series(b, admin, metric+"_count")}
}

// since is the mean of each step between two readings, as a row of a table.
func (s steps) since(before steps) string {
	var parts []string
	for _, labels := range slices.Sorted(maps.Keys(s.count)) {
		n := s.count[labels] - before.count[labels]
		if _, step, ok := strings.Cut(labels, `step="`); ok && n > 0 && strings.Contains(labels, "Create") {
			parts = append(parts, fmt.Sprintf("%s %.1f ms", strings.TrimSuffix(step, `"`), 1000*(s.seconds[labels]-before.seconds[labels])/n))
		}
	}
	return strings.Join(parts, ", ")
}

// spending is what lifecycle and supervisorctl have used so far.
type spending [2]struct {
	processor time.Duration
	requests  float64 // to the API server
}

var spenders = [...]string{mesh.Lifecycle, mesh.Supervisorctl}

func (d *duel) spent() (s spending) {
	d.b.Helper()
	for n, daemon := range spenders {
		s[n].processor = (&field{b: d.b}).cpu(d.site.Mesh.Process(daemon).PID())
		for _, requests := range series(d.b, d.site.Mesh.Admin(daemon), "portcullis_kube_client_requests_total") {
			s[n].requests += requests
		}
	}
	return s
}

// each is what was used for each of some calls since an earlier reading, in words.
func (s spending) each(since spending, calls int) string {
	var parts []string
	for n, daemon := range spenders {
		parts = append(parts, fmt.Sprintf("%s %.1f ms of a processor and %.1f requests", daemon,
			ms(s[n].processor-since[n].processor)/float64(calls), (s[n].requests-since[n].requests)/float64(calls)))
	}
	return strings.Join(parts, ", ")
}
