package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// restricted has the API server refuse every Pod that the Pod security standard "restricted" does not allow.
const restricted = "pod-security.kubernetes.io/enforce=restricted"

// tenant is a gateway with every option that puts something into a Pod or a Secret, and the Secrets that its settings name.
type tenant struct {
	*supervisor.Site
	bundle string // the file proxy_ca_bundle
	class  string
	// what the sources hold now
	client       meshtest.Pair
	clientCA     []byte
	proxyCA      []byte
	pull         map[string][]byte // by source
	certificates *meshtest.CA
}

const (
	clientTLS = "client-tls"
	proxyAuth = "proxy-auth"
	socket    = "/spiffe-workload-api/agent.sock"
)

var pullSecrets = []string{"pull-a", "pull-b"}

// newTenant makes a gateway of the mode, and the first version of its sources.
func newTenant(t *testing.T, mode supervisor.Mode, dialect reconcile.Dialect) *tenant {
	t.Helper()
	c := sharedCluster(t)
	x := &tenant{
		Site:   supervisor.NewAs(t, c, dialect, supervisor.Setup{Mode: mode, ClientTLS: clientTLS, PullSecrets: pullSecrets}),
		bundle: filepath.Join(t.TempDir(), "proxy.pem"), pull: map[string][]byte{},
	}
	x.class = "rc-" + x.Home()
	classes := c.Client().NodeV1().RuntimeClasses()
	_, err := classes.Create(t.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: x.class}, Handler: "sandboxed"}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, classes.Delete(context.WithoutCancel(t.Context()), x.class, metav1.DeleteOptions{})) })
	x.rotate(t, "1")
	x.Stock = []string{
		`https_proxy = "https://proxy.example:3128"`, fmt.Sprintf("proxy_auth_secret_name = %q", proxyAuth), `proxy_auth_secret_key = "basic"`,
		fmt.Sprintf("proxy_ca_bundle = %q", x.bundle), fmt.Sprintf("provider_spiffe_workload_api_socket_path = %q", socket),
		"enable_user_namespaces = true", fmt.Sprintf("default_runtime_class_name = %q", x.class), `host_gateway_ip = "192.0.2.7"`,
		`supervisor_otlp_endpoint = "https://otlp.example:4317"`,
	}
	return x
}

// where is the namespace of the sources: the sandboxes' own unless the daemon carries them there (contract 9.5).
func (x *tenant) where(setting string, sandboxes string) string {
	if x.Mode == supervisor.Shared || x.Mode == supervisor.Operator && setting == "image_pull_secrets" {
		return sandboxes
	}
	return x.Home()
}

// rotate replaces the sources in Home by new ones, and the proxy's bundle.
func (x *tenant) rotate(t *testing.T, version string) {
	t.Helper()
	x.certificates = meshtest.NewCA(t)
	x.client, x.clientCA, x.proxyCA = x.certificates.Issue(t, "supervisor-"+version), x.certificates.PEM, meshtest.NewCA(t).PEM
	must(t, os.WriteFile(x.bundle, x.proxyCA, 0o600))
	replace(t, x.Site, x.Home(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: clientTLS}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"ca.crt": x.clientCA, corev1.TLSCertKey: x.client.Cert, corev1.TLSPrivateKeyKey: x.client.Key},
	})
	for _, name := range pullSecrets {
		x.pull[name] = fmt.Appendf(nil, `{"auths":{"registry.example":{"auth":"%s-%s"}}}`, name, version)
		replace(t, x.Site, x.Home(), pullSource(name, x.pull[name]))
	}
}

func pullSource(name string, content []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: content},
	}
}

// replace makes a Secret in place of the one of its name, if there is one.
func replace(t *testing.T, s *supervisor.Site, namespace string, secret *corev1.Secret) {
	t.Helper()
	secrets := s.Cluster.Client().CoreV1().Secrets(namespace)
	must(t, secrets.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + secret.Name}))
	_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	must(t, err)
}

