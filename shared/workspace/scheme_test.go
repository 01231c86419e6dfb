package workspace

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

var (
	inShared  = Scheme{Mode: driverconf.ModeShared, GatewayID: "Gate.1", Namespace: "sandboxes"}
	inManaged = Scheme{Mode: driverconf.ModeManaged, GatewayID: "a", Namespace: "sandboxes"}
	inOperate = Scheme{Mode: driverconf.ModeOperator, GatewayID: "Gate.1", Namespace: "sandboxes"}
)

func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		name                   string
		scheme                 Scheme
		workspace, sandbox     string
		namespace, sandboxName string
	}{
		{"shared", inShared, "team", "box", "sandboxes", "team--box"},
		{"shared, at the limit", inShared, strings.Repeat("w", 30), strings.Repeat("s", 31), "sandboxes", strings.Repeat("w", 30) + "--" + strings.Repeat("s", 31)},
		{"managed", inManaged, "team", "box", "openshell-a-team", "box"},
		{"managed, at the limit", inManaged, strings.Repeat("w", 51), "box", "openshell-a-" + strings.Repeat("w", 51), "box"},
		{"operator", inOperate, "team", "box", "team", "box"},
		{"operator, at the limit", inOperate, strings.Repeat("w", 63), strings.Repeat("s", 63), strings.Repeat("w", 63), strings.Repeat("s", 63)},
	} {
		t.Run(c.name, func(t *testing.T) {
			namespace, err := c.scheme.NamespaceOf(c.workspace)
			if err != nil || namespace != c.namespace {
				t.Errorf("NamespaceOf = %q, %v, want %q", namespace, err, c.namespace)
			}
			name, err := c.scheme.SandboxName(c.workspace, c.sandbox)
			if err != nil || name != c.sandboxName {
				t.Errorf("SandboxName = %q, %v, want %q", name, err, c.sandboxName)
			}
			if err := c.scheme.Places(c.workspace, c.namespace); err != nil {
				t.Errorf("Places: %v", err)
			}
			if err := c.scheme.Places(c.workspace, c.namespace+"x"); err == nil {
				t.Error("the workspace is placed in another namespace too")
			}
		})
	}
}

func TestPlacesNothingElse(t *testing.T) {
	for _, c := range []struct {
		name               string
		scheme             Scheme
		workspace, sandbox string
		want               string
		onlyName           bool
	}{
		{"no mode", Scheme{}, "team", "box", "not a workspace mode", false},
		{"a mode of the future", Scheme{Mode: "cluster", GatewayID: "a", Namespace: "n"}, "team", "box", "not a workspace mode", false},
		{"shared without namespace", Scheme{Mode: driverconf.ModeShared, GatewayID: "a"}, "team", "box", "namespace", false},
		{"managed without gateway", Scheme{Mode: driverconf.ModeManaged}, "team", "box", "gateway id", false},
		{"operator without gateway", Scheme{Mode: driverconf.ModeOperator}, "team", "box", "gateway id", false},
		{"managed with a capital", Scheme{Mode: driverconf.ModeManaged, GatewayID: "A"}, "team", "box", "gateway id", false},
		{"no workspace", inOperate, "", "box", "workspace", false},
		{"a workspace with a capital", inOperate, "Team", "box", "workspace", false},
		{"a workspace with a dot", inShared, "te.am", "box", "workspace", false},
		{"a workspace that ends in -", inShared, "team-", "box", "workspace", false},
		{"a workspace with a line break", inShared, "team\n", "box", "workspace", false},
		{"a workspace of 64", inOperate, strings.Repeat("w", 64), "box", "workspace", false},
		{"a managed namespace of 64", inManaged, strings.Repeat("w", 52), "box", "at most 51", false},
		{"no sandbox", inOperate, "team", "", "sandbox name", true},
		{"a sandbox with a capital", inManaged, "team", "Box", "sandbox name", true},
		{"a shared name of 64", inShared, strings.Repeat("w", 31), strings.Repeat("s", 31), "64 characters", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if namespace, err := c.scheme.NamespaceOf(c.workspace); (err == nil) != c.onlyName || (err != nil && namespace != "") {
				t.Errorf("NamespaceOf = %q, %v", namespace, err)
			}
			name, err := c.scheme.SandboxName(c.workspace, c.sandbox)
			if err == nil || name != "" {
				t.Fatalf("SandboxName = %q, %v", name, err)
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, c.want)
			}
		})
	}
}

