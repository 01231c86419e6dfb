package app_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/workspaces"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

var update = flag.Bool("update", false, "write the tables of docs/lifecycle.md anew; what a person has written in their last columns stays")

const (
	repository = "../../../../"
	docs       = repository + "docs/lifecycle.md"
	sources    = repository + "services/lifecycle/internal"
	manifests  = repository + "deploy/kustomize/base/lifecycle/"
)

// table is one of the document: what the program says and, unless it is whole, a last column by a person, which every row must have.
// Rows are known by their first cell.
type table struct {
	head  []string
	rows  [][]string
	whole bool
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// written are the last columns of a table in the document, by the first ones.
func written(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		all := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		found[strings.TrimSpace(all[0])] = strings.TrimSpace(all[len(all)-1])
	}
	return found
}

func (w *table) render(byHand map[string]string) string {
	var b strings.Builder
	line := func(all []string) { b.WriteString("| " + strings.Join(all, " | ") + " |\n") }
	line(w.head)
	line(slices.Repeat([]string{"---"}, len(w.head)))
	for _, row := range w.rows {
		if !w.whole {
			row = append(slices.Clone(row), byHand[row[0]])
		}
		line(row)
	}
	return b.String()
}

// TestDocsSayWhatTheProgramSays: every table is the program's, and nothing in it is left unexplained.
func TestDocsSayWhatTheProgramSays(t *testing.T) {
	text := read(t, docs)
	for name, want := range map[string]table{
		"settings": settingsTable(t, "lifecycle"), "relay settings": settingsTable(t, "relay"), "stock settings": stockTable(), "modes": modesTable(t),
		"answers": answersTable(t), "supervisorctl": passedTable(t, "supervisorctl"), "tokenauth": passedTable(t, "tokenauth"),
		"steps": stepsTable(t), "limits": limitsTable(t), "readiness": readinessTable(t), "metrics": metricsTable(t),
		"lines": linesTable(t), "fields": fieldsTable(t), "rights": rightsTable(t),
	} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
		before, rest, _ := strings.Cut(text, begin)
		got, after, ok := strings.Cut(rest, end)
		if !ok {
			t.Fatalf("%s has no place for the %s", docs, name)
		}
		if len(want.rows) == 0 {
			t.Errorf("the program has no %s", name)
		}
		byHand, seen := written(got), map[string]bool{}
		for _, row := range want.rows {
			if !want.whole && seen[row[0]] {
				t.Errorf("two rows of the %s begin with %s", name, row[0])
			}
			if seen[row[0]] = true; !want.whole && byHand[row[0]] == "" {
				t.Errorf("nobody has written about %s of the %s", row[0], name)
			}
		}
		if *update {
			text = before + begin + want.render(byHand) + end + after
			continue
		}
		if diff := gocmp.Diff(want.render(byHand), got); diff != "" {
			t.Errorf("the %s in %s are not those of the program; -update writes them anew:\n%s", name, docs, diff)
		}
	}
	if *update {
		if err := os.WriteFile(docs, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// modesTable is where a sandbox box of a workspace team is.
func modesTable(t *testing.T) table {
	t.Helper()
	w := table{head: []string{"Mode", "Namespace of workspace `team`", "Sandbox object of `box`", "The namespace"}}
	for _, mode := range []driverconf.Mode{driverconf.ModeShared, driverconf.ModeManaged, driverconf.ModeOperator} {
		scheme := workspace.Scheme{Mode: mode, GatewayID: "blue", Namespace: "sandboxes"}
		namespace, err1 := scheme.NamespaceOf("team")
		name, err2 := scheme.SandboxName("team", "box")
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		w.rows = append(w.rows, []string{"`" + string(mode) + "`", "`" + namespace + "`", "`" + name + "`"})
	}
	return w
}

// scanned are the matches of a pattern in the sources of lifecycle, in the order of files, each with the name of its package.
func scanned(t *testing.T, directory string, pattern *regexp.Regexp) (found []match) {
	t.Helper()
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range pattern.FindAllStringSubmatch(read(t, path), -1) {
			found = append(found, match{filepath.Base(filepath.Dir(path)), m})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

type match struct {
	in     string
	groups []string
}

// stepsTable are the steps that are timed.
func stepsTable(t *testing.T) table {
	t.Helper()
	w := table{head: []string{"Step", "Is"}}
	for _, m := range scanned(t, sources+"/driver", regexp.MustCompile(`\.step\((?:call(\w+)|in), "(\w+)"\)`)) {
		of := []string{m.groups[1]}
		if m.groups[1] == "" { // of whichever of the two has it called
			of = []string{"Create", "Start"}
		}
		for _, call := range of {
			w.rows = append(w.rows, []string{"`" + call + "Sandbox` `" + m.groups[2] + "`"})
		}
	}
	slices.SortStableFunc(w.rows, func(a, b []string) int { // by call; the sources have the steps of one in their order
		of := func(row []string) int {
			rpc, _, _ := strings.Cut(strings.Trim(row[0], "`"), "`")
			return slices.Index(rpcs, rpc)
		}
		return of(a) - of(b)
	})
	return w
}

// limitsTable are bounds that no setting changes.
func limitsTable(t *testing.T) table {
	t.Helper()
	w := table{head: []string{"What", "Limit", "Then"}}
	constant := func(in, name string) string {
		found := scanned(t, sources+"/"+in, regexp.MustCompile(`(?m)^(?:\t|const )`+name+` += ([^/\n]+?)(?: // .*)?$`))
		if len(found) != 1 {
			t.Fatalf("package %s has %d constants %s", in, len(found), name)
		}
		return strings.NewReplacer(" * time.Second", " s", "2 * time.Minute", "120 s", "time.Minute", "60 s", " << 20", " MiB", " << 10", " KiB").Replace(found[0].groups[1])
	}
	for _, l := range [][2]string{
		{"a message of the gateway", constant("app", "maxMessageBytes")},
		{"an answer to it", constant("relay", "MaxAnswerBytes")},
		{"calls and streams on one connection", constant("app", "maxStreams")},
		{"a credential", constant("driver", "maxCredential")},
		{"a failed create deletes its Sandbox", constant("driver", "undoLimit")},
		{"a delete waits for the workload Pod", constant("driver", "podLimit")},
		{"a stop or a start waits for the view to show it", constant("driver", "settleLimit")},
		{"OpenShift's allocator is awaited", fmt.Sprintf("%g s", workspaces.AllocationWait.Seconds())},
		{"each sandbox is told again", constant("observe", "republishEvery")},
		{"the view counts as current without a watch", constant("observe", "brokenGrace")},
		{"a list of the cluster", constant("observe", "listLimit")},
	} {
		w.rows = append(w.rows, []string{l[0], l[1]})
	}
	return w
}

// readinessTable are the checks of both processes, as they run in operator mode, in which there are all.
func readinessTable(t *testing.T) table {
	t.Helper()
	s := newSite(t)
	w, in := table{head: []string{"Check", "Process", "Not ready while"}}, map[string][]string{}
	var order []string
	list := func(process, answer string) {
		for _, m := range regexp.MustCompile(`(?m)^\[[-+]\] ([a-z]+): `).FindAllStringSubmatch(answer, -1) {
			if in[m[1]] == nil {
				order = append(order, m[1])
			}
			in[m[1]] = append(in[m[1]], process)
		}
	}
	lifecycle := s.start("--config", s.settings("operator", `http_address = "127.0.0.1:0"`), "--log-level", "debug")
	lifecycle.line("serving the driver")
	list("lifecycle", lifecycle.get("/readyz?verbose"))
	lifecycle.stop()
	relay := s.start("relay", "--config", write(t, s.dir, "relay.toml", s.stock("operator")+"[portcullis.relay]\nhttp_address = \"127.0.0.1:0\"\nlifecycle_address = \"127.0.0.1:1\"\n"), "--log-level", "debug")
	relay.line("serving the driver")
	list("relay", relay.get("/readyz?verbose"))
	for _, check := range order {
		w.rows = append(w.rows, []string{"`" + check + "`", strings.Join(in[check], ", ")})
	}
	return w
}

// names records what is registered.
type names struct {
	prometheus.Registerer
	all map[string][]string
}

var described = regexp.MustCompile(`fqName: "([a-z_]+)".*variableLabels: \{([^}]*)\}`)

func (n *names) Register(c prometheus.Collector) error {
	if err := n.Registerer.Register(c); err != nil {
		return err
	}
	descs := make(chan *prometheus.Desc)
	go func() { c.Describe(descs); close(descs) }()
	for d := range descs {
		if m := described.FindStringSubmatch(d.String()); m != nil {
			n.all[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return nil
}

// registered are lifecycle's own metrics with their labels, also those that have no value before something happens.
func registered(t *testing.T) map[string][]string {
	t.Helper()
	reg := &names{prometheus.NewRegistry(), map[string][]string{}}
	answering(t, nil, reg)
	observing(t, zerolog.Nop(), reg)
	return reg.all
}

func metricsTable(t *testing.T) table {
	t.Helper()
	w, all := table{head: []string{"Metric", "Labels", "Is"}}, registered(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		labels := make([]string, 0, len(all[name]))
		for _, label := range all[name] {
			labels = append(labels, "`"+label+"`")
		}
		w.rows = append(w.rows, []string{"`" + name + "`", cmp.Or(strings.Join(labels, ", "), "–")})
	}
	return w
}

// TestDocsSpeakOfMetricsThatThereAre: also those of the packages that daemons share.
func TestDocsSpeakOfMetricsThatThereAre(t *testing.T) {
	s := newSite(t)
	p := s.start("--config", s.settings("operator", `http_address = "127.0.0.1:0"`), "--log-level", "debug")
	p.line("serving the driver")
	served, own := p.get("/metrics"), registered(t)
	for _, name := range regexp.MustCompile(`portcullis_[a-z_]+[a-z]`).FindAllString(read(t, docs), -1) {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
		if own[name] == nil && own[base] == nil && !strings.Contains(served, "# TYPE "+name+" ") && !strings.Contains(served, "# TYPE "+base+" ") {
			t.Errorf("the documentation speaks of %s, which there is not", name)
		}
	}
}

// linesTable are lifecycle's own log lines: a level is that of the call nearest before the text.
func linesTable(t *testing.T) table {
	t.Helper()
	w := table{head: []string{"Message", "Level", "Means"}}
	for _, m := range scanned(t, sources, regexp.MustCompile(`(?s)\.(Info|Warn|Error)\(\)((?:.{0,400}?)\bMsg\("([^"]+)"\))`)) {
		level := m.groups[1]
		if later := regexp.MustCompile(`\.(Info|Warn|Error)\(\)`).FindAllStringSubmatch(m.groups[2], -1); later != nil {
			level = later[len(later)-1][1]
		}
		if m.groups[3] == "refused" {
			level = "Info, or Warn where it is not known"
		}
		w.rows = append(w.rows, []string{m.groups[3], strings.ToLower(level)})
	}
	slices.SortFunc(w.rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	if want := len(scanned(t, sources, regexp.MustCompile(`\bMsg\("`))); want != len(w.rows) {
		t.Errorf("%d of %d log lines are found", len(w.rows), want)
	}
	return w
}

// fieldsTable are the keys of these lines, and those of every line.
func fieldsTable(t *testing.T) table {
	t.Helper()
	w := table{head: []string{"Field", "In lines of", "Is"}}
	s := newSite(t)
	p := s.start("--config", s.settings("operator", `http_address = "127.0.0.1:0"`))
	for _, key := range []string{"time", "level", "daemon", "component", "message"} {
		if p.line("serving the driver")[key] == nil {
			t.Errorf("a line has no %s", key)
		}
		w.rows = append(w.rows, []string{"`" + key + "`", "all"})
	}
	in := map[string]map[string]bool{}
	add := func(key, component string) {
		if in[key] == nil {
			in[key] = map[string]bool{}
		}
		in[key][component] = true
	}
	components := map[string]string{"driver": "driver", "observe": "view", "workspaces": "workspaces", "app": "socket, relays"}
	for _, m := range scanned(t, sources, regexp.MustCompile(`\bkey[A-Z]\w* += "([a-z_]+)"`)) {
		add(m.groups[1], components[m.in])
	}
	shared := map[string]string{}
	for _, m := range scanned(t, repository+"shared/telemetry", regexp.MustCompile(`(?m)^\t(Key\w+) += "(\w+)"`)) {
		shared[m.groups[1]] = m.groups[2]
	}
	for _, m := range scanned(t, sources, regexp.MustCompile(`telemetry\.(Key\w+)`)) {
		add(shared[m.groups[1]], components[m.in])
	}
	for _, m := range scanned(t, sources, regexp.MustCompile(`\.(Err)\(err\)\.|\.(?:AnErr|Bool|Str)\("(\w+)"`)) {
		add(cmp.Or(m.groups[2], "error"), components[m.in])
	}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		w.rows = append(w.rows, []string{"`" + key + "`", strings.Join(slices.Sorted(maps.Keys(in[key])), ", ")})
	}
	return w
}

// rightsTable is the manifests', which test/lifecycle holds against what the daemon asks for.
func rightsTable(t *testing.T) table {
	t.Helper()
	w := table{head: []string{"Resource", "Group", "Verbs", "For"}}
	for _, file := range []string{"rbac.yaml", "managed.yaml"} {
		documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(read(t, manifests+file)), 4096)
		for {
			var role rbacv1.ClusterRole // other objects have no rules
			if err := documents.Decode(&role); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					name := "`" + resource + "`"
					if len(rule.ResourceNames) > 0 {
						name += " by name"
					}
					if file == "managed.yaml" {
						name += ", managed mode"
					}
					w.rows = append(w.rows, []string{name, cmp.Or(rule.APIGroups[0], "core"), strings.Join(rule.Verbs, ", ")})
				}
			}
		}
	}
	return w
}
