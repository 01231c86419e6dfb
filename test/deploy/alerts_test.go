package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// metric is a name of ours in an expression or a document.
var metric = regexp.MustCompile(`portcullis_[a-z0-9_]+`)

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
type alert struct{ name, expression string }

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
				all = append(all, alert{r["alert"].(string), r["expr"].(string)})
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
		if len(names) == 0 {
			t.Errorf("%s looks at nothing: %s", a.name, a.expression)
		}
		for _, name := range names {
			if !documented[family(name)] {
				t.Errorf("%s looks at %s, which no document knows", a.name, name)
			}
		}
		for _, pair := range []string{"()", "{}", "[]"} {
			if strings.Count(a.expression, pair[:1]) != strings.Count(a.expression, pair[1:]) {
				t.Errorf("%s: the %s do not match: %s", a.name, pair, a.expression)
			}
		}
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

// TestMonitorFindsAll: the ServiceMonitor chooses the Service of each daemon, and a port that it has.
func TestMonitorFindsAll(t *testing.T) {
	t.Parallel()
	rendering := rendered(t)["prometheus"]
	i := slices.IndexFunc(rendering.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ServiceMonitor" })
	chosen, _, err := unstructured.NestedStringMap(rendering.Objects[i].Object, "spec", "selector", "matchLabels")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, s := range survey(t, rendering.Objects).Services {
		if labels.SelectorFromSet(chosen).Matches(labels.Set(s.Labels)) &&
			slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "http" }) {
			found = append(found, s.Name)
		}
	}
	slices.Sort(found)
	if want := []string{"lifecycle", "nswatch", "supervisorctl", "tokenauth"}; !slices.Equal(found, want) {
		t.Errorf("it finds %v, not %v", found, want)
	}
}
