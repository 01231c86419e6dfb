package broker_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// workload is the StatefulSet as shipped.
func workload(t *testing.T) *appsv1.StatefulSet {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kustomize, "base/nats/statefulset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	set := &appsv1.StatefulSet{}
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(text), set); err != nil {
		t.Fatal(err)
	}
	return set
}

func container(t *testing.T, set *appsv1.StatefulSet, name string) *corev1.Container {
	t.Helper()
	for i := range set.Spec.Template.Spec.Containers {
		if c := &set.Spec.Template.Spec.Containers[i]; c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no container %s", name)
	return nil
}

// parsed is what a server makes of these files.
func parsed(t *testing.T, f files) *server.Options {
	t.Helper()
	dir := t.TempDir()
	certificate(t, dir)
	opts, err := server.ProcessConfigFile(f.write(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	return opts
}

// TestTheManifestFitsTheFiles: ports, paths, probes, bounds and times of the StatefulSet are those of the configuration and of these tests.
func TestTheManifestFitsTheFiles(t *testing.T) {
	t.Parallel()
	set := workload(t)
	nats, reload := container(t, set, "nats"), container(t, set, "reload")
	opts := parsed(t, single(t))
	same := func(what string, got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	same("the startup probe", nats.StartupProbe.HTTPGet.Path, startup)
	same("the readiness probe", nats.ReadinessProbe.HTTPGet.Path, readiness)
	same("the liveness probe", nats.LivenessProbe.HTTPGet.Path, liveness)
	ports := map[string]int32{}
	for _, p := range nats.Ports {
		ports[p.Name] = p.ContainerPort
	}
	same("the ports", ports, map[string]int32{"client": int32(opts.Port), "monitor": int32(opts.HTTPPort), "peers": int32(parsed(t, members(t)).Cluster.Port)})

	const pid = "/run/nats/nats.pid"
	same("the server's arguments", nats.Args, []string{"--config", "/etc/nats/nats.conf", "--pid", pid})
	if nats.Lifecycle != nil {
		t.Errorf("a server that is alone is kept from stopping at once: %+v", nats.Lifecycle)
	}
	// One of several is left by its clients first, as these tests have it.
	several, err := os.ReadFile(filepath.Join(kustomize, "components/nats-ha/kustomization.yaml"))
	if want := "command: [/nats-server, --signal, ldm=" + pid + "]"; err != nil || !strings.Contains(string(several), want) {
		t.Errorf("components/nats-ha does not have %q: %v", want, err)
	}
	same("the reloader's arguments", reload.Args, []string{"nats", "reload", "--pid-file", pid, "--watch", "/etc/nats", "--watch", "/etc/nats-tls"})
	for _, c := range []*corev1.Container{nats, reload} {
		var mounts []string
		for _, m := range c.VolumeMounts {
			mounts = append(mounts, m.MountPath)
		}
		for _, needed := range []string{"/etc/nats", "/etc/nats-tls", filepath.Dir(pid)} {
			if !slices.Contains(mounts, needed) {
				t.Errorf("container %s has no %s", c.Name, needed)
			}
		}
	}
	if shares := set.Spec.Template.Spec.ShareProcessNamespace; shares == nil || !*shares {
		t.Error("the reloader does not see the server's process")
	}

	if grace, stop := *set.Spec.Template.Spec.TerminationGracePeriodSeconds, opts.LameDuckDuration.Seconds()+opts.LameDuckGracePeriod.Seconds(); float64(grace) <= stop {
		t.Errorf("a stop may take %d s, and clients are sent away for %g s", grace, stop)
	}
	claim := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
	if claim.Value() <= opts.JetStreamMaxStore {
		t.Errorf("the volume has %d bytes, and the server may use %d", claim.Value(), opts.JetStreamMaxStore)
	}
	var given int64
	for bound := range rest() {
		if bound.verb == "has the limit max_file" {
			var n int64
			if _, err := fmt.Sscan(bound.subject, &n); err != nil {
				t.Fatal(err)
			}
			given += n
		}
	}
	same("what the accounts may store", given, opts.JetStreamMaxStore)
	same("that a write is on disk when it is acknowledged", opts.SyncAlways, true)
	same("the consumers of a stream", opts.JetStreamLimits.DefaultMaxConsumers, 200)
	same("the size of a message", opts.MaxPayload, 1<<20)
	same("who is let in without an identity", opts.NoAuthUser, "")
}

// TestThreeServersFitTheManifest: the routes are the names that the StatefulSet's Pods have.
func TestThreeServersFitTheManifest(t *testing.T) {
	t.Parallel()
	set, opts := workload(t), parsed(t, members(t))
	text, err := os.ReadFile(filepath.Join(kustomize, "components/nats-ha/kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(opts.Routes) != 3 || !strings.Contains(string(text), "path: /spec/replicas\n        value: 3\n") || !strings.Contains(string(text), "args/5\n        value: \"3\"\n") {
		t.Errorf("%d routes, and the component is\n%s", len(opts.Routes), text)
	}
	for i, route := range opts.Routes {
		if want := fmt.Sprintf("%s-%d.%s.%s.svc:%d", set.Name, i, set.Spec.ServiceName, set.Namespace, opts.Cluster.Port); route.Host != want {
			t.Errorf("route %d is %s, want %s", i, route.Host, want)
		}
	}
	if !opts.Cluster.TLSCheckKnownURLs || opts.Cluster.TLSConfig.MinVersion != 0x0304 || !opts.Cluster.NoAdvertise {
		t.Error("routes are not as they should be")
	}
	// Everything that is no matter of the cluster is the same file.
	for name, text := range single(t) {
		if name != "nats.conf" && members(t)[name] != text {
			t.Errorf("%s differs", name)
		}
	}
}
