package deploy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// judged is what the program test/deploy/promql reads, one for each time that an alert is tried.
type judged struct {
	Expr, For string
	Series    []string
}

// outcome is what it says.
type outcome struct {
	Error    string
	Selected []struct {
		Metric string
		Values map[string]string
	}
	Firing []map[string]string
}

// tried is an alert over the series of one case of testdata/alerts.yaml.
type tried struct {
	alert   alert
	fires   bool
	outcome outcome
}

// try evaluates every alert over its series, by Prometheus' own engine.
func try(t *testing.T) (all []tried) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]struct{ Fires, Silent [][]string }
	if err := yaml.UnmarshalStrict(text, &cases); err != nil {
		t.Fatal(err)
	}
	var asked []judged
	for _, a := range alerts(t) {
		c := cases[a.name]
		delete(cases, a.name)
		if len(c.Fires) == 0 || len(c.Silent) == 0 {
			t.Errorf("testdata/alerts.yaml has no series for which %s fires, or none for which it is silent", a.name)
		}
		for i, series := range append(slices.Clone(c.Fires), c.Silent...) {
			asked = append(asked, judged{Expr: a.expression, For: a.lasting, Series: series})
			all = append(all, tried{alert: a, fires: i < len(c.Fires)})
		}
	}
	for name := range cases {
		t.Errorf("testdata/alerts.yaml has series for %s, and there is no such alert", name)
	}
	outcomes := evaluate(t, asked)
	for i := range all {
		all[i].outcome = outcomes[i]
	}
	return all
}

// evaluate has Prometheus' own engine judge.
func evaluate(t *testing.T, asked []judged) []outcome {
	t.Helper()
	given, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), cluster.Build(t, "promql", "test/deploy/promql", "."))
	var out, trouble bytes.Buffer
	program.Stdin, program.Stdout, program.Stderr = bytes.NewReader(given), &out, &trouble
	if err := program.Run(); err != nil {
		t.Fatalf("%v: %s", err, &trouble)
	}
	var outcomes []outcome
	if err := json.Unmarshal(out.Bytes(), &outcomes); err != nil || len(outcomes) != len(asked) {
		t.Fatalf("%d answers to %d questions: %v", len(outcomes), len(asked), err)
	}
	return outcomes
}

// quiet are installations at rest: what their daemons show that any alert is about, all of it as it should be.
var quiet = map[string][]string{
	"operator": {
		`portcullis_ready{namespace="p",job="tokenauth"} 1x250`, `portcullis_ready{namespace="p",job="supervisorctl"} 1x250`,
		`portcullis_ready{namespace="p",job="lifecycle"} 1x250`, `portcullis_ready{namespace="p",job="nswatch"} 1x250`,
		`portcullis_supervisorctl_leading{namespace="p",instance="a"} 1x250`, `portcullis_supervisorctl_leading{namespace="p",instance="b"} 0x250`,
		`portcullis_nswatch_leading{namespace="p",instance="a"} 1x250`, `portcullis_nswatch_leading{namespace="p",instance="b"} 0x250`,
		`portcullis_allowlist_reader_state{namespace="p",job="tokenauth",state="fresh"} 1x250`, `portcullis_allowlist_reader_aging{namespace="p",job="tokenauth"} 0x250`,
		`portcullis_lifecycle_watch_current{namespace="p",resource="sandboxes"} 1x250`,
		`portcullis_mesh_certificate_expiry_timestamp_seconds{namespace="p",job="tokenauth"} 7776000x250`,
		`portcullis_mesh_certificate_files_good{namespace="p",job="tokenauth"} 1x250`,
		`kube_cronjob_status_last_successful_time{namespace="p",cronjob="portcullis-provision"} -604800x250`,
	},
	// Neither nswatch nor a list.
	"managed or shared": {
		`portcullis_ready{namespace="p",job="tokenauth"} 1x250`, `portcullis_ready{namespace="p",job="supervisorctl"} 1x250`,
		`portcullis_ready{namespace="p",job="lifecycle"} 1x250`, `portcullis_supervisorctl_leading{namespace="p",instance="a"} 1x250`,
		`portcullis_lifecycle_watch_current{namespace="p",resource="sandboxes"} 1x250`,
	},
}

