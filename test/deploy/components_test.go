package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// directories are those with a kustomization below deploy/kustomize, by their path there.
func directories(t *testing.T) (all []string) {
	t.Helper()
	top := filepath.Join(root, "deploy", "kustomize")
	err := filepath.WalkDir(top, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		name, err := filepath.Rel(top, filepath.Dir(path))
		all = append(all, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReadmeNamesEverything: whoever looks at the directory is told what each part is for, and what others make.
func TestReadmeNamesEverything(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "kustomize", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range directories(t) {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("README.md does not say what `%s` is for", name)
		}
	}
	for _, name := range madeElsewhere {
		_, path, _ := strings.Cut(name, " ")
		_, object, _ := strings.Cut(path, "/")
		if object != "default" && object != "kube-root-ca.crt" && !strings.Contains(string(text), "`"+object+"`") {
			t.Errorf("README.md does not say who makes `%s`", object)
		}
	}
}

// TestOverlays: what is installed, whole, in each mode.
func TestOverlays(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"shared":         {"Deployment tokenauth", "Deployment supervisorctl", "Deployment lifecycle"},
		"managed":        {"Deployment tokenauth", "Deployment supervisorctl", "Deployment lifecycle"},
		"operator-label": {"Deployment nswatch", "Deployment tokenauth", "Deployment supervisorctl", "Deployment lifecycle", "StatefulSet nats", "Job nats-bootstrap"},
		"operator-file":  {"Deployment nswatch", "Deployment tokenauth", "Deployment supervisorctl", "Deployment lifecycle", "StatefulSet nats", "Job nats-bootstrap"},
		"ha":             {"Deployment nswatch", "Deployment tokenauth", "Deployment supervisorctl", "Deployment lifecycle", "StatefulSet nats", "Job nats-bootstrap"},
		"dev":            {"Deployment nswatch", "Deployment tokenauth", "Deployment supervisorctl", "Deployment lifecycle", "StatefulSet nats", "Job nats-bootstrap", "Job portcullis-provision", "CronJob portcullis-provision"},
	}
	least := map[string]int{"ha": 2, "dev": 1, "shared": 2, "managed": 2}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var have []string
			for _, p := range survey(t, rendered(t)[name].Objects).Pods {
				have = append(have, p.Workload)
				if p.Replicas > 0 && p.Replicas < least[name] {
					t.Errorf("%s runs %d times, not %d", p.Workload, p.Replicas, least[name])
				}
			}
			slices.Sort(have)
			slices.Sort(want)
			if !slices.Equal(have, want) {
				t.Errorf("it installs %v, not %v", have, want)
			}
		})
	}
	for _, name := range directories(t) {
		if overlay, ok := strings.CutPrefix(name, "overlays/"); ok && tests[overlay] == nil {
			t.Errorf("nothing is known about overlay %s", overlay)
		}
	}
}

// TestBasesStandAlone: each daemon is whole by itself, and needs beside it the settings and what others make.
func TestBasesStandAlone(t *testing.T) {
	t.Parallel()
	for _, daemon := range []string{"nswatch", "tokenauth", "supervisorctl", "lifecycle", "nats"} {
		t.Run(daemon, func(t *testing.T) {
			t.Parallel()
			rendering, err := deploy.Render(filepath.Join(root, "deploy", "kustomize", "base", daemon))
			if err != nil {
				t.Fatal(err)
			}
			kinds := map[string]bool{}
			for _, object := range rendering.Objects {
				kinds[object.GetKind()] = true
			}
			want := []string{"ServiceAccount", "Service", "PodDisruptionBudget", "NetworkPolicy"}
			if daemon == "nats" {
				want = append(want, "StatefulSet", "Job")
			} else {
				want = append(want, "Deployment", "ClusterRole", "ClusterRoleBinding")
			}
			for _, kind := range want {
				if !kinds[kind] {
					t.Errorf("it has no %s", kind)
				}
			}
			w := survey(t, rendering.Objects)
			for _, rule := range []string{"Pods are restricted", "Pods are probed", "Pods end in their time", "Services serve", "budgets hold", "bindings bind", "rights are narrow", "lists are full"} {
				for _, breach := range rules[rule](w) {
					t.Error(breach)
				}
			}
			for _, breach := range nothingIsMissing(w) {
				if !strings.Contains(breach, "ConfigMap portcullis/portcullis-config,") {
					t.Error(breach)
				}
			}
		})
	}
}

// TestFileTrustsNobody: whoever installs overlays/operator-file and forgets to say which namespaces may hold sandboxes trusts none.
func TestFileTrustsNobody(t *testing.T) {
	t.Parallel()
	w := survey(t, rendered(t)["operator-file"].Objects)
	i := slices.IndexFunc(w.ConfigMaps, func(c corev1.ConfigMap) bool { return c.Name == "portcullis-namespaces" })
	if i < 0 {
		t.Fatal("there is no list")
	}
	if list := strings.TrimSpace(w.ConfigMaps[i].Data["namespaces.json"]); list != "[]" {
		t.Errorf("the list that is shipped is %q", list)
	}
}

// TestOpenShiftPinsNobody: no user or group is named, of any Pod, the gateway's with what is beside it included.
func TestOpenShiftPinsNobody(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"openshift", "openshift-gateway-relay", "openshift-gateway-lifecycle"} {
		gateways := 0
		for _, p := range survey(t, rendered(t)[name].Objects).Pods {
			if strings.HasSuffix(p.Workload, " openshell") {
				gateways++
			}
			if s := p.Spec.SecurityContext; s == nil || s.RunAsUser != nil || s.RunAsGroup != nil || s.FSGroup != nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
				t.Errorf("%s of %s says who it runs as: %+v", p.Workload, name, s)
			}
			for _, c := range containers(p) {
				if c.SecurityContext.RunAsUser != nil || c.SecurityContext.RunAsGroup != nil {
					t.Errorf("container %s of %s of %s says who it runs as", c.Name, p.Workload, name)
				}
			}
			if p.Meta.Annotations["openshift.io/required-scc"] != "restricted-v2" {
				t.Errorf("%s of %s does not ask for restricted-v2", p.Workload, name)
			}
		}
		if name != "openshift" && gateways != 1 {
			t.Errorf("%s has %d gateways", name, gateways)
		}
	}
}
