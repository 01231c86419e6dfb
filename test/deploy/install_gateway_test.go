package deploy_test

import (
	"cmp"
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// labelOfWorkload is the line of the documented gateway by which the relay is put in.
const labelOfWorkload = "  labels:\n    app.kubernetes.io/name: openshell # by this one the relay is put in\n"

// TestInstallLooksForTheRelay: the command that docs/install.md has for it succeeds with the gateway that stands there, and fails when the label
// is on the Pod alone: then kustomize puts nothing in, and says nothing.
func TestInstallLooksForTheRelay(t *testing.T) {
	t.Parallel()
	const command = "kubectl kustomize . | "
	i := slices.IndexFunc(blocks(t, "sh node"), func(text string) bool { return strings.HasPrefix(text, command) })
	if i < 0 {
		t.Fatalf("docs/install.md has no %s", command)
	}
	look := strings.TrimPrefix(blocks(t, "sh node")[i], command)
	for name, test := range map[string]struct {
		changes []string
		in      bool
	}{"as documented": {nil, true}, "label on the Pod alone": {[]string{labelOfWorkload, ""}, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rendering, err := asInstalled(t, documented, nil, test.changes...)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", look)
			cmd.Stdin = strings.NewReader(string(rendering.Text))
			out, err := cmd.CombinedOutput()
			if lines := strings.Count(string(out), "\n"); test.in != (err == nil) || test.in != (lines == 1) {
				t.Errorf("it says %q, %v", out, err)
			}
		})
	}
}

// theGateway is the Pod of the documented gateway.
func theGateway(t *testing.T, rendering *deploy.Rendering) deploy.Pod {
	t.Helper()
	pods := survey(t, rendering.Objects).Pods
	i := slices.IndexFunc(pods, func(p deploy.Pod) bool { return p.Workload == "StatefulSet openshell" })
	if i < 0 {
		t.Fatal("no gateway is installed")
	}
	return pods[i]
}

// said is the user that is named; 0 is none.
func said(user *int64) int64 {
	if user == nil {
		return 0
	}
	return *user
}

// TestInstallOfAnotherUser: with user.yaml of docs/install.md the gateway's Pod, its own container and the relay have the user that stands there,
// and without it the one that the document says they get.
func TestInstallOfAnotherUser(t *testing.T) {
	t.Parallel()
	const patches = "patches:\n  - path: user.yaml\n"
	for name, test := range map[string]struct {
		changes []string
		uid     int64
	}{"none said": {nil, 65532}, "user.yaml": {[]string{"configMapGenerator:\n", patches + "configMapGenerator:\n"}, 1000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rendering, err := asInstalled(t, documented, nil, test.changes...)
			if err != nil {
				t.Fatal(err)
			}
			p := theGateway(t, rendering)
			if group := p.Spec.SecurityContext.FSGroup; group == nil || *group != test.uid {
				t.Errorf("files belong to the group %v", group)
			}
			users := []int64{said(p.Spec.SecurityContext.RunAsUser)}
			for _, c := range containers(p) {
				users = append(users, said(cmp.Or(c.SecurityContext.RunAsUser, p.Spec.SecurityContext.RunAsUser)))
			}
			if want := []int64{test.uid, test.uid, test.uid}; !slices.Equal(users, want) {
				t.Errorf("the Pod and its containers have the users %v, want %v", users, want)
			}
		})
	}
}

// TestRelayAsksNothingOfItsPod: what is put beside a gateway passes Pod security by its own fields, whatever the gateway's Pod says.
func TestRelayAsksNothingOfItsPod(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gateway-relay", "gateway-lifecycle"} {
		for _, p := range survey(t, rendered(t)[name].Objects).Pods {
			if p.Workload != "StatefulSet openshell" && p.Workload != "Deployment openshell" {
				continue
			}
			p.Spec.SecurityContext, p.Spec.Containers = nil, nil
			for _, breach := range podsRestricted(&deploy.World{Pods: []deploy.Pod{p}}) {
				t.Errorf("%s: %s", name, breach)
			}
		}
	}
}

// TestPullSecretIsEverywhere: with the component every Pod of the mesh's namespace pulls with the Secret, the gateway's too.
func TestPullSecretIsEverywhere(t *testing.T) {
	t.Parallel()
	pods := survey(t, rendered(t)["pull-secret"].Objects).Pods
	for _, p := range pods {
		if names := p.Spec.ImagePullSecrets; len(names) != 1 || names[0].Name != "portcullis-registry" {
			t.Errorf("%s pulls with %v", p.Workload, names)
		}
	}
	if len(pods) < 9 {
		t.Errorf("there are only %d workloads", len(pods))
	}
	if made := strings.Join(blocks(t, "sh node"), ""); !strings.Contains(made, "docker-registry portcullis-registry -n portcullis ") {
		t.Error("docs/install.md does not make that Secret")
	}
}

// TestAnotherPortOfTheAPIServer: api-server.yaml of docs/install.md lets out those Pods to another port that the policies here let out to the API
// server at its usual ones, and no others.
func TestAnotherPortOfTheAPIServer(t *testing.T) {
	t.Parallel()
	rendering, err := asInstalled(t, documented, nil, "  - gateway.yaml\n", "  - gateway.yaml\n  - api-server.yaml\n")
	if err != nil {
		t.Fatal(err)
	}
	w := survey(t, rendering.Objects)
	usual, other := letOut(w, 6443), letOut(w, 8443)
	// Port 8443 is tokenauth's too, to which other policies let lifecycle out: by name, and not to everywhere.
	if !slices.Equal(usual, other) || len(usual) != 6 {
		t.Errorf("to port 6443 are let out %v, to the other %v", usual, other)
	}
}

// letOut are the workloads whose Pods a policy lets out to a port wherever it is, sorted.
func letOut(w *deploy.World, port int32) (workloads []string) {
	for _, policy := range w.Policies {
		if !slices.ContainsFunc(policy.Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
			return len(rule.To) == 0 && slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
				return p.Port != nil && p.Port.IntVal == port
			})
		}) {
			continue
		}
		for _, p := range selected(w, policy.Namespace, &policy.Spec.PodSelector) {
			workloads = append(workloads, p.Workload)
		}
	}
	slices.Sort(workloads)
	return slices.Compact(workloads)
}
