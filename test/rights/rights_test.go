package rights_test

import (
	"flag"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/crd"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/rights"
)

var update = flag.Bool("update", false, "write the lists in testdata anew")

// Places are namespaces: of the mesh, of sandboxes, and of somebody else.
const (
	meshs     = "mesh"
	sandboxes = "sandboxes"
	elsewhere = "elsewhere"
)

var places = []string{meshs, sandboxes, elsewhere}

// overlay is one of deploy/kustomize/overlays, and what makes a namespace one for its sandboxes.
type overlay struct {
	name string
	// directory is where it is, from deploy/kustomize.
	directory string
	// workspace is what a platform team installs in a namespace of its own; empty for nothing.
	workspace string
	// with is a component beside it, from deploy/kustomize/components; empty for none. The list is of what that adds.
	with string
}

var overlays = []overlay{
	{"shared", "overlays/shared", "", ""},
	{"managed", "overlays/managed", "", ""},
	{"operator-label", "overlays/operator-label", "workspace", ""},
	{"operator-file", "overlays/operator-file", "workspace", ""},
	// operator-label with rights-per-workspace, so that what the workspace's own Roles grant shows.
	{"operator-label-per-workspace", "../../test/deploy/testdata/cases/guarded", "workspace", ""},
	{"shared", "overlays/shared", "", "driver-config"},
	{"managed", "overlays/managed", "", "driver-config"},
	{"operator-label", "overlays/operator-label", "workspace", "driver-config"},
	{"operator-file", "overlays/operator-file", "workspace", "driver-config"},
	// What README.md installs: the one Secret that is read in operator mode.
	{"operator-label", "overlays/operator-label", "workspace", "gateway-sidecar/source"},
}

// meshNamespace is the one of the overlays, sandboxNamespace that of shared mode.
const (
	meshNamespace    = "portcullis"
	sandboxNamespace = "openshell"
)

// TestRights: the API server lets each daemon do what the list of its overlay says, and nothing else. The overlays have one name for
// their cluster-wide objects, so they are installed one after the other.
func TestRights(t *testing.T) {
	c := cluster.Start(t, cluster.ControlPlane)
	if have, err := crd.Installed(t.Context(), c.RESTConfig()); err != nil {
		t.Fatal(err)
	} else if len(have.Versions()) == 0 {
		if err := crd.Install(t.Context(), c.RESTConfig(), crd.V1beta1); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range overlays {
		t.Run(o.title(), func(t *testing.T) { o.test(t, c) })
	}
}

// title is the name of the list.
func (o overlay) title() string {
	if o.with == "" {
		return o.name
	}
	return o.name + "-" + path.Base(o.with)
}

func (o overlay) test(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	where := map[string]string{meshs: meshNamespace, sandboxes: sandboxNamespace, elsewhere: "default"}
	daemons := install(t, c, where, o)
	nobody := c.ServiceAccountClient(t, meshNamespace, "default")
	held := map[rights.Holder]map[rights.Right]bool{}
	for _, daemon := range daemons {
		client := c.ServiceAccountClient(t, meshNamespace, daemon)
		for _, place := range places {
			held[rights.Holder{Daemon: daemon, Place: place}] = rules(t, client, nobody, where[place])
		}
	}
	listed := rights.Table(held, daemons, places)
	if o.with != "" {
		listed = more(t, o.name, listed)
	}
	demandListed(t, o.title(), listed)
	asked := subjects(t, c, held)
	if o.with != "" { // the others are asked about without it
		asked = slices.DeleteFunc(asked, func(of subject) bool { return !strings.Contains(listed, " "+of.resource.Resource) })
	}
	for _, daemon := range daemons {
		cfg := c.ServiceAccountConfig(t, meshNamespace, daemon)
		cfg.QPS = -1
		client, err := dynamic.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		everywhere := rights.Everywhere(held, daemon, places)
		for _, place := range places {
			for _, of := range asked {
				demandAnswers(t, client, of, daemon, where[place], held[rights.Holder{Daemon: daemon, Place: place}], everywhere)
			}
		}
	}
}

// rules are what RBAC knows of for somebody in a namespace, but for what every ServiceAccount may.
func rules(t *testing.T, client, nobody kubernetes.Interface, namespace string) map[rights.Right]bool {
	t.Helper()
	of := func(client kubernetes.Interface) map[rights.Right]bool {
		review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// The authorizer of nodes has rules for nodes only, and does not list them.
		if why := review.Status.EvaluationError; why != "" && !strings.Contains(why, "node authorizer") {
			t.Fatalf("the rules are not known: %s", why)
		}
		all := rights.Of(review.Status.ResourceRules)
		maps.Copy(all, rights.OfPaths(review.Status.NonResourceRules))
		return all
	}
	all := of(client)
	for r := range of(nobody) {
		delete(all, r)
	}
	return all
}

// more are the lines that are not in the list of an overlay, all of which must be among them.
func more(t *testing.T, overlay, listed string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", overlay+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	rest := listed
	for line := range strings.Lines(string(text)) {
		before, after, found := strings.Cut("\n"+rest, "\n"+line)
		if !found {
			t.Errorf("the component takes away: %s", line)
		}
		rest = strings.TrimPrefix(before+"\n"+after, "\n")
	}
	return rest
}

func demandListed(t *testing.T, overlay, got string) {
	t.Helper()
	path := filepath.Join("testdata", overlay+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("overlay %s grants other rights than %s lists; if that is meant, write it anew with -update (-listed +granted):\n%s", overlay, path, diff)
	}
}
