package app_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/yaml"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/reconcile"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/leadership"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

var update = flag.Bool("update", false, "write the tables of docs/supervisorctl.md anew; what a person has written in their last columns stays")

const (
	repository = "../../../../"
	docs       = repository + "docs/supervisorctl.md"
	manifest   = repository + "deploy/kustomize/base/supervisorctl/rbac.yaml"
	granted    = repository + "test/supervisor/rights.go"
)

// table is one of the document: what the program says, and a last column by a person, which every row must have.
type table struct {
	head []string
	rows [][]string
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// cells are those of a row.
func cells(line string) []string {
	parts := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// written are the last columns of a table in the document, by what comes before them.
func written(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if all := cells(line); len(all) > 1 {
			found[all[0]] = all[len(all)-1]
		}
	}
	return found
}

func (w *table) render(byHand map[string]string) string {
	var b strings.Builder
	line := func(all []string) { b.WriteString("| " + strings.Join(all, " | ") + " |\n") }
	line(w.head)
	line(slices.Repeat([]string{"---"}, len(w.head)))
	for _, row := range w.rows {
		line(append(slices.Clone(row), byHand[row[0]]))
	}
	return b.String()
}

// TestDocsSayWhatTheProgramSays: settings, reasons, rights, metrics and limits are the program's, and nothing is left unexplained.
func TestDocsSayWhatTheProgramSays(t *testing.T) {
	text := read(t, docs)
	for name, want := range map[string]table{
		"settings": settingsTable(t), "reasons": reasonsTable(t), "rights": rightsTable(t), "metrics": metricsTable(t), "limits": limitsTable(t),
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
		byHand := written(got)
		for _, row := range want.rows {
			if byHand[row[0]] == "" {
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

// settingsTable are the keys of the daemon's section with their defaults, as config check prints them.
func settingsTable(t *testing.T) table {
	t.Helper()
	s := newSite(t)
	got := run(t.Context(), "config", "check", "--config", s.settings("http_address = \"127.0.0.1:0\"\n", "", "listen_address = \"127.0.0.1:0\"\n", "", "lease_namespace = \"mesh\"\n", ""))
	_, rest, _ := strings.Cut(got.stdout, "\n[portcullis.supervisorctl]\n")
	section, _, _ := strings.Cut(rest, "\n\n")
	w := table{head: []string{"Key", "Default", "Decides"}}
	for line := range strings.Lines(section) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		value, isDefault := strings.CutSuffix(value, " # default")
		if !ok || !isDefault {
			t.Fatalf("%q is no key with its default", line)
		}
		w.rows = append(w.rows, []string{"`" + key + "`", "`" + value + "`"})
	}
	return w
}

// reasonsTable has every reason that the sources of the daemon name, in the registry's order, and those that the mesh gives for it.
func reasonsTable(t *testing.T) table {
	t.Helper()
	used := map[verdict.Reason]bool{verdict.CallerUnidentified: true, verdict.CallerNotAuthorized: true}
	for name := range named(t) {
		used[constants(t)[name]] = true
	}
	w := table{head: []string{"Reason", "Means", "Again?", "Is", "What to do"}}
	for _, spec := range verdict.Reasons() {
		if !used[spec.Reason] {
			continue
		}
		delete(used, spec.Reason)
		outcome, again := "no", "no"
		if spec.Outcome == verdict.Unknown {
			outcome = "not known"
		}
		if spec.Retryable {
			again = "yes"
		}
		w.rows = append(w.rows, []string{"`" + string(spec.Reason) + "`", outcome + ", `" + strings.ToUpper(snake(spec.Code.String())) + "`", again, spec.Doc})
	}
	if len(used) > 0 {
		t.Errorf("not in the registry: %v", slices.Collect(maps.Keys(used)))
	}
	return w
}

// constants are the reasons by the names that the sources give them.
func constants(t *testing.T) map[string]verdict.Reason {
	t.Helper()
	return sources(t, repository+"shared/verdict", regexp.MustCompile(`(?m)^\t([A-Z]\w+) +Reason = "(\w+)"$`))
}

// named are the names of the verdict package that the daemon's sources use.
func named(t *testing.T) map[string]verdict.Reason {
	t.Helper()
	all, reasons := sources(t, repository+"services/supervisorctl/internal", regexp.MustCompile(`\bverdict\.([A-Z]\w+)(\b)`)), constants(t)
	maps.DeleteFunc(all, func(name string, _ verdict.Reason) bool { return reasons[name] == "" })
	return all
}

// sources are what a pattern with two groups finds below a directory.
func sources(t *testing.T, directory string, pattern *regexp.Regexp) map[string]verdict.Reason {
	t.Helper()
	found := map[string]verdict.Reason{}
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range pattern.FindAllStringSubmatch(read(t, path), -1) {
			found[m[1]] = verdict.Reason(m[2])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var capital = regexp.MustCompile(`([a-z])([A-Z])`)

func snake(code string) string { return capital.ReplaceAllString(code, "${1}_$2") }

// rightsTable is the manifest's, which must be what the tests give the daemon.
func rightsTable(t *testing.T) table {
	t.Helper()
	w, everywhere, home := table{head: []string{"Resource", "Group", "Verbs", "In", "For"}}, map[string][]string{}, map[string][]string{}
	for document := range strings.SplitSeq(read(t, manifest), "\n---\n") {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		where, rights := "each namespace of sandboxes", everywhere
		switch role.Kind {
		case "ClusterRole":
		case "Role":
			where, rights = "the daemon's own", home
		default:
			continue
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				group := rule.APIGroups[0]
				rights[group+"/"+resource] = append(rights[group+"/"+resource], rule.Verbs...)
				name := "`" + resource + "`"
				if len(rule.ResourceNames) > 0 {
					name += " by name"
				}
				w.rows = append(w.rows, []string{name, cmp.Or(group, "core"), strings.Join(rule.Verbs, ", "), where})
			}
		}
	}
	// {group, resource, verbs, where, names, rare} of the literal, whose where is an expression.
	for _, m := range regexp.MustCompile(`\{"([a-z0-9.-]*)", "([a-z]+)", \[\]string\{([^}]*)\}, ([a-z.]+|""),`).FindAllStringSubmatch(read(t, granted), -1) {
		rights := everywhere
		if m[4] == "s.home" {
			rights = home
		}
		key := m[1] + "/" + m[2]
		if key == "/secrets" && m[4] == "s.home" {
			continue // those that settings name, in a Role of the settings' namespace
		}
		for verb := range strings.SplitSeq(strings.ReplaceAll(m[3], `"`, ""), ", ") {
			if !slices.Contains(rights[key], verb) {
				t.Errorf("the tests grant %s on %s, and %s does not", verb, key, manifest)
			}
			rights[key] = append(rights[key], verb+", as tested")
		}
	}
	for _, rights := range []map[string][]string{everywhere, home} {
		for key, verbs := range rights {
			for _, verb := range verbs {
				if !strings.Contains(verb, ",") && !slices.Contains(verbs, verb+", as tested") {
					t.Errorf("%s grants %s on %s, and the tests of the daemon do without", manifest, verb, key)
				}
			}
		}
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

// registered are the daemon's own metrics with their labels, also those that have no value before something happens.
func registered(t *testing.T) map[string][]string {
	t.Helper()
	loaded, err := driverconf.Load(driverconf.Source{})
	if err != nil {
		t.Fatal(err)
	}
	k := loaded.Kubernetes
	k.SupervisorImage, k.GRPCEndpoint, k.SandboxRuntime.NetworkPolicyEnforced = "x", "https://gateway.example:8080", true
	reg, log := &names{prometheus.NewRegistry(), map[string][]string{}}, zerolog.Nop()
	conductor, err := conduct.New(&k, companion.Options{}, &cluster.Cluster{}, log, reg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = service.New(service.DefaultSettings(), "blue", conductor, nil, log, reg)
	if err != nil {
		t.Fatal(err)
	}
	loop, err := reconcile.New(reconcile.DefaultSettings(), workspace.SchemeOf(&k), conductor, &metadata.Client{}, log, reg)
	if err != nil {
		t.Fatal(err)
	}
	lease := leadership.DefaultSettings()
	lease.LeaseName, lease.LeaseNamespace = "x", "mesh"
	if _, err = leadership.New(lease, "supervisorctl", "me", struct{ coordinationv1.LeasesGetter }{}, loop.Lead, log, reg); err != nil {
		t.Fatal(err)
	}
	settings := probe.DefaultSettings()
	settings.Image, settings.Startup = "x", probe.Report
	prober, err := probe.New(&k, settings, &cluster.Cluster{}, func(context.Context, string, map[string]string) ([]corev1.Pod, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err = probe.NewPatrol(&k, settings, prober, log, reg); err != nil {
		t.Fatal(err)
	}
	return reg.all
}

func metricsTable(t *testing.T) table {
	t.Helper()
	w := table{head: []string{"Metric", "Labels", "Is"}}
	all := registered(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var labels []string
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
	d := s.start(s.settings())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/metrics", d.logged("admin listener serves", "address")), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	served, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	own := registered(t)
	for _, name := range regexp.MustCompile(`portcullis_[a-z_]+[a-z]`).FindAllString(read(t, docs), -1) {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
		if own[name] == nil && own[base] == nil && !strings.Contains(string(served), "# TYPE "+name+" ") && !strings.Contains(string(served), "# TYPE "+base+" ") {
			t.Errorf("the documentation speaks of %s, which there is not", name)
		}
	}
}

// limitsTable are times that no setting changes.
func limitsTable(t *testing.T) table {
	t.Helper()
	w := table{head: []string{"What", "Limit", "Then"}}
	text := read(t, "../conduct/conductor.go")
	conducts := func(name string) time.Duration {
		m := regexp.MustCompile(name + ` += (\d+) \* time\.Second`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("package conduct has no %s in seconds", name)
		}
		n, _ := strconv.Atoi(m[1])
		return time.Duration(n) * time.Second
	}
	for _, l := range []struct {
		what  string
		limit time.Duration
	}{
		{"the controller makes the workload Pod", conducts("workloadLimit")},
		{"a start, once both Pods are in the record", conducts("attemptLimit")},
		{"a call waits to take over another attempt's start", conducts("takeOver")},
		{"the loop leaves a start alone whose record stands still", plan.IdleLimit},
		{"what a refused start made is taken away", conducts("undoLimit")},
		{"a released run whose image a registry does not have, or does not give, becomes ready", plan.ImageLimit},
		{"a released run becomes ready", plan.ReadyLimit},
	} {
		w.rows = append(w.rows, []string{l.what, fmt.Sprintf("%g s", l.limit.Seconds())})
	}
	return w
}
