package deploy_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/portcullis-mesh/portcullis/test/deploy"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// settingsOf is the text of gateway.toml that a Pod of ours has in front of it; empty for others.
func settingsOf(w *deploy.World, p deploy.Pod) string {
	for _, v := range p.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		for _, c := range w.ConfigMaps {
			if text, ok := c.Data["gateway.toml"]; ok && c.Name == v.ConfigMap.Name && c.Namespace == p.Namespace {
				return text
			}
		}
	}
	return ""
}

// ours is the daemon that a container runs, as its own settings table calls it; false for a command and for what others run.
func ours(c corev1.Container) (string, bool) {
	_, daemon, _ := imageOf(c)
	switch {
	case !slices.Contains(daemons, daemon) || len(c.Args) == 0:
		return "", false
	case c.Args[0] == "relay":
		return "relay", true
	}
	return daemon, c.Args[0] == "--config"
}

// filesOf are the settings that name files of a daemon's own.
func filesOf(daemon string, operator bool) []string {
	files := map[string][]string{"nswatch": {"portcullis.nswatch.signing_key_file"}, "tokenauth": {"portcullis.audit.hash_key_file"}}[daemon]
	if daemon != "nswatch" {
		files = append(files, "portcullis.mesh.cert_file", "portcullis.mesh.key_file", "portcullis.mesh.ca_file")
	}
	if operator && daemon != "supervisorctl" && daemon != "relay" {
		files = append(files, "portcullis.nats.ca_file", "portcullis.nats.nkey_seed_file", "portcullis.allowlist.public_keys_file")
	}
	if daemon == "nswatch" {
		files = append(files, "openshell.drivers.kubernetes.operator_namespace_file")
	}
	return files
}

// settingsAgree: gateway.toml and the Pods that read it say the same: ports, files, and the names of the Secrets that may be read.
func settingsAgree(w *deploy.World) (found breaches) {
	for _, p := range w.Pods {
		text := settingsOf(w, p)
		tree := map[string]any{}
		if err := toml.Unmarshal([]byte(text), &tree); err != nil {
			found.add("the settings of %s: %v", p.Workload, err)
			continue
		}
		operator := value(tree, "openshell.drivers.kubernetes.workspace_mode") == "operator"
		for _, c := range containers(p) {
			daemon, ok := ours(c)
			if !ok {
				continue
			}
			for _, key := range []string{"http_address", "listen_address", "relay_listen_address"} {
				key = "portcullis." + daemon + "." + key
				address, set := value(tree, key).(string)
				if _, port, err := net.SplitHostPort(address); set && !hasNumber(c, port) {
					found.add("%s is %q, and container %s of %s has no such port (%v)", key, address, c.Name, p.Workload, err)
				}
			}
			for _, key := range filesOf(daemon, operator) {
				path, set := value(tree, key).(string)
				if set && !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == filepath.Dir(path) }) {
					found.add("%s is %q, and container %s of %s mounts nothing at its directory", key, path, c.Name, p.Workload)
				}
			}
			for _, address := range addressesOf(tree, daemon, operator) {
				if !served(w, address) {
					found.add("container %s of %s calls %q, and no Service there has that port", c.Name, p.Workload, address)
				}
			}
			if daemon == "supervisorctl" {
				found = append(found, sourcesAgree(w, tree)...)
			}
			if allowed := value(tree, "openshell.drivers.kubernetes.allow_driver_config") == true; daemon == "lifecycle" && allowed != grantsClaims(w) {
				found.add("allow_driver_config is %t in the settings of %s, and that somebody may read claims is %t: components/driver-config goes with it", allowed, p.Workload, !allowed)
			}
			if lease := leaseOf(tree, daemon); lease != "" && !named(w, p.Namespace, "leases", lease) {
				found.add("%s leads by Lease %s, and no Role in its namespace names that", p.Workload, lease)
			}
		}
	}
	return found
}

// addressesOf are the Services of the mesh that a daemon calls, as host:port.
func addressesOf(tree map[string]any, daemon string, operator bool) []string {
	var addresses []string
	for _, key := range map[string][]string{
		"lifecycle": {"portcullis.lifecycle.supervisorctl_address", "portcullis.lifecycle.tokenauth_address"},
		"relay":     {"portcullis.relay.lifecycle_address"},
	}[daemon] {
		addresses = append(addresses, fmt.Sprint(value(tree, key)))
	}
	if urls, ok := value(tree, "portcullis.nats.urls").([]any); ok && operator && daemon != "supervisorctl" && daemon != "relay" {
		for _, url := range urls {
			addresses = append(addresses, strings.TrimPrefix(fmt.Sprint(url), "tls://"))
		}
	}
	return addresses
}

// served reports whether a Service answers to the address, by a name of its namespace.
func served(w *deploy.World, address string) bool {
	return slices.ContainsFunc(w.Services, func(s corev1.Service) bool { return serves(s, address) })
}