// TestQuietInstallationsAreQuiet: no alert fires where all is well, whatever is installed there, nor where two are in one Prometheus.
func TestQuietInstallationsAreQuiet(t *testing.T) {
	t.Parallel()
	both := slices.Clone(quiet["operator"])
	for _, series := range quiet["managed or shared"] {
		both = append(both, strings.Replace(series, `namespace="p"`, `namespace="q"`, 1))
	}
	all, asked, where := alerts(t), []judged{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(quiet)) {
		for _, a := range all {
			asked, where = append(asked, judged{Expr: a.expression, For: a.lasting, Series: quiet[name]}), append(where, a.name+" in "+name)
		}
	}
	for _, a := range all {
		asked, where = append(asked, judged{Expr: a.expression, For: a.lasting, Series: both}), append(where, a.name+" in two together")
	}
	for i, o := range evaluate(t, asked) {
		if o.Error != "" || len(o.Firing) > 0 {
			t.Errorf("%s: it fires %v %s", where[i], o.Firing, o.Error)
		}
	}
}

// inText are the labels that an annotation shows.
var inText = regexp.MustCompile(`\{\{ *\$labels\.(\w+) *\}\}`)

// TestAlertsFire: Prometheus takes every expression, each alert fires for what it is about and not for what is usual, with the labels that
// its text shows, and it names metrics, labels and values that the programs have.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	known := sources(t)
	for _, c := range try(t) {
		if c.outcome.Error != "" {
			t.Errorf("%s: %s", c.alert.name, c.outcome.Error)
			continue
		}
		if fired := len(c.outcome.Firing) > 0; fired != c.fires {
			t.Errorf("%s: fired is %t over its series, and must be %t", c.alert.name, fired, c.fires)
		}
		for _, labels := range c.outcome.Firing {
			for _, text := range c.alert.annotations {
				for _, shown := range inText.FindAllStringSubmatch(text, -1) {
					if labels[shown[1]] == "" {
						t.Errorf("%s shows the label %s, which it does not have: %v", c.alert.name, shown[1], labels)
					}
				}
			}
		}
		for _, s := range c.outcome.Selected {
			if slices.Contains(notOurs, s.Metric) {
				continue
			}
			known.demand(t, c.alert.name, s.Metric, s.Values)
		}
	}
}

// programs is the text of all that is built into them, by directory.
type programs map[string]string

func sources(t *testing.T) programs {
	t.Helper()
	all := programs{}
	for _, module := range []string{"services", "shared"} {
		err := filepath.WalkDir(filepath.Join(root, module), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all[filepath.Dir(path)] += string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// elsewhere are the directories in which the values of a label are made that are not beside the metric.
var elsewhere = map[string][]string{
	"outcome": {"shared/verdict"}, "kind": {"shared/allowlist"}, "state": {"shared/allowlist"}, "action": {"services/supervisorctl/internal/plan"},
	"resource": {"shared/sandboxapi"},
}

// demand looks for the package that registers the metric, by the end of its name, in the daemon that the name begins with or in what the
// daemons share; and there for the label, and for each value.
func (p programs) demand(t *testing.T, name, of string, values map[string]string) {
	t.Helper()
	in := p.registering(family(of))
	if in == "" {
		t.Errorf("%s names %s, which no program registers", name, of)
		return
	}
	for label, value := range values {
		if label == "job" {
			// Prometheus gives it, by jobLabel.
			if !slices.Contains(daemons, value) {
				t.Errorf("%s: there is no daemon %s", name, value)
			}
			continue
		}
		if !strings.Contains(p[in], `"`+label+`"`) {
			t.Errorf("%s: %s has no label %s in %s", name, of, label, in)
		}
		for _, one := range strings.Split(value, "|") {
			if label == "reason" {
				if _, known := verdict.Reason(one).Spec(); !known {
					t.Errorf("%s: there is no reason %s", name, one)
				}
				continue
			}
			beside := []string{in}
			for _, dir := range elsewhere[label] {
				beside = append(beside, filepath.Join(root, dir))
			}
			if !slices.ContainsFunc(beside, func(dir string) bool { return strings.Contains(p[dir], `"`+one+`"`) }) {
				t.Errorf("%s: the label %s of %s has no value %s", name, label, of, one)
			}
		}
	}
}

func (p programs) registering(metric string) string {
	_, bare, _ := strings.Cut(metric, "_")
	daemon, _, _ := strings.Cut(bare, "_")
	for _, below := range []string{"services/" + daemon, "shared"} {
		for end := bare; end != ""; _, end, _ = strings.Cut(end, "_") {
			for _, dir := range slices.Sorted(maps.Keys(p)) {
				if strings.HasPrefix(dir, filepath.Join(root, below)+"/") && strings.Contains(p[dir], `"`+end+`"`) && strings.Contains(p[dir], "prometheus.") {
					return dir
				}
			}
		}
	}
	return ""
}
