package app_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/workspaces"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

var update = flag.Bool("update", false, "write the tables of docs/lifecycle.md and docs/driver.md anew; what a person has written in their last columns stays")

const (
	repository = "../../../../"
	docs       = repository + "docs/lifecycle.md"
	driverDocs = repository + "docs/driver.md"
	sources    = repository + "services/lifecycle/internal"
	manifests  = repository + "deploy/kustomize/base/lifecycle/"
	claims     = repository + "deploy/kustomize/components/driver-config/claims.yaml"
)

// TestDocsSayWhatTheProgramSays: every table is the program's, and nothing in it is left unexplained.
func TestDocsSayWhatTheProgramSays(t *testing.T) {
	handbook.Check(t, docs, *update, map[string]handbook.Table{
		"settings": settingsTable(t, "lifecycle"), "relay settings": settingsTable(t, "relay"), "stock settings": stockTable(), "modes": modesTable(t),
		"readiness": readinessTable(t), "metrics": registered(t).Table(), "lines": linesTable(t), "fields": fieldsTable(t), "rights": rightsTable(t),
	})
	handbook.Check(t, driverDocs, *update, map[string]handbook.Table{
		"answers": answersTable(t), "departures": departuresTable(t), "supervisorctl": passedTable(t, "supervisorctl"), "tokenauth": passedTable(t, "tokenauth"),
		"steps": stepsTable(t), "limits": limitsTable(t),
	})
}

// modesTable is where a sandbox box of a workspace team is.
func modesTable(t *testing.T) handbook.Table {
	t.Helper()
	w := handbook.Table{Head: []string{"Mode", "Namespace of workspace `team`", "Sandbox object of `box`", "The namespace"}}
	for _, mode := range []driverconf.Mode{driverconf.ModeShared, driverconf.ModeManaged, driverconf.ModeOperator} {
		scheme := workspace.Scheme{Mode: mode, GatewayID: "blue", Namespace: "sandboxes"}
		namespace, err1 := scheme.NamespaceOf("team")
		name, err2 := scheme.SandboxName("team", "box")
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		w.Rows = append(w.Rows, []string{"`" + string(mode) + "`", "`" + namespace + "`", "`" + name + "`"})
	}
	return w
}

// stepsTable are the steps that are timed.
func stepsTable(t *testing.T) handbook.Table {
	t.Helper()
	w := handbook.Table{Head: []string{"Step", "Is"}}
	for _, m := range handbook.Scan(t, sources+"/driver", regexp.MustCompile(`\.step\((?:call(\w+)|in), "(\w+)"\)`)) {
		of := []string{m.Groups[1]}
		if m.Groups[1] == "" { // of whichever of the two has it called
			of = []string{"Create", "Start"}
		}
		for _, call := range of {
			w.Rows = append(w.Rows, []string{"`" + call + "Sandbox` `" + m.Groups[2] + "`"})
		}
	}
	slices.SortStableFunc(w.Rows, func(a, b []string) int { // by call; the sources have the steps of one in their order
		of := func(row []string) int {
			rpc, _, _ := strings.Cut(strings.Trim(row[0], "`"), "`")
			return slices.Index(rpcs, rpc)
		}
		return of(a) - of(b)
	})
	return w
}

// limitsTable are bounds that no setting changes.
func limitsTable(t *testing.T) handbook.Table {
	t.Helper()
	w := handbook.Table{Head: []string{"What", "Limit", "Then"}}
	constant := func(in, name string) string {
		found := handbook.Scan(t, sources+"/"+in, regexp.MustCompile(`(?m)^(?:\t|const )`+name+` += ([^/\n]+?)(?: // .*)?$`))
		if len(found) != 1 {
			t.Fatalf("package %s has %d constants %s", in, len(found), name)
		}
		return strings.NewReplacer(" * time.Second", " s", "2 * time.Minute", "120 s", "time.Minute", "60 s", " << 20", " MiB", " << 10", " KiB").Replace(found[0].Groups[1])
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
		w.Rows = append(w.Rows, []string{l[0], l[1]})
	}
	return w
}

// readinessTable are the checks of both processes, as they run in operator mode, in which there are all.
func readinessTable(t *testing.T) handbook.Table {
	t.Helper()
	s := newSite(t)
	w, in := handbook.Table{Head: []string{"Check", "Process", "Not ready while"}}, map[string][]string{}
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
	lifecycle.Line("serving the driver")
	list("lifecycle", body(lifecycle, "/readyz?verbose"))
	lifecycle.Stop()
	relay := s.start("relay", "--config", commandtest.WriteFile(t, s.dir, "relay.toml", s.stock("operator")+"[portcullis.relay]\nhttp_address = \"127.0.0.1:0\"\nlifecycle_address = \"127.0.0.1:1\"\n"), "--log-level", "debug")
	relay.Line("serving the driver")
	list("relay", body(relay, "/readyz?verbose"))
	for _, check := range order {
		w.Rows = append(w.Rows, []string{"`" + check + "`", strings.Join(in[check], ", ")})
	}
	return w
}

// registered are lifecycle's own metrics with their labels, also those that have no value before something happens.
func registered(t *testing.T) *handbook.Metrics {
	t.Helper()
	reg := handbook.NewMetrics()
	answering(t, nil, reg)
	observing(t, zerolog.Nop(), reg)
	return reg
}

