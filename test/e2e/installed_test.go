//go:build portcullis_long

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/demo"
	"github.com/portcullis-mesh/portcullis/test/deploy"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// The overlay for operator mode by label, installed as an operator installs it, on a cluster that enforces what it says, with a gateway in a
// Pod and lifecycle's relay beside it: the Secrets are made, every daemon becomes ready in its time without a restart, the list follows a
// label, sandboxes run behind their fence for as long as they may, and the gate closes while nobody knows.
//
// The acts of the demo (package demo, Story) are among what is shown, each by its title.
func TestOperatorLabelOverlay(t *testing.T) {
	t.Parallel()
	var acts []string
	for _, s := range scenes {
		acts = append(acts, s.acts...)
	}
	if titles := demo.Titles(); !slices.Equal(slices.Sorted(slices.Values(acts)), slices.Sorted(slices.Values(titles))) {
		t.Fatalf("the demo's acts are %q, and what is shown here are %q", titles, acts)
	}
	i := install(t, operatorLabel, relayBeside)
	i.demandNoRestart(t)
	for _, s := range scenes { // each begins with what the one before has left
		if !t.Run(s.name, func(t *testing.T) { s.show(t, i) }) {
			break
		}
	}
}

// scenes are what is shown of an installation, in their order, with the acts of the demo that each is, or of which it is the last to show something.
var scenes = []struct {
	name string
	acts []string
	show func(*testing.T, *installation)
}{
	{"the list follows labels", nil, listFollowsLabels},
	{"what is closed", nil, closed},
	{"a label comes, goes and is back", []string{
		"A namespace becomes a workspace by its label", "The label is taken away",
	}, func(t *testing.T, i *installation) { liveUpdate(t, i.house) }},
	{"a run behind its fence", []string{
		"A sandbox is created", "A command runs in the fenced Pod", "The label is back: stop, start, delete",
	}, func(t *testing.T, i *installation) { fencedRun(t, i, i.workspace(t, "fenced")) }},
	{"who leads is killed", []string{"The leading nswatch is killed"}, takeOver},
	{"nobody leads", nil, func(t *testing.T, i *installation) {
		outage(t, i, i.workspace(t, "outage"), absence{kind: "deployments", name: mesh.Nswatch, reasons: []string{"stale", "withdrawn"}})
	}},
	{"a wrong selector", nil, wrongSelector},
	{"no restart", nil, func(t *testing.T, i *installation) { i.demandNoRestart(t) }},
	{"the end", []string{"Everything goes"}, func(t *testing.T, i *installation) { i.withdraw(t) }},
}

// The same with lifecycle itself beside the gateway, in the place of its Deployment, and with daemons that change something only where a
// platform team has let them.
func TestOperatorLabelOverlayWithoutRelay(t *testing.T) {
	t.Parallel()
	i := install(t, operatorLabel, lifecycleBeside, supervisorsPart, sourcePart, rightsPerWorkspace)
	unprepared(t, i)
	i.demandSSH(t)
	liveUpdate(t, i.house)
	i.demandNoRestart(t)
}

// jobs are those that do something once, in the order in which they can.
var jobs = []string{"portcullis-provision", "nats-bootstrap"}

// awaitReady waits until what is made once has been made, and every Pod is ready.
func (i *installation) awaitReady(t *testing.T) {
	t.Helper()
	for _, job := range jobs {
		if slices.ContainsFunc(i.rendered.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Job" && o.GetName() == job }) {
			awaitJob(t, i.c, job)
		}
	}
	awaitWorkloads(t, i.c, i.rendered)
}

