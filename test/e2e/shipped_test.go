//go:build portcullis_long

package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/images"
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
