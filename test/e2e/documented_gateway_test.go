//go:build portcullis_long

package e2e_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/portcullis-mesh/portcullis/test/manual/commands"
)

// documentedGateway is the gateway.yaml that docs/install.md has to begin with.
func documentedGateway(t *testing.T) string {
	t.Helper()
	all, err := commands.Read(filepath.Join("..", "..", "docs", "install.md"))
	noError(t, err)
	i := slices.IndexFunc(all, func(b commands.Block) bool { return b.Is("yaml gateway.yaml") })
	if i < 0 {
		t.Fatal("docs/install.md has no gateway")
	}
	return all[i].Text
}

// asReference is that gateway with the reference gateway's arguments for the reader's, and with the door that the test asks it through. Labels,
// what Pod security demands, files and volumes are as documented.
func asReference(t *testing.T, example string) string {
	t.Helper()
	stateful := func(text string) (set appsv1.StatefulSet, rest string) {
		workload, rest, _ := strings.Cut(text, "\n---\n")
		noError(t, yaml.UnmarshalStrict([]byte(workload), &set))
		return set, rest
	}
	set, rest := stateful(example)
	mine, _ := stateful(gatewayWorkload)
	const control = "control"
	pod, own := &set.Spec.Template.Spec, mine.Spec.Template.Spec
	gateway, door := &pod.Containers[0], own.Containers[1]
	gateway.Args = own.Containers[0].Args
	for _, m := range own.Containers[0].VolumeMounts {
		if m.Name == control {
			gateway.VolumeMounts = append(gateway.VolumeMounts, m)
		}
	}
	for _, v := range own.Volumes {
		if v.Name == control {
			pod.Volumes = append(pod.Volumes, v)
		}
	}
	pod.Containers = append(pod.Containers, door)
	text, err := yaml.Marshal(set)
	noError(t, err)
	return string(text) + "---\n" + rest
}

// demandGatewayAlone: what docs/uninstall.md has the reader remove before the gateway itself is gone, and the gateway with its records is not.
func (r *reader) demandGatewayAlone(t *testing.T) {
	t.Helper()
	ctx, everything := t.Context(), metav1.ListOptions{}
	client := r.c.Client()
	var left []string
	note := func(kind, name string) { left = append(left, kind+" "+name) }
	deployments, err := client.AppsV1().Deployments(installed).List(ctx, everything)
	noError(t, err)
	for _, d := range deployments.Items {
		note("Deployment", d.Name)
	}
	sets, err := client.AppsV1().StatefulSets(installed).List(ctx, everything)
	noError(t, err)
	for _, s := range sets.Items {
		note("StatefulSet", s.Name)
	}
	secrets, err := client.CoreV1().Secrets(installed).List(ctx, everything)
	noError(t, err)
	for _, s := range secrets.Items {
		note("Secret", s.Name)
	}
	claims, err := client.CoreV1().PersistentVolumeClaims(installed).List(ctx, everything)
	noError(t, err)
	for _, c := range claims.Items {
		note("claim", c.Name)
	}
	slices.Sort(left)
	want := []string{"Secret openshell-tls", "Secret portcullis-registry", "StatefulSet openshell", "claim records-openshell-0"}
	if !slices.Equal(left, want) {
		t.Errorf("in the namespace %s there are %v, want %v", installed, left, want)
	}
	r.demandNothingOfCluster(ctx, t)
}

// demandNothingOfCluster: no object outside of the namespaces is left, and none in the one where a team had sandboxes.
func (r *reader) demandNothingOfCluster(ctx context.Context, t *testing.T) {
	t.Helper()
	client := r.c.Client()
	found := map[string]bool{}
	roles, err := client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	noError(t, err)
	for _, role := range roles.Items {
		found["ClusterRole "+role.Name] = true
	}
	bindings, err := client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	noError(t, err)
	for _, binding := range bindings.Items {
		found["ClusterRoleBinding "+binding.Name] = true
	}
	guards, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	noError(t, err)
	for _, guard := range guards.Items {
		found["ValidatingAdmissionPolicy "+guard.Name] = true
	}
	for name := range found {
		if strings.Contains(name, " portcullis-") {
			t.Errorf("%s is left", name)
		}
	}
	fences, err := client.NetworkingV1().NetworkPolicies("team-a").List(ctx, metav1.ListOptions{})
	noError(t, err)
	for _, fence := range fences.Items {
		t.Errorf("NetworkPolicy %s is left in the team's namespace", fence.Name)
	}
}
