package app_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
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
	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/shared/leadership"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

var update = flag.Bool("update", false, "write the tables of docs/supervisorctl.md anew; what a person has written in their last columns stays")

const (
	repository = "../../../../"
	docs       = repository + "docs/supervisorctl.md"
	manifest   = repository + "deploy/kustomize/base/supervisorctl/rbac.yaml"
)

// TestDocsSayWhatTheProgramSays: settings, reasons, rights, metrics and limits are the program's, and nothing is left unexplained.
func TestDocsSayWhatTheProgramSays(t *testing.T) {
	handbook.Check(t, docs, *update, map[string]handbook.Table{
		"settings": settingsTable(t), "reasons": reasonsTable(t), "rights": rightsTable(t), "metrics": registered(t).Table(), "limits": limitsTable(t),
	})
}

// settingsTable are the keys of the daemon's section with their defaults, as config check prints them.
func settingsTable(t *testing.T) handbook.Table {
	t.Helper()
	s := newSite(t)
	got := program.Run(t.Context(), "config", "check", "--config", s.settings("http_address = \"127.0.0.1:0\"\n", "", "listen_address = \"127.0.0.1:0\"\n", "", "lease_namespace = \"mesh\"\n", ""))
	_, rest, _ := strings.Cut(got.Stdout, "\n[portcullis.supervisorctl]\n")
	section, _, _ := strings.Cut(rest, "\n\n")
	w := handbook.Table{Head: []string{"Key", "Default", "Decides"}}
	for line := range strings.Lines(section) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		value, isDefault := strings.CutSuffix(value, " # default")
		if !ok || !isDefault {
			t.Fatalf("%q is no key with its default", line)
		}
		w.Rows = append(w.Rows, []string{"`" + key + "`", "`" + value + "`"})
	}
	return w
}

// reasonsTable has every reason that the sources of the daemon name, in the registry's order, and those that the mesh gives for it.
func reasonsTable(t *testing.T) handbook.Table {
	t.Helper()
	used := map[verdict.Reason]bool{verdict.CallerUnidentified: true, verdict.CallerNotAuthorized: true}
	for name := range named(t) {
		used[constants(t)[name]] = true
	}
	w := handbook.Table{Head: []string{"Reason", "Means", "Again?", "Is", "What to do"}}
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
		w.Rows = append(w.Rows, []string{"`" + string(spec.Reason) + "`", outcome + ", `" + strings.ToUpper(snake(spec.Code.String())) + "`", again, spec.Doc})
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
	for _, m := range handbook.Scan(t, directory, pattern) {
		found[m.Groups[1]] = verdict.Reason(m.Groups[2])
	}
	return found
}

var capital = regexp.MustCompile(`([a-z])([A-Z])`)

func snake(code string) string { return capital.ReplaceAllString(code, "${1}_$2") }

// rightsTable is the manifest's, which the tests of the daemon give it.
func rightsTable(t *testing.T) handbook.Table {
	t.Helper()
	w := handbook.Table{Head: []string{"Resource", "Group", "Verbs", "In", "For"}}
	for document := range strings.SplitSeq(handbook.Read(t, manifest), "\n---\n") {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		where := "each namespace of sandboxes"
		switch role.Kind {
		case "ClusterRole":
		case "Role":
			where = "the daemon's own"
		default:
			continue
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				group := rule.APIGroups[0]
				name := "`" + resource + "`"
				switch {
				case len(rule.ResourceNames) > 0:
					name += " by name"
				case role.Kind == "Role" && resource == "events": // what every daemon may: test/daemons uses it
					w.Rows = append(w.Rows, []string{name + " on its own Pod", "core", strings.Join(rule.Verbs, ", "), where})
					continue
				}
				w.Rows = append(w.Rows, []string{name, cmp.Or(group, "core"), strings.Join(rule.Verbs, ", "), where})
			}
		}
	}
	return w
}

// registered are the daemon's own metrics with their labels, also those that have no value before something happens.
func registered(t *testing.T) *handbook.Metrics {
	t.Helper()
	loaded, err := driverconf.Load(driverconf.Source{})
	if err != nil {
		t.Fatal(err)
	}
	k := loaded.Kubernetes
	k.SupervisorImage, k.GRPCEndpoint, k.SandboxRuntime.NetworkPolicyEnforced = "x", "https://gateway.example:8080", true
	reg, log := handbook.NewMetrics(), zerolog.Nop()
	conductor, err := conduct.New(&k, companion.Options{}, &cluster.Cluster{}, log, reg, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = service.New(service.DefaultSettings(), "blue", conductor, nil, log, reg)
	if err != nil {
		t.Fatal(err)
	}
	loop, err := reconcile.New(reconcile.DefaultSettings(), workspace.SchemeOf(&k), conductor, &metadata.Client{}, func(context.Context, string, metav1.ListOptions) (watch.Interface, error) {
		return watch.NewFake(), nil
	}, log, reg)
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
	return reg
}

// TestDocsSpeakOfMetricsThatThereAre: also those of the packages that daemons share.
func TestDocsSpeakOfMetricsThatThereAre(t *testing.T) {
	s := newSite(t)
	_, served := s.start(s.settings()).Get("/metrics")
	registered(t).DemandMetrics(t, docs, served)
}

// limitsTable are times that no setting changes.
func limitsTable(t *testing.T) handbook.Table {
	t.Helper()
	w := handbook.Table{Head: []string{"What", "Limit", "Then"}}
	text := handbook.Read(t, "../conduct/conductor.go")
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
		w.Rows = append(w.Rows, []string{l.what, fmt.Sprintf("%g s", l.limit.Seconds())})
	}
	return w
}