// place makes a restricted namespace with what its owner puts there, and a Box with every option of the template.
func (x *tenant) place(t *testing.T) *supervisor.Box {
	t.Helper()
	ns := namespace(t, x.Site, restricted)
	_, err := x.Cluster.Client().CoreV1().Namespaces().Patch(t.Context(), ns, "application/merge-patch+json",
		fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`), metav1.PatchOptions{})
	must(t, err)
	demandRestricted(t, x.Site, ns)
	theirs := []*corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: proxyAuth}, StringData: map[string]string{"basic": "user:word"}}}
	if x.where("image_pull_secrets", ns) == ns {
		for _, name := range pullSecrets {
			theirs = append(theirs, pullSource(name, x.pull[name]))
		}
	}
	if x.where("client_tls_secret_name", ns) == ns {
		theirs = append(theirs, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: clientTLS}, Data: map[string][]byte{"ca.crt": x.clientCA}})
	}
	for _, secret := range theirs {
		replace(t, x.Site, ns, secret)
	}
	return x.Box(ns, func(d *supervisor.Draft) {
		d.Pod.HostUsers, d.Pod.RuntimeClassName = new(false), &x.class
		d.Pod.HostAliases = []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"host.docker.internal", "host.openshell.internal"}}}
	})
}

// demandRestricted demands that the namespace takes no Pod that does not restrict itself, so that those that it takes prove something.
func demandRestricted(t *testing.T, s *supervisor.Site, ns string) {
	t.Helper()
	_, err := s.Cluster.Client().CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "free"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/c"}}},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("the namespace takes any Pod: %v", err)
	}
}

// demand demands exactly the set of a run beside what was there before.
func (x *tenant) demand(t *testing.T, b *supervisor.Box, before supervisor.State, want ...string) {
	t.Helper()
	slices.Sort(want)
	cluster.Eventually(t, "exactly the objects of the run are there", func(ctx context.Context) error { // Secrets go with their Pods
		now, err := x.History.Look(ctx, b.Namespace)
		if err != nil {
			return err
		}
		var made []string
		for _, key := range now.Companions() {
			if before[key] == nil {
				made = append(made, key)
			}
		}
		if diff := cmp.Diff(want, made); diff != "" {
			return errors.New("objects of the run (-want +got):\n" + diff)
		}
		return nil
	})
}

// In every mode a sandbox goes through its life with every option set, in a namespace that takes only what the Pod security standard
// "restricted" allows, and the loop stops a run that has lost a part. What others hold is staged, copied or mounted as the mode has it, the next start picks up what was rotated, and
// the daemon uses every right that it has, and no other.
func TestModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []supervisor.Mode{supervisor.Operator, supervisor.Shared, supervisor.Managed} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			x := newTenant(t, mode, newest)
			if mode == supervisor.Managed {
				x.Bounds = append(x.Bounds, "stage_client_key = true")
			}
			client := x.Client(x.Start())
			b := x.place(t)
			before := x.History.Now(b.Namespace)

			resp, err := client.Provision(t.Context(), b, b.Run)
			must(t, err)
			x.demand(t, b, before, x.whole(b, b.Run)...)
			x.demandMaterial(t, b, b.Run)
			demandIdentity(t, x.Site, b, resp.GetIdentity())
			awaitStatus(t, client, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)

			x.rotate(t, "2")
			next := supervisor.NewRun(2)
			_, err = client.Restart(t.Context(), b, next)
			must(t, err)
			x.demand(t, b, before, x.whole(b, next)...)
			x.demandMaterial(t, b, next)
			awaitStatus(t, client, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)

			_, err = client.Release(t.Context(), b, next)
			must(t, err)
			x.demand(t, b, before, supervisor.Services+"/"+b.ServiceName())
			demandSettled(t, x.Site, b)

			last := supervisor.NewRun(3)
			_, err = client.Restart(t.Context(), b, last)
			must(t, err)
			awaitStatus(t, client, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)
			must(t, harms["the supervisor Pod"](t, x.Site, b))
			awaitStatus(t, client, b, supervisorv1.Phase_PHASE_SUSPENDED, supervisorv1.Readiness_READINESS_UNAVAILABLE)
			_, err = client.Remove(t.Context(), b, supervisor.Run{})
			must(t, err)
			x.demand(t, b, before)
			for key, object := range before {
				if now := x.History.Now(b.Namespace)[key]; strings.HasPrefix(key, supervisor.Secrets) && (now == nil || now.GetResourceVersion() != object.GetResourceVersion()) {
					t.Errorf("%s was somebody else's, and is not what it was", key)
				}
			}
			cluster.Eventually(t, "every right is used", func(context.Context) error { return x.RightsUsed() })
		})
	}
}

// whole are the companions of a run.
func (x *tenant) whole(b *supervisor.Box, run supervisor.Run) []string {
	keys := whole(b, run.Generation)
	for _, name := range b.Copies(run.Generation) {
		keys = append(keys, supervisor.Secrets+"/"+name)
	}
	return keys
}

// demandMaterial demands that the run has the present content of every source, where its mode has it.
func (x *tenant) demandMaterial(t *testing.T, b *supervisor.Box, run supervisor.Run) {
	t.Helper()
	core := x.Cluster.Client().CoreV1()
	get := func(name string) *corev1.Secret {
		secret, err := core.Secrets(b.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		return secret
	}
	theirs := get(b.SecretName("supervisor", run.Generation)).Data
	want := map[string]string{"upstream-proxy-ca.pem": string(x.proxyCA)}
	env := map[string]string{}
	const mounted, staged = "/var/run/secrets/openshell-tls/", "/.openshell/supervisor/"
	switch x.Mode {
	case supervisor.Shared:
		env["OPENSHELL_TLS_CA"], env["OPENSHELL_TLS_CERT"], env["OPENSHELL_TLS_KEY"] = mounted+"ca.crt", mounted+"tls.crt", mounted+"tls.key"
	case supervisor.Managed: // with stage_client_key
		want["client-tls.crt"], want["client-tls.key"] = string(x.client.Cert), string(x.client.Key)
		env["OPENSHELL_TLS_CERT"], env["OPENSHELL_TLS_KEY"] = staged+"client-tls.crt", staged+"client-tls.key"
		fallthrough
	default:
		want["client-ca.crt"] = string(x.clientCA)
		env["OPENSHELL_TLS_CA"] = staged + "client-ca.crt"
	}
	got := map[string]string{}
	for name, content := range theirs {
		if !slices.Contains([]string{"auth.json", "proxy-ca.crt", "proxy-ca.key", "runtime-descriptor.json"}, name) {
			got[name] = string(content)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is staged in the supervisor's Secret (-want +got):\n%s", diff)
	}
	x.demandPods(t, b, run, env)
	for i, name := range b.Copies(run.Generation) {
		x.demandCopy(t, b, get(name), pullSecrets[i])
	}
}

// demandPods demands that both Pods name the pull Secrets of the mode, and that the supervisor finds its files.
func (x *tenant) demandPods(t *testing.T, b *supervisor.Box, run supervisor.Run, env map[string]string) {
	t.Helper()
	var names []string
	pods := x.Cluster.Client().CoreV1().Pods(b.Namespace)
	for _, name := range []string{b.Name, b.SupervisorName()} {
		pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		names = nil
		for _, reference := range pod.Spec.ImagePullSecrets {
			names = append(names, reference.Name)
		}
		if diff := cmp.Diff(b.PullNames(run.Generation), names); diff != "" {
			t.Errorf("pull Secrets of Pod %s (-want +got):\n%s", name, diff)
		}
	}
	pod, err := pods.Get(t.Context(), b.SupervisorName(), metav1.GetOptions{})
	must(t, err)
	got := map[string]string{}
	for _, v := range pod.Spec.Containers[0].Env {
		if strings.HasPrefix(v.Name, "OPENSHELL_TLS_") {
			got[v.Name] = v.Value
		}
	}
	if diff := cmp.Diff(env, got); diff != "" {
		t.Errorf("where the supervisor looks for the client's files (-want +got):\n%s", diff)
	}
	sources := map[string]string{} // by mount
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		for _, v := range pod.Spec.Volumes {
			switch {
			case v.Name != m.Name:
			case v.Secret != nil:
				sources[m.MountPath] = "secret " + v.Secret.SecretName
			case v.CSI != nil:
				sources[m.MountPath] = "csi " + v.CSI.Driver
			}
		}
	}
	want := map[string]string{
		"/.openshell/supervisor":             "secret " + b.SecretName("supervisor", run.Generation),
		"/run/openshell/upstream-proxy-auth": "secret " + proxyAuth,
		filepath.Dir(socket):                 "csi csi.spiffe.io",
	}
	if x.Mode == supervisor.Shared {
		want["/var/run/secrets/openshell-tls"] = "secret " + clientTLS
	}
	if diff := cmp.Diff(want, sources); diff != "" {
		t.Errorf("what the supervisor mounts (-want +got):\n%s", diff)
	}
}

// demandCopy demands an immutable copy of the source as it is now, which goes with the Pods.
func (x *tenant) demandCopy(t *testing.T, b *supervisor.Box, got *corev1.Secret, source string) {
	t.Helper()
	now := x.History.Now(b.Namespace)
	owners := map[string]string{}
	for _, o := range got.OwnerReferences {
		owners[o.Name] = string(o.UID)
	}
	wantOwners := map[string]string{}
	for _, name := range []string{b.Name, b.SupervisorName()} {
		wantOwners[name] = string(now[supervisor.Pods+"/"+name].GetUID())
	}
	if diff := cmp.Diff(wantOwners, owners); diff != "" {
		t.Errorf("owners of %s (-want +got):\n%s", got.Name, diff)
	}
	if string(got.Data[corev1.DockerConfigJsonKey]) != string(x.pull[source]) || len(got.Data) != 1 || got.Type != corev1.SecretTypeDockerConfigJson {
		t.Errorf("%s is %s with %d files, and no copy of %s as it is now", got.Name, got.Type, len(got.Data), source)
	}
	if got.Immutable == nil || !*got.Immutable || got.Labels["openshell.ai/component"] != "image-pull" || got.Labels["openshell.ai/sandbox-id"] != b.ID {
		t.Errorf("%s: immutable %v, labels %v", got.Name, got.Immutable, got.Labels)
	}
}