func TestMayHold(t *testing.T) {
	for _, c := range []struct {
		scheme    Scheme
		namespace string
		want      bool
	}{
		{inShared, "sandboxes", true},
		{inShared, "sandboxes2", false},
		{inShared, "", false},
		{inManaged, "openshell-a-team", true},
		{inManaged, "openshell-a-b-team", true}, // the name alone may be gateway a-b's: see Owns
		{inManaged, "openshell-a-", false},
		{inManaged, "openshell-a--x", false},
		{inManaged, "openshell-a", false},
		{inManaged, "openshell-ab-team", false},
		{inManaged, "openshell-b-team", false},
		{inManaged, "xopenshell-a-team", false},
		{inManaged, "openshell-a-team/x", false},
		{inManaged, "openshell-a-" + strings.Repeat("w", 51), true},
		{inManaged, "openshell-a-" + strings.Repeat("w", 52), false},
		{inManaged, "sandboxes", false},
		{inOperate, "team", false},
		{Scheme{}, "", false},
		{Scheme{Mode: driverconf.ModeShared}, "", false},
		{Scheme{Mode: driverconf.ModeManaged}, "openshell--x", false},
	} {
		if got := c.scheme.MayHold(c.namespace); got != c.want {
			t.Errorf("%+v may hold %q: %v, want %v", c.scheme, c.namespace, got, c.want)
		}
	}
}

func namespaceLabels(gateway, workspace string) map[string]string {
	return map[string]string{LabelManagedBy: "openshell", LabelGatewayID: gateway, LabelSandboxWorkspace: workspace}
}

func TestOwns(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Scheme, *string, map[string]string)
		owns bool
	}{
		{"ours", func(*Scheme, *string, map[string]string) {}, true},
		{"not managed", func(_ *Scheme, _ *string, l map[string]string) { delete(l, LabelManagedBy) }, false},
		{"managed by another", func(_ *Scheme, _ *string, l map[string]string) { l[LabelManagedBy] = "other" }, false},
		{"no gateway", func(_ *Scheme, _ *string, l map[string]string) { delete(l, LabelGatewayID) }, false},
		{"another gateway", func(_ *Scheme, _ *string, l map[string]string) { l[LabelGatewayID] = "a-b" }, false},
		{"no workspace", func(_ *Scheme, _ *string, l map[string]string) { delete(l, LabelSandboxWorkspace) }, false},
		{"another workspace", func(_ *Scheme, _ *string, l map[string]string) { l[LabelSandboxWorkspace] = "d" }, false},
		{"another namespace", func(_ *Scheme, n *string, _ map[string]string) { *n = "openshell-a-b-d" }, false},
		{"shared mode", func(s *Scheme, _ *string, _ map[string]string) { s.Mode = driverconf.ModeShared }, false},
		{"operator mode", func(s *Scheme, _ *string, _ map[string]string) { s.Mode = driverconf.ModeOperator }, false},
		{"no mode", func(s *Scheme, _ *string, _ map[string]string) { s.Mode = "" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			scheme, namespace, labels := inManaged, "openshell-a-b-c", namespaceLabels("a", "b-c")
			c.edit(&scheme, &namespace, labels)
			if err := scheme.Owns(namespace, labels); (err == nil) != c.owns {
				t.Errorf("Owns = %v, want owned %v", err, c.owns)
			}
		})
	}
	if err := (Scheme{Mode: driverconf.ModeManaged}).Owns("openshell--x", map[string]string{LabelManagedBy: "openshell"}); err == nil {
		t.Error("a gateway without id owns a namespace")
	}
}

