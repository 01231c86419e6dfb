//go:build portcullis_long

package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/demo"
	"github.com/portcullis-mesh/portcullis/test/images"
	"github.com/portcullis-mesh/portcullis/test/manual/commands"
)

// shippedTag is that of the daemons' images on the node.
const shippedTag = "e2e"

var shipped struct {
	sync.Mutex
	names map[string]string
}

// loadShipped builds the images that are shipped, for this machine, and loads them into the node. It returns, by the name of the
// recipe, what manifests call them.
func loadShipped(t testing.TB, c *cluster.Cluster) map[string]string {
	t.Helper()
	shipped.Lock()
	defer shipped.Unlock()
	if shipped.names != nil {
		return shipped.names
	}
	built, err := images.Build(t.Context(), images.Options{
		Root: filepath.Join("..", ".."), Into: t.TempDir(), Tag: shippedTag, Raw: true,
		Stamp:     images.Stamp{Version: "v0.0.0-e2e", Commit: "e2e", Time: time.Unix(1_700_000_000, 0)},
		Platforms: []v1.Platform{{OS: "linux", Architecture: runtime.GOARCH}},
	})
	noError(t, err)
	names := map[string]string{}
	for _, image := range built {
		c.LoadArchive(t, image.Archive)
		// Manifests use the short names, which nodes complete.
		name := strings.TrimPrefix(strings.TrimPrefix(image.Reference, "docker.io/"), "library/")
		names[image.Name] = name
	}
	shipped.names = names
	return names
}

// shippedPod runs an image as it is shipped, with nothing but arguments, in the strictest of Kubernetes' Pod security levels.
const shippedPod = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  automountServiceAccountToken: false
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: shipped
      image: %[2]s
      imagePullPolicy: Never
      args: [%[3]s]
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
%[4]s
`

const (
	natsReadiness = `      readinessProbe: {httpGet: {path: /healthz, port: 8222}, periodSeconds: 1}`
	natsService   = `
apiVersion: v1
kind: Service
metadata: {name: nats}
spec: {selector: {app: nats}, ports: [{port: 4222}]}
`
)

// The images that are shipped run on a node under the names that manifests use, with a root file system that nobody writes to: each
// daemon says what it is, and the NATS server answers at its Service's name.
func TestShippedImagesRun(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Node)
	c.DNS(t)
	names := loadShipped(t, c)
	ns := c.Namespace(t, restricted)
	c.Apply(t, ns, fmt.Appendf(nil, shippedPod, "nats", names[images.NATS], `"--http_port", "8222"`, natsReadiness))
	c.Apply(t, ns, []byte(natsService))
	asker := startProbe(t, c, ns, "asker")
	for name, image := range names {
		if name == images.NATS {
			continue
		}
		if want := "portcullis/" + name + ":" + shippedTag; image != want {
			t.Errorf("it is called %s, want %s", image, want)
		}
		c.Apply(t, ns, fmt.Appendf(nil, shippedPod, name, image, `"version"`, ""))
		if said := output(t, c, ns, name); !strings.Contains(said, "v0.0.0-e2e") {
			t.Errorf("%s says %q", name, said)
		}
	}
	c.AwaitPod(t, ns, "nats")
	dials(t, asker, "nats."+ns+".svc:4222", true)
}

// TestShippedArchivesAsDocumented types what docs/images.md says to a node's containerd, where an archive is as make images writes it, for both
// platforms and with its bills of materials. A Pod then runs it by the name that the document says, and containerd has got no other.
func TestShippedArchivesAsDocumented(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Node)
	site, err := demo.Use(t.Context(), "the node", c.Kubeconfig())
	noError(t, err)
	const version = "v0.1.0"
	place := t.TempDir()
	build := exec.CommandContext(t.Context(), cluster.Build(t, "images", "test", "./images/cmd/images"), "--root", filepath.Join("..", ".."),
		"--into", filepath.Join(place, "bin", "images"), "--version", version, "--commit", "e2e", "--created", "1700000000", "nswatch")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shell := commands.Shell{Dir: place, Env: []string{"PATH=/usr/bin:/bin", "CONTAINERD_ADDRESS=" + site.Socket}, Here: strings.NewReplacer()}
	list := func() []string {
		out, err := shell.Run(t.Context(), "ctr --namespace k8s.io images list --quiet")
		noError(t, err)
		return strings.Fields(out)
	}
	before, typed := list(), 0
	all, err := commands.Read(filepath.Join("..", "..", "docs", "images.md"))
	noError(t, err)
	for _, b := range all {
		if !b.Is("sh containerd") {
			continue
		}
		typed++
		if out, err := shell.Run(t.Context(), b.Text); err != nil || !strings.Contains(out, "docker.io/portcullis/nswatch:"+version) {
			t.Errorf("%s: %v\n%s", b.Where(), err, out)
		}
	}
	if typed != 1 {
		t.Errorf("%d blocks were typed", typed)
	}
	for _, image := range list() {
		if !slices.Contains(before, image) && strings.Contains(image, "import-") {
			t.Errorf("containerd has taken something else for an image: %s", image)
		}
	}
	ns := c.Namespace(t, restricted)
	c.Apply(t, ns, fmt.Appendf(nil, shippedPod, "imported", "portcullis/nswatch:"+version, `"version"`, ""))
	if said := output(t, c, ns, "imported"); !strings.Contains(said, version) {
		t.Errorf("it says %q", said)
	}
}

// output waits until the Pod has ended well and returns what it wrote.
func output(t testing.TB, c *cluster.Cluster, namespace, name string) string {
	t.Helper()
	pods := c.Client().CoreV1().Pods(namespace)
	cluster.Eventually(t, "Pod "+name+" ends well", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase == corev1.PodFailed {
			t.Fatalf("Pod %s: %+v", name, pod.Status)
		}
		if err == nil && pod.Status.Phase != corev1.PodSucceeded {
			err = fmt.Errorf("%s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return err
	})
	said, err := pods.GetLogs(name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	noError(t, err)
	return string(said)
}
