package deploy_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// TestReplayF06ListIsMountedWhole: the list of namespaces is a ConfigMap of a fixed name whose directory is mounted, so that the kubelet
// brings each change of it to the file that nswatch reads.
func TestReplayF06ListIsMountedWhole(t *testing.T) {
	t.Parallel()
	w := survey(t, rendered(t)["operator-file"].Objects)
	i := slices.IndexFunc(w.Pods, func(p deploy.Pod) bool { return p.Workload == "Deployment nswatch" })
	pod := w.Pods[i]
	tree := map[string]any{}
	if err := toml.Unmarshal([]byte(settingsOf(w, pod)), &tree); err != nil {
		t.Fatal(err)
	}
	file, _ := value(tree, "openshell.drivers.kubernetes.operator_namespace_file").(string)
	mounts := pod.Spec.Containers[0].VolumeMounts
	m := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == filepath.Dir(file) })
	if m < 0 || mounts[m].SubPath != "" || mounts[m].SubPathExpr != "" {
		t.Fatalf("nothing is mounted, whole, at the directory of %q: %+v", file, mounts)
	}
	v := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mounts[m].Name })
	list := pod.Spec.Volumes[v].ConfigMap
	if list == nil || list.Name != "portcullis-namespaces" || len(list.Items) > 0 {
		t.Fatalf("the list is mounted from %+v", pod.Spec.Volumes[v])
	}
	if !slices.ContainsFunc(w.ConfigMaps, func(c corev1.ConfigMap) bool { return c.Name == list.Name && c.Data[filepath.Base(file)] != "" }) {
		t.Errorf("ConfigMap %s has no %s", list.Name, filepath.Base(file))
	}
}

// TestReplayP07NoEmptyList: an empty list of ports or peers is everything to one reader and nothing to the other; there is none.
func TestReplayP07NoEmptyList(t *testing.T) {
	t.Parallel()
	for name, rendering := range rendered(t) {
		for _, breach := range listsAreFull(survey(t, rendering.Objects)) {
			t.Errorf("%s: %s", name, breach)
		}
	}
}

// TestReplayP10PortOfDNS: rules are looked at after addresses are translated, and on OpenShift the servers of names listen at another
// port: there both are open, elsewhere the one.
func TestReplayP10PortOfDNS(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"operator-label": {"TCP/53", "UDP/53"},
		"openshift":      {"TCP/53", "TCP/5353", "UDP/53", "UDP/5353"},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policies := survey(t, rendered(t)[name].Objects).Policies
			if len(policies) < 5 {
				t.Fatalf("there are %d policies", len(policies))
			}
			for _, policy := range policies {
				if have := namePorts(policy); !slices.Equal(have, want) {
					t.Errorf("NetworkPolicy %s lets out to %v, not to %v", policy.Name, have, want)
				}
			}
		})
	}
}

// namePorts are the ports of names that a policy lets out to, to anywhere.
func namePorts(policy networkingv1.NetworkPolicy) (ports []string) {
	for _, rule := range policy.Spec.Egress {
		for _, port := range rule.Ports {
			if number := port.Port.String(); len(rule.To) == 0 && strings.HasSuffix(number, "53") {
				protocol := corev1.ProtocolTCP
				if port.Protocol != nil {
					protocol = *port.Protocol
				}
				ports = append(ports, fmt.Sprintf("%s/%s", protocol, number))
			}
		}
	}
	slices.Sort(ports)
	return ports
}

// TestReplayG07SocketOfOneUser: who is on the other side of the private socket is known by its uid, so all containers have that of the Pod, and
// nobody else can reach the socket; it is shared, and the token of lifecycle is not.
func TestReplayG07SocketOfOneUser(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gateway-relay", "gateway-lifecycle"} {
		for _, p := range survey(t, rendered(t)[name].Objects).Pods {
			if p.Workload != "StatefulSet openshell" && p.Workload != "Deployment openshell" {
				continue
			}
			uid := p.Spec.SecurityContext.RunAsUser
			if uid == nil || len(p.Spec.InitContainers) != 1 || len(p.Spec.Containers) != 1 {
				t.Fatalf("%s: the Pod's user is %v, and it has %d and %d containers", name, uid, len(p.Spec.InitContainers), len(p.Spec.Containers))
			}
			for _, c := range containers(p) {
				if user := cmp.Or(c.SecurityContext.RunAsUser, uid); *user != *uid {
					t.Errorf("%s: container %s runs as %d, not as %d", name, c.Name, *user, *uid)
				}
				mounts := func(volume string) bool {
					return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
				}
				if !mounts("portcullis-socket") {
					t.Errorf("%s: container %s does not see the socket", name, c.Name)
				}
				if c.Name == "openshell" && (mounts("portcullis-token") || p.Spec.AutomountServiceAccountToken != nil && *p.Spec.AutomountServiceAccountToken) {
					t.Errorf("%s: the gateway sees the token of lifecycle", name)
				}
			}
		}
	}
}