// part makes short labels of few letters, so that names collide often.
func part(r *rand.Rand) string {
	for {
		var b strings.Builder
		for range 1 + r.IntN(5) {
			b.WriteByte("ab-"[r.IntN(3)])
		}
		if isLabel(b.String()) {
			return b.String()
		}
	}
}

// splits lists the pairs of gateway and workspace that make one name.
func splits(name string) (pairs [][2]string) {
	for i := range len(name) {
		if name[i] == '-' && isLabel(name[:i]) && isLabel(name[i+1:]) {
			pairs = append(pairs, [2]string{name[:i], name[i+1:]})
		}
	}
	return pairs
}

// A managed namespace is owned by exactly the gateway and workspace that it was made for, although other pairs lead to
// the same name; and one gateway gives different workspaces different namespaces.
func TestManagedNamespacesAreOwnedByOnePair(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	collisions := 0
	for range 2_000 {
		gateway, workspace, otherGateway, otherWorkspace := part(r), part(r), part(r), part(r)
		if other := splits(gateway + "-" + workspace); r.IntN(2) == 0 {
			pair := other[r.IntN(len(other))]
			otherGateway, otherWorkspace = pair[0], pair[1]
		}
		scheme, other := Scheme{Mode: driverconf.ModeManaged, GatewayID: gateway}, Scheme{Mode: driverconf.ModeManaged, GatewayID: otherGateway}
		name, err := scheme.NamespaceOf(workspace)
		if err != nil {
			t.Fatal(err)
		}
		otherName, err := other.NamespaceOf(otherWorkspace)
		if err != nil {
			t.Fatal(err)
		}
		same := gateway == otherGateway && workspace == otherWorkspace
		if gateway == otherGateway && (name == otherName) != (workspace == otherWorkspace) {
			t.Fatalf("gateway %q gives %q and %q to workspaces %q and %q", gateway, name, otherName, workspace, otherWorkspace)
		}
		if name == otherName && !same {
			collisions++
		}
		labels := namespaceLabels(gateway, workspace)
		if err := scheme.Owns(name, labels); err != nil {
			t.Fatalf("%+v does not own its %q: %v", scheme, name, err)
		}
		if err := other.Owns(name, labels); err == nil && gateway != otherGateway {
			t.Fatalf("gateway %q owns %q, which %q made", otherGateway, name, gateway)
		}
		if err := other.Owns(otherName, labels); err == nil && !same {
			t.Fatalf("gateway %q owns %q with the labels of %q, %q", otherGateway, otherName, gateway, workspace)
		}
	}
	if collisions < 100 {
		t.Errorf("only %d pairs shared a name: the property was hardly tried", collisions)
	}
}

func TestAGatewayNeverOwnsThoseOfItsPrefix(t *testing.T) {
	short, long := Scheme{Mode: driverconf.ModeManaged, GatewayID: "a"}, Scheme{Mode: driverconf.ModeManaged, GatewayID: "a-b"}
	name, err := long.NamespaceOf("c")
	if err != nil {
		t.Fatal(err)
	}
	if !short.MayHold(name) {
		t.Fatal("the two gateways' names do not overlap, so this shows nothing")
	}
	for _, workspace := range []string{"c", "b-c", "b", ""} {
		if short.Owns(name, namespaceLabels("a-b", workspace)) == nil {
			t.Errorf("gateway a owns %q of workspace %q at a-b", name, workspace)
		}
	}
	// What tokenauth knows is the workspace of the Sandbox.
	if short.Places("c", name) == nil {
		t.Error("workspace c of gateway a is placed in a namespace of a-b")
	}
}

