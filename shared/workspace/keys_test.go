package workspace

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Other programs and stored objects use these texts; changing one orphans what exists.
func TestKeysAreStable(t *testing.T) {
	for got, want := range map[string]string{
		LabelManagedBy: "openshell.ai/managed-by", LabelSandboxID: "openshell.ai/sandbox-id", LabelSandboxName: "openshell.ai/sandbox-name",
		LabelSandboxWorkspace: "openshell.ai/sandbox-workspace", LabelGatewayID: "openshell.ai/gateway-id", LabelComponent: "openshell.ai/component",
		LabelBoundaryPair: "openshell.ai/boundary-pair", LabelBoundaryRole: "openshell.ai/boundary-role", LabelCreate: "openshell.ai/sandbox-create", SchedulingGate: "openshell.ai/bootstrap",
		AnnotationSandboxID + " ": "openshell.ai/sandbox-id ", AnnotationSandboxIDFormer: "openshell.io/sandbox-id",
		AnnotationSandboxName + " ": "openshell.ai/sandbox-name ", AnnotationSandboxWorkspace + " ": "openshell.ai/sandbox-workspace ",
		AnnotationBootstrapping: "openshell.ai/sandbox-runtime-bootstrapping", AnnotationBootstrapStartedAt: "openshell.ai/sandbox-runtime-bootstrap-started-at-ms",
		AnnotationBootstrapOperation: "openshell.ai/sandbox-runtime-bootstrap-operation", AnnotationBootstrapPhase: "openshell.ai/sandbox-runtime-bootstrap-phase",
		AnnotationBootstrapSession: "openshell.ai/sandbox-runtime-bootstrap-session", AnnotationGeneration: "openshell.ai/sandbox-runtime-generation",
		AnnotationReadiness: "openshell.ai/sandbox-runtime-readiness", AnnotationWorkloadUID: "openshell.ai/sandbox-runtime-workload-uid",
		AnnotationSupervisorUID: "openshell.ai/sandbox-runtime-supervisor-uid", AnnotationMainProcessSpec: "openshell.ai/sandbox-runtime-main-process-spec",
		AnnotationLogLevel: "openshell.ai/sandbox-runtime-log-level", AnnotationFenceUID: "openshell.ai/sandbox-runtime-network-policy-uid",
		AnnotationFenceGeneration: "openshell.ai/sandbox-runtime-network-policy-generation", AnnotationAdmissionIdentities: "openshell.ai/resource-admission-identities",
		AnnotationCallerDriverConfig: "openshell.ai/caller-driver-config-used", AnnotationTraceContext: "opentelemetry.io/trace-context",
		AnnotationUIDRange: "openshift.io/sa.scc.uid-range", AnnotationSupplementalGroups: "openshift.io/sa.scc.supplemental-groups",
	} {
		if got != want {
			t.Errorf("key %q, want %q", got, want)
		}
		if problems := validation.IsQualifiedName(strings.TrimSpace(got)); len(problems) > 0 {
			t.Errorf("key %q: %v", got, problems)
		}
	}
}

// The former spelling stands in one place of the package, and so does the one of today.
func TestEachSpellingHasOneConstant(t *testing.T) {
	for file, literals := range map[string][]string{"labels.go": {`"openshell.ai/"`}, "annotations.go": {`"openshell.io/sandbox-id"`}} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && strings.Contains(lit.Value, "openshell.") {
				found = append(found, lit.Value)
			}
			return true
		})
		if !slices.Equal(found, literals) {
			t.Errorf("%s has the literals %v, want %v", file, found, literals)
		}
	}
}

// The settings refuse our own labels as a requirement for admission, by spellings of their own.
func TestSettingsKnowOurLabels(t *testing.T) {
	for _, key := range []string{LabelManagedBy, LabelGatewayID, LabelSandboxWorkspace} {
		text := "[openshell.drivers.kubernetes.resource_admission]\nrequired_labels = { \"" + key + "\" = \"x\" }\n"
		_, err := driverconf.Load(driverconf.Source{Path: "gateway.toml", Bytes: []byte(text)})
		if err == nil || !strings.Contains(err.Error(), strconv.Quote(key)+" is written by the driver itself") {
			t.Errorf("requiring %s gives %v", key, err)
		}
	}
}