// awaitJob waits until a job has done its work.
func awaitJob(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	cluster.Eventually(t, "Job "+name, func(ctx context.Context) error {
		job, err := c.Client().BatchV1().Jobs(installed).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range job.Status.Conditions {
			if condition.Type == batchv1.JobComplete && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%+v: %s", job.Status, unready(ctx, c))
	})
}

// awaitWorkloads waits until every Deployment and StatefulSet has all its Pods ready.
func awaitWorkloads(t *testing.T, c *cluster.Cluster, rendered *deploy.Rendering) {
	t.Helper()
	apps := c.Client().AppsV1()
	for _, object := range rendered.Objects {
		name := object.GetName()
		cluster.Eventually(t, object.GetKind()+" "+name+" is ready", func(ctx context.Context) error {
			wanted, ready := int32(0), int32(0)
			switch object.GetKind() {
			case "Deployment":
				d, err := apps.Deployments(installed).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				wanted, ready = *d.Spec.Replicas, d.Status.AvailableReplicas
			case "StatefulSet":
				s, err := apps.StatefulSets(installed).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				wanted, ready = *s.Spec.Replicas, s.Status.AvailableReplicas
			}
			if ready < wanted {
				return fmt.Errorf("%d of %d: %s", ready, wanted, unready(ctx, c))
			}
			return nil
		})
	}
}

// unready are the Pods that are not ready, and why.
func unready(ctx context.Context, c *cluster.Cluster) string {
	pods, err := c.Client().CoreV1().Pods(installed).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var said []string
	for _, pod := range pods.Items {
		for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			if status.Ready || status.State.Terminated != nil && status.State.Terminated.ExitCode == 0 {
				continue
			}
			log, _ := c.Client().CoreV1().Pods(installed).GetLogs(pod.Name, &corev1.PodLogOptions{Container: status.Name, TailLines: new(int64(3))}).DoRaw(ctx)
			said = append(said, fmt.Sprintf("%s/%s: %+v\n%s", pod.Name, status.Name, status.State, log))
		}
	}
	return strings.Join(said, "\n")
}

// demandNoRestart: whatever a daemon had to wait for, it waited.
func (i *installation) demandNoRestart(t *testing.T) {
	t.Helper()
	pods, err := i.c.Client().CoreV1().Pods(installed).List(t.Context(), metav1.ListOptions{LabelSelector: "!batch.kubernetes.io/job-name"})
	noError(t, err)
	if len(pods.Items) == 0 {
		t.Error("there are no Pods")
	}
	for _, pod := range pods.Items {
		for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			if status.RestartCount > 0 {
				t.Errorf("%s/%s was restarted: %+v", pod.Name, status.Name, status.LastTerminationState)
			}
		}
	}
}

// viewerSettings are the operator's, as docs/nats.md has them.
const viewerSettings = `
apiVersion: v1
kind: ConfigMap
metadata: {name: viewer}
data:
  operator.toml: |
    [openshell.drivers.kubernetes]
    workspace_mode = "operator"
    operator_namespace_label = "openshell.ai/sandboxes=allowed"
    gateway_id = "openshell"
    [portcullis.nats]
    urls = ["tls://nats.portcullis.svc:4222"]
    ca_file = "/etc/portcullis/nats/ca.crt"
    nkey_seed_file = "/etc/portcullis/nats/seed"
    js_api_prefix = "portcullis.js"
    inbox_prefix = "portcullis.deliver"
    [portcullis.allowlist]
    public_keys_file = "/etc/portcullis/allowlist/public.keys"
`

// viewer prints the published list.
const viewer = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {portcullis.openshell.ai/nats: client}}
spec:
  automountServiceAccountToken: false
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: show
      image: portcullis/nswatch:%[2]s
      args: [allowlist, show, --config, /etc/portcullis/config/operator.toml]
      terminationMessagePolicy: FallbackToLogsOnError
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
      volumeMounts:
        - {name: config, mountPath: /etc/portcullis/config, readOnly: true}
        - {name: nats, mountPath: /etc/portcullis/nats, readOnly: true}
        - {name: allowlist, mountPath: /etc/portcullis/allowlist, readOnly: true}
  volumes:
    - {name: config, configMap: {name: viewer}}
    - {name: nats, secret: {secretName: portcullis-operator-nats, defaultMode: 0440}}
    - {name: allowlist, configMap: {name: portcullis-allowlist-keys}}
`

// listFollowsLabels: a namespace is on the list while it has the label.
func listFollowsLabels(t *testing.T, i *installation) {
	c := i.c
	c.Apply(t, installed, []byte(viewerSettings))
	workspace := i.namespace(t, "listed")
	looks := 0
	listed := func(want bool) {
		t.Helper()
		cluster.Eventually(t, fmt.Sprintf("namespace %s is listed: %v", workspace, want), func(context.Context) error {
			looks++
			name := fmt.Sprintf("viewer-%d", looks)
			c.Apply(t, installed, fmt.Appendf(nil, viewer, name, shippedTag))
			said := output(t, c, installed, name)
			_, list, found := strings.Cut(said, "NAMESPACES")
			list, _, _ = strings.Cut(list, "CHANGES") // which tell of what was
			if !found || strings.Contains(list, workspace) != want {
				return fmt.Errorf("nswatch says\n%s", said)
			}
			return nil
		})
	}
	listed(false)
	i.admit(t, workspace, true)
	listed(true)
	i.admit(t, workspace, false)
	listed(false)
}