func FuzzNames(f *testing.F) {
	f.Add("managed", "a", "n", "team", "box")
	f.Add("shared", "a", "n", "a--b", "c")
	f.Add("operator", "a", "", "team", strings.Repeat("x", 64))
	f.Fuzz(func(t *testing.T, mode, gateway, namespace, workspace, sandbox string) {
		s := Scheme{Mode: driverconf.Mode(mode), GatewayID: gateway, Namespace: namespace}
		got, err := s.NamespaceOf(workspace)
		if (err == nil) != (got != "") || (err == nil && !isLabel(got)) {
			t.Fatalf("NamespaceOf = %q, %v", got, err)
		}
		if err == nil && s.Mode != driverconf.ModeOperator && !s.MayHold(got) {
			t.Fatalf("%+v may not hold its own %q", s, got)
		}
		name, err := s.SandboxName(workspace, sandbox)
		if (err == nil) != (name != "") || (err == nil && !isLabel(name)) {
			t.Fatalf("SandboxName = %q, %v", name, err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Fatalf("error %q is not one line", err)
		}
	})
}

func FuzzIsLabel(f *testing.F) {
	for _, seed := range []string{"", "a", "-a", "a-", "a-b", "A", "a.b", "0", strings.Repeat("a", 63), strings.Repeat("a", 64), "a\n", "é", "a\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := isLabel(s), len(validation.IsDNS1123Label(s)) == 0; got != want {
			t.Fatalf("isLabel(%q) = %v, want %v", s, got, want)
		}
	})
}

func TestSchemeOf(t *testing.T) {
	k := &driverconf.Kubernetes{WorkspaceMode: driverconf.ModeManaged, GatewayID: "a", Namespace: "n"}
	if got, want := SchemeOf(k), (Scheme{Mode: driverconf.ModeManaged, GatewayID: "a", Namespace: "n"}); got != want {
		t.Errorf("SchemeOf = %+v, want %+v", got, want)
	}
}

func Example() {
	s := Scheme{Mode: driverconf.ModeManaged, GatewayID: "a", Namespace: "openshell"}
	namespace, err := s.NamespaceOf("b-c")
	fmt.Println(namespace, err)
	// The same name, made by gateway a-b for its workspace c.
	fmt.Println(s.MayHold("openshell-a-b-c"), s.Owns("openshell-a-b-c", map[string]string{
		LabelManagedBy: ManagedByOpenShell, LabelGatewayID: "a-b", LabelSandboxWorkspace: "c",
	}))
	// Output:
	// openshell-a-b-c <nil>
	// true label openshell.ai/gateway-id is "a-b", not "a"
}

// TestPlaced: an object is told from a copy of it by where it is, and one that cannot be made sense of is not taken for a copy.
func TestPlaced(t *testing.T) {
	operator := Scheme{Mode: driverconf.ModeOperator, GatewayID: "blue"}
	managed := Scheme{Mode: driverconf.ModeManaged, GatewayID: "blue"}
	shared := Scheme{Mode: driverconf.ModeShared, GatewayID: "blue", Namespace: "openshell"}
	for name, c := range map[string]struct {
		scheme                       Scheme
		namespace, label, annotation string
		in                           bool
	}{
		"operator, its own":                   {operator, "team", "team", "team", true},
		"operator, a copy":                    {operator, "other", "team", "team", false},
		"operator, the label is gone":         {operator, "team", "", "team", true},
		"operator, a copy without the label":  {operator, "other", "", "team", false},
		"operator, the annotation is another": {operator, "team", "team", "other", true},
		"operator, it names no workspace":     {operator, "team", "", "", false},
		"managed, its own":                    {managed, "openshell-blue-team", "team", "team", true},
		"managed, a copy":                     {managed, "openshell-blue-other", "team", "team", false},
		"managed, in no namespace of ours":    {managed, "team", "team", "team", false},
		"managed, it names no workspace":      {managed, "openshell-blue-team", "", "", true},
		"shared, its own":                     {shared, "openshell", "team", "team", true},
		"shared, a copy":                      {shared, "other", "team", "team", false},
		"shared, it names no workspace":       {shared, "openshell", "", "", true},
		"no mode":                             {Scheme{}, "team", "team", "team", false},
	} {
		labels, annotations := map[string]string{}, map[string]string{}
		if c.label != "" {
			labels[LabelSandboxWorkspace] = c.label
		}
		if c.annotation != "" {
			annotations[AnnotationSandboxWorkspace] = c.annotation
		}
		if err := c.scheme.Placed(c.namespace, labels, annotations); (err == nil) != c.in {
			t.Errorf("%s: %v", name, err)
		}
	}
}
