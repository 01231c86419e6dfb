package handbook

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics is a registry that knows what was registered, also what has no value before something happens. Make it with NewMetrics.
type Metrics struct {
	prometheus.Registerer
	// Labels are those of each metric, in their order.
	Labels map[string][]string
}

// NewMetrics makes an empty one.
func NewMetrics() *Metrics { return &Metrics{prometheus.NewRegistry(), map[string][]string{}} }

var described = regexp.MustCompile(`fqName: "([a-z_]+)".*variableLabels: \{([^}]*)\}`)

// Register also notes the names.
func (m *Metrics) Register(c prometheus.Collector) error {
	if err := m.Registerer.Register(c); err != nil {
		return err
	}
	descs := make(chan *prometheus.Desc)
	go func() { c.Describe(descs); close(descs) }()
	for d := range descs {
		if found := described.FindStringSubmatch(d.String()); found != nil {
			m.Labels[found[1]] = strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return nil
}

// Table are the metrics with their labels.
func (m *Metrics) Table() Table {
	w := Table{Head: []string{"Metric", "Labels", "Is"}}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		labels := make([]string, 0, len(m.Labels[name]))
		for _, label := range m.Labels[name] {
			labels = append(labels, "`"+label+"`")
		}
		w.Rows = append(w.Rows, []string{"`" + name + "`", cmp.Or(strings.Join(labels, ", "), "–")})
	}
	return w
}

// DemandMetrics demands that a document speaks of no metric that there is not: neither among those registered nor in what the daemon
// serves.
func (m *Metrics) DemandMetrics(t testing.TB, document, served string) {
	t.Helper()
	there := func(name string) bool {
		_, registered := m.Labels[name]
		return registered || strings.Contains(served, "# TYPE "+name+" ")
	}
	for _, name := range regexp.MustCompile(`portcullis_[a-z_]+[a-z]`).FindAllString(Read(t, document), -1) {
		base := name
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if !there(name) && !there(base) {
			t.Errorf("%s speaks of %s, which there is not", document, name)
		}
	}
}
