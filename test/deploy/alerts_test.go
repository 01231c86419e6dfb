package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// metric is a name of ours in an expression or a document.
var metric = regexp.MustCompile(`portcullis_[a-z0-9_]+`)

// notOurs are metrics of kube-state-metrics, for what has none of its own.
var notOurs = []string{"kube_cronjob_status_last_successful_time", "kube_cronjob_created"}

// family is the name that a program registers: that of a histogram's series without what they add.
func family(name string) string {
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, part)
	}
	return name
}

// alarms are the lines of the documents that say what to watch for: those that begin with an expression.
func alarms(t *testing.T) (all []string, documented map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	documented = map[string]bool{}
	line := regexp.MustCompile("(?m)^\\* `[^`]*portcullis_[^\n]*")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metric.FindAllString(string(text), -1) {
			documented[family(name)] = true
		}
		all = append(all, line.FindAllString(string(text), -1)...)
	}
	return all, documented
}

// alert is one rule of the component prometheus.
type alert struct {
	name, expression, lasting string
	annotations               map[string]string
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	for _, object := range rendered(t)["prometheus"].Objects {
		if object.GetKind() != "PrometheusRule" {
			continue
		}
		groups, _, err := unstructured.NestedSlice(object.Object, "spec", "groups")
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range groups {
			for _, rule := range group.(map[string]any)["rules"].([]any) {
				r := rule.(map[string]any)
				a := alert{name: r["alert"].(string), expression: r["expr"].(string)}
				a.lasting, _, _ = unstructured.NestedString(r, "for")
				if a.annotations, _, err = unstructured.NestedStringMap(r, "annotations"); err != nil {
					t.Fatal(err)
				}
				all = append(all, a)
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

// TestAlertsAreReal: each alert is about metrics that the programs have: the documents name these, and tests hold the documents to the
// programs.
func TestAlertsAreReal(t *testing.T) {
	t.Parallel()
	_, documented := alarms(t)
	seen := map[string]bool{}
	for _, a := range alerts(t) {
		if seen[a.name] {
			t.Errorf("two alerts are called %s", a.name)
		}
		seen[a.name] = true
		names := metric.FindAllString(a.expression, -1)
		if len(names) == 0 && !slices.ContainsFunc(notOurs, func(name string) bool { return strings.Contains(a.expression, name) }) {
			t.Errorf("%s looks at nothing: %s", a.name, a.expression)
		}
		for _, name := range names {
			if !documented[family(name)] {
				t.Errorf("%s looks at %s, which no document knows", a.name, name)
			}
		}
	}
}

// TestEveryAlertHasASection: docs/runbook.md has one section for each alert, with a command, and each alert says where it is.
func TestEveryAlertHasASection(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(text), "\n#")[1:] {
		if title, body, _ := strings.Cut(strings.TrimLeft(section, "# "), "\n"); strings.HasPrefix(title, "Portcullis") {
			if _, twice := sections[title]; twice {
				t.Errorf("the runbook has two sections %s", title)
			}
			sections[title] = body
		}
	}
	for _, a := range alerts(t) {
		body, found := sections[a.name]
		if delete(sections, a.name); !found {
			t.Errorf("the runbook has no section %s", a.name)
			continue
		}
		if !strings.Contains(body, "**Cause.**") || !strings.Contains(body, "```sh") {
			t.Errorf("the runbook's section %s lacks a cause or a command", a.name)
		}
		if want := fmt.Sprintf("docs/runbook.md, %q", a.name); a.annotations["runbook"] != want {
			t.Errorf("%s has the annotation runbook %q, not %q", a.name, a.annotations["runbook"], want)
		}
	}
	for title := range sections {
		t.Errorf("the runbook has a section %s, and there is no such alert", title)
	}
}

// TestEveryAlarmIsAnAlert: what the documents tell an operator to watch for, the component watches for.
func TestEveryAlarmIsAnAlert(t *testing.T) {
	t.Parallel()
	all, _ := alarms(t)
	if len(all) < 20 {
		t.Fatalf("the documents have %d alarms only: %v", len(all), all)
	}
	for _, alarm := range all {
		// One that depends on a setting of the operator's cannot be shipped.
		if strings.Contains(alarm, "<fence_probe_interval") {
			continue
		}
		name := metric.FindString(alarm)
		if !slices.ContainsFunc(alerts(t), func(a alert) bool { return strings.Contains(a.expression, name) }) {
			t.Errorf("no alert looks at %s: %s", name, alarm)
		}
	}
}

// TestWhatEndsIsAlarmed: a metric that says when something ends, or whether something is good, is there to be watched, so an alert does. It
// is looked for in the programs: a document that does not name it would hide it from the tests above.
func TestWhatEndsIsAlarmed(t *testing.T) {
	t.Parallel()
	ends := regexp.MustCompile(`"([a-z_]+(?:_expiry_timestamp_seconds|_good))"`)
	all, seen := alerts(t), 0
	for directory, text := range sources(t) {
		for _, found := range ends.FindAllStringSubmatch(text, -1) {
			seen++
			if !slices.ContainsFunc(all, func(a alert) bool { return strings.Contains(a.expression, found[1]) }) {
				t.Errorf("no alert looks at %s of %s", found[1], directory)
			}
		}
	}
	if seen < 2 {
		t.Errorf("only %d such metrics were found", seen)
	}
}

// TestMonitorFindsAll: the ServiceMonitor chooses the Service of each daemon, and a port that it has; what runs beside a gateway and has no
// Service, the PodMonitor chooses.
func TestMonitorFindsAll(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ services, pods []string }{
		"prometheus":           {services: []string{"lifecycle", "nswatch", "supervisorctl", "tokenauth"}},
		"prometheus-managed":   {services: []string{"lifecycle", "supervisorctl", "tokenauth"}},
		"prometheus-shared":    {services: []string{"lifecycle", "supervisorctl", "tokenauth"}},
		"prometheus-relay":     {services: []string{"lifecycle", "nswatch", "supervisorctl", "tokenauth"}, pods: []string{"relay"}},
		"prometheus-lifecycle": {services: []string{"nswatch", "supervisorctl", "tokenauth"}, pods: []string{"lifecycle"}},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := survey(t, rendered(t)[name].Objects)
			var services, pods []string
			for _, s := range w.Services {
				if monitor(t, w, "ServiceMonitor").Matches(labels.Set(s.Labels)) && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "http" }) {
					services = append(services, s.Name)
					// Prometheus calls the job so, and alerts name it.
					if job := s.Labels["app.kubernetes.io/name"]; job != s.Name {
						t.Errorf("Service %s is the job %q", s.Name, job)
					}
				}
			}
			for _, p := range w.Pods {
				if monitor(t, w, "PodMonitor").Matches(labels.Set(p.Labels)) && hasPort(p, "driver-http") {
					pods = append(pods, p.Labels["portcullis.openshell.ai/sidecar"])
				}
			}
			slices.Sort(services)
			if !slices.Equal(services, want.services) || !slices.Equal(pods, want.pods) {
				t.Errorf("it finds Services %v and Pods %v, not %v and %v", services, pods, want.services, want.pods)
			}
		})
	}
}

// monitor is what a monitor of a kind chooses.
func monitor(t *testing.T, w *deploy.World, kind string) labels.Selector {
	t.Helper()
	i := slices.IndexFunc(w.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
	if i < 0 {
		t.Fatalf("there is no %s", kind)
	}
	text, err := json.Marshal(w.Objects[i].Object["spec"].(map[string]any)["selector"])
	if err != nil {
		t.Fatal(err)
	}
	var chosen metav1.LabelSelector
	if err := json.Unmarshal(text, &chosen); err != nil {
		t.Fatal(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(&chosen)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}