func TestSandboxIDOf(t *testing.T) {
	today := func(id string) map[string]string { return map[string]string{"openshell.ai/sandbox-id": id} }
	both := func(today, former string) map[string]string {
		return map[string]string{"openshell.ai/sandbox-id": today, "openshell.io/sandbox-id": former}
	}
	for _, c := range []struct {
		name        string
		annotations map[string]string
		id          string
		conflict    bool
	}{
		{"none", nil, "", false},
		{"today", today("s1"), "s1", false},
		{"former", map[string]string{"openshell.io/sandbox-id": "s1"}, "s1", false},
		{"both", both("s1", "s1"), "s1", false},
		{"both, different", both("s1", "s2"), "", true},
		{"today empty", both("", "s2"), "", true},
		{"former empty", both("s1", ""), "", true},
		{"both empty", both("", ""), "", false},
		{"empty", today(""), "", false},
		{"another key", map[string]string{"openshell.io/sandbox-id2": "s1", "Openshell.ai/sandbox-id": "s1"}, "", false},
	} {
		if id, conflict := SandboxIDOf(c.annotations); id != c.id || conflict != c.conflict {
			t.Errorf("%s: SandboxIDOf = %q, %v", c.name, id, conflict)
		}
	}
}

func TestSelectors(t *testing.T) {
	one, err := SelectSandbox("gw", "s1")
	if err != nil {
		t.Fatal(err)
	}
	all, err := SelectGateway("gw")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		got       labels.Selector
		want      string
		selects   labels.Set
		exclusive []string
	}{
		{
			"one", one, "openshell.ai/managed-by=openshell,openshell.ai/sandbox-id=s1,openshell.ai/gateway-id=gw",
			labels.Set{LabelManagedBy: "openshell", LabelSandboxID: "s1", LabelGatewayID: "gw"},
			[]string{LabelManagedBy, LabelSandboxID, LabelGatewayID},
		},
		{
			"gateway", all, "openshell.ai/managed-by=openshell,openshell.ai/sandbox-id,openshell.ai/gateway-id=gw",
			labels.Set{LabelManagedBy: "openshell", LabelSandboxID: "s1", LabelGatewayID: "gw"},
			[]string{LabelManagedBy, LabelGatewayID},
		},
		{
			"shared", SelectShared(), "openshell.ai/managed-by=openshell,openshell.ai/sandbox-id",
			labels.Set{LabelManagedBy: "openshell", LabelSandboxID: "s1", LabelGatewayID: "another"},
			[]string{LabelManagedBy},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := labels.Parse(c.want)
			if err != nil {
				t.Fatal(err)
			}
			if c.got.String() != want.String() {
				t.Errorf("selector %s, want %s", c.got, want)
			}
			if !c.got.Matches(c.selects) {
				t.Errorf("%s does not select %s", c.got, c.selects)
			}
			for _, key := range c.exclusive {
				for _, value := range []string{"other", ""} {
					changed := labels.Merge(c.selects, labels.Set{key: value})
					if c.got.Matches(changed) {
						t.Errorf("%s selects %s", c.got, changed)
					}
				}
			}
		})
	}
}

func TestSelectorsTakeValuesOnly(t *testing.T) {
	for _, value := range []string{"", "a,b", "a,openshell.ai/gateway-id=b", "a=b", "!a", "a b", "a\n", strings.Repeat("a", 64), "a in (b)", "-a"} {
		if s, err := SelectGateway(value); err == nil {
			t.Errorf("gateway %q gives the selector %s", value, s)
		}
		if s, err := SelectSandbox("gw", value); err == nil {
			t.Errorf("sandbox %q gives the selector %s", value, s)
		}
		if s, err := SelectSandbox(value, "s1"); err == nil {
			t.Errorf("gateway %q gives the selector %s", value, s)
		}
	}
}