// TestDocsSpeakOfMetricsThatThereAre: also those of the packages that daemons share.
func TestDocsSpeakOfMetricsThatThereAre(t *testing.T) {
	s := newSite(t)
	p := s.start("--config", s.settings("operator", `http_address = "127.0.0.1:0"`), "--log-level", "debug")
	p.Line("serving the driver")
	served := body(p, "/metrics")
	registered(t).DemandMetrics(t, docs, served)
	registered(t).DemandMetrics(t, driverDocs, served)
}

// linesTable are lifecycle's own log lines: a level is that of the call nearest before the text.
func linesTable(t *testing.T) handbook.Table {
	t.Helper()
	w := handbook.Table{Head: []string{"Message", "Level", "Means"}}
	for _, m := range handbook.Scan(t, sources, regexp.MustCompile(`(?s)\.(Info|Warn|Error)\(\)((?:.{0,400}?)\bMsg\("([^"]+)"\))`)) {
		level := m.Groups[1]
		if later := regexp.MustCompile(`\.(Info|Warn|Error)\(\)`).FindAllStringSubmatch(m.Groups[2], -1); later != nil {
			level = later[len(later)-1][1]
		}
		if m.Groups[3] == "refused" {
			level = "Info, or Warn where it is not known"
		}
		w.Rows = append(w.Rows, []string{m.Groups[3], strings.ToLower(level)})
	}
	slices.SortFunc(w.Rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	if want := len(handbook.Scan(t, sources, regexp.MustCompile(`\bMsg\("`))); want != len(w.Rows) {
		t.Errorf("%d of %d log lines are found", len(w.Rows), want)
	}
	return w
}

// fieldsTable are the keys of these lines, and those of every line.
func fieldsTable(t *testing.T) handbook.Table {
	t.Helper()
	w := handbook.Table{Head: []string{"Field", "In lines of", "Is"}}
	s := newSite(t)
	p := s.start("--config", s.settings("operator", `http_address = "127.0.0.1:0"`))
	for _, key := range []string{"time", "level", "daemon", "component", "message"} {
		if p.Line("serving the driver")[key] == nil {
			t.Errorf("a line has no %s", key)
		}
		w.Rows = append(w.Rows, []string{"`" + key + "`", "all"})
	}
	in := map[string]map[string]bool{}
	add := func(key, component string) {
		if in[key] == nil {
			in[key] = map[string]bool{}
		}
		in[key][component] = true
	}
	components := map[string]string{"driver": "driver", "observe": "view", "workspaces": "workspaces", "app": "socket, relays", "relay": "connection"}
	for _, m := range handbook.Scan(t, sources, regexp.MustCompile(`\bkey[A-Z]\w* += "([a-z_]+)"`)) {
		add(m.Groups[1], components[m.In])
	}
	shared := map[string]string{}
	for _, m := range handbook.Scan(t, repository+"shared/telemetry", regexp.MustCompile(`(?m)^\t(Key\w+) += "(\w+)"`)) {
		shared[m.Groups[1]] = m.Groups[2]
	}
	for _, m := range handbook.Scan(t, sources, regexp.MustCompile(`telemetry\.(Key\w+)`)) {
		add(shared[m.Groups[1]], components[m.In])
	}
	for _, m := range handbook.Scan(t, sources, regexp.MustCompile(`\.(Err)\(err\)\.|\.(?:AnErr|Bool|Str)\("(\w+)"`)) {
		add(cmp.Or(m.Groups[2], "error"), components[m.In])
	}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		w.Rows = append(w.Rows, []string{"`" + key + "`", strings.Join(slices.Sorted(maps.Keys(in[key])), ", ")})
	}
	return w
}

// rightsTable is the manifests', which test/lifecycle holds against what the daemon asks for.
func rightsTable(t *testing.T) handbook.Table {
	t.Helper()
	w := handbook.Table{Head: []string{"Resource", "Group", "Verbs", "For"}}
	add := func(rule rbacv1.PolicyRule, of func(resource string) string) {
		for _, resource := range rule.Resources {
			w.Rows = append(w.Rows, []string{of("`" + resource + "`"), cmp.Or(rule.APIGroups[0], "core"), strings.Join(rule.Verbs, ", ")})
		}
	}
	for _, file := range []string{"rbac.yaml", "managed/managed.yaml"} {
		for _, role := range roles(t, manifests+file) {
			for _, rule := range role.Rules {
				add(rule, func(name string) string {
					switch {
					case len(rule.ResourceNames) > 0:
						name += " by name"
					case role.Kind == "Role":
						name += " on its own Pod"
					}
					if file == "managed/managed.yaml" {
						name += ", managed mode"
					}
					return name
				})
			}
		}
	}
	var patches []struct{ Value rbacv1.PolicyRule }
	if err := yaml.Unmarshal([]byte(handbook.Read(t, claims)), &patches); err != nil {
		t.Fatal(err)
	}
	for _, patch := range patches {
		add(patch.Value, func(name string) string { return name + ", with `driver_config`" })
	}
	return w
}

// roles are the documents of a file. What is no role has no rules.
func roles(t *testing.T, file string) (all []rbacv1.ClusterRole) {
	t.Helper()
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(handbook.Read(t, file)), 4096)
	for {
		var role rbacv1.ClusterRole
		switch err := documents.Decode(&role); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, role)
	}
}