// serves reports whether it is this Service that answers to the address.
func serves(s corev1.Service, address string) bool {
	host, port, err := net.SplitHostPort(address)
	name := s.Name + "." + s.Namespace + ".svc"
	return err == nil && (host == name || strings.HasSuffix(host, "."+name)) &&
		slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return fmt.Sprint(p.Port) == port })
}

// leaseOf is the Lease by which the replicas of a daemon choose a leader; empty for those that do not.
func leaseOf(tree map[string]any, daemon string) string {
	if daemon != "nswatch" && daemon != "supervisorctl" {
		return ""
	}
	if name, ok := value(tree, "portcullis."+daemon+".lease_name").(string); ok {
		return name
	}
	return fmt.Sprintf("portcullis-%s-%v", daemon, value(tree, "openshell.drivers.kubernetes.gateway_id"))
}

// named reports whether a Role of the namespace grants something on the resource by its name.
func named(w *deploy.World, namespace, resource, name string) bool {
	return slices.ContainsFunc(w.Roles, func(r deploy.Role) bool {
		return r.Namespace == namespace && slices.ContainsFunc(r.Rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.Resources, resource) && slices.Contains(rule.ResourceNames, name)
		})
	})
}

func hasNumber(c corev1.Container, port string) bool {
	return slices.ContainsFunc(c.Ports, func(have corev1.ContainerPort) bool { return fmt.Sprint(have.ContainerPort) == port })
}

// value is what a dotted key has.
func value(tree map[string]any, key string) any {
	var at any = tree
	for step := range strings.SplitSeq(key, ".") {
		inside, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = inside[step]
	}
	return at
}

// sourcesAgree: supervisorctl may read the Secrets that its settings name, in their namespace, and no others (contract 9.5).
func sourcesAgree(w *deploy.World, tree map[string]any) (found breaches) {
	var want []string
	mode, stock := value(tree, "openshell.drivers.kubernetes.workspace_mode"), "openshell.drivers.kubernetes."
	if pull, ok := value(tree, stock+"image_pull_secrets").([]any); ok && mode == "managed" {
		for _, name := range pull {
			want = append(want, fmt.Sprint(name))
		}
	}
	if name, ok := value(tree, stock+"client_tls_secret_name").(string); ok && mode != "shared" {
		want = append(want, name)
	}
	var have []string
	for _, r := range w.Roles {
		for _, rule := range r.Rules {
			if slices.Contains(rule.Resources, "secrets") && slices.Contains(rule.Verbs, "get") && r.Namespace == value(tree, stock+"namespace") {
				have = append(have, rule.ResourceNames...)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(want, have) {
		found.add("the settings name the Secrets %v to copy, and the Role supervisorctl-sources grants %v", want, have)
	}
	return found
}

// grantsClaims reports whether a role grants anything on claims; lifecycle alone has a use for them, with driver_config.
func grantsClaims(w *deploy.World) bool {
	return slices.ContainsFunc(w.Roles, func(r deploy.Role) bool {
		return slices.ContainsFunc(r.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "persistentvolumeclaims") })
	})
}

// TestSettingsPass: each gateway.toml passes the offline check of every daemon that reads it.
func TestSettingsPass(t *testing.T) {
	t.Parallel()
	for name, rendering := range rendered(t) {
		w := survey(t, rendering.Objects)
		checked := map[string]bool{}
		for _, p := range w.Pods {
			for _, c := range containers(p) {
				daemon, ok := ours(c)
				text := settingsOf(w, p)
				if !ok || checked[daemon] {
					continue
				}
				checked[daemon] = true
				t.Run(name+"/"+daemon, func(t *testing.T) {
					t.Parallel()
					if text == "" {
						t.Fatalf("%s has no settings", p.Workload)
					}
					args := []string{"config", "check", "--config", program.Settings(t, text)}
					if daemon == "relay" {
						daemon, args = "lifecycle", append([]string{"relay"}, args...)
					}
					if out, err := program.Command(t, daemon, args...).CombinedOutput(); err != nil {
						t.Errorf("%v\n%s", err, out)
					}
				})
			}
		}
		if want := []string{"lifecycle", "supervisorctl", "tokenauth"}; len(w.Pods) > 0 && !containsAll(slices.Collect(maps.Keys(checked)), want) {
			t.Errorf("%s runs %v, and not all of %v", name, slices.Collect(maps.Keys(checked)), want)
		}
	}
}

func containsAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(have, s) })
}

// TestNATSVersion: the server that is installed is the one that is tested with.
func TestNATSVersion(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile(filepath.Join(root, "test", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name, rendering := range rendered(t) {
		for _, p := range survey(t, rendering.Objects).Pods {
			for _, c := range containers(p) {
				if _, program, tag := imageOf(c); program == "nats" {
					seen++
					if !strings.Contains(string(mod), "github.com/nats-io/nats-server/v2 v"+tag+"\n") {
						t.Errorf("%s installs NATS %s, which is not what go.mod has", name, tag)
					}
				}
			}
		}
	}
	if seen == 0 {
		t.Error("nothing installs NATS")
	}
}
