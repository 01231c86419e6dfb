package probe

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

var update = flag.Bool("update", false, "write the golden Pods and texts anew")

func stock() *driverconf.Kubernetes {
	k := &driverconf.Kubernetes{
		WorkspaceMode: driverconf.ModeShared, GatewayID: "blue", Namespace: "sandboxes", ServiceAccountName: "sandbox", ImagePullSecrets: []string{"registry"},
	}
	k.SandboxRuntime.BoundaryPort = 5500
	return k
}

func settings() Settings {
	s := DefaultSettings()
	s.Image, s.PullPolicy, s.Targets = "registry.example/supervisorctl:1", driverconf.PullIfNotPresent, []string{canary.KubernetesTarget, "192.0.2.1:443"}
	return s
}

func fixed(k *driverconf.Kubernetes, s Settings) *round {
	return &round{Prober: &Prober{stock: *k, settings: s}, id: "0123456789", result: Result{Namespace: "sandboxes"}, as: identity{10001, 10002}}
}

func rendered(t *testing.T, k *driverconf.Kubernetes, role canary.Role) *corev1.Pod {
	t.Helper()
	s := settings()
	peer, node := "", ""
	if role == canary.Supervisor {
		peer, node = "10.244.0.5", "node-1"
	}
	p, err := pod(k, &s, identity{10001, 10002}, "sandboxes", node, fixed(k, s).plan(role, peer))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is otherwise; with -update it is written anew:\n%s", path, got)
	}
}

func TestPods(t *testing.T) {
	managed := stock()
	managed.WorkspaceMode = driverconf.ModeManaged
	for name, c := range map[string]struct {
		k    *driverconf.Kubernetes
		role canary.Role
	}{
		"workload": {stock(), canary.Workload}, "supervisor": {stock(), canary.Supervisor}, "workload-managed": {managed, canary.Workload},
	} {
		text, err := yaml.Marshal(rendered(t, c.k, c.role))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".yaml", text)
	}
}

// TestACanaryIsNoSandboxs: nothing that finds Pods of sandboxes finds it.
func TestACanaryIsNoSandboxs(t *testing.T) {
	for _, role := range []canary.Role{canary.Workload, canary.Supervisor} {
		p := rendered(t, stock(), role)
		for _, key := range []string{workspace.LabelBoundaryPair, workspace.LabelManagedBy, workspace.LabelSandboxID} {
			if value, found := p.Labels[key]; found {
				t.Errorf("%s: label %s is %q", role, key, value)
			}
		}
		if len(p.OwnerReferences)+len(p.Annotations)+len(p.Spec.Volumes) > 0 || *p.Spec.AutomountServiceAccountToken {
			t.Errorf("%s: %+v", role, p)
		}
		if p.Labels[workspace.LabelBoundaryRole] != string(role) || string(canary.Workload) != workspace.RoleWorkload || string(canary.Supervisor) != workspace.RoleSupervisor {
			t.Errorf("%s is not what the policies select: %v", role, p.Labels)
		}
	}
}

func TestTheShutPortIsAnother(t *testing.T) {
	for door, shut := range map[uint16]uint16{5500: 5501, 65535: 65534, 1024: 1025} {
		k := stock()
		k.SandboxRuntime.BoundaryPort = door
		p := fixed(k, settings()).plan(canary.Workload, "")
		if err := p.Check(); p.Door != door || p.Shut != shut || err != nil {
			t.Errorf("%d: %+v, %v", door, p, err)
		}
	}
}

func TestIdentity(t *testing.T) {
	space := map[string]string{workspace.AnnotationUIDRange: "1000660000/10000", workspace.AnnotationSupplementalGroups: " 1000670000/10000"}
	id := func(v uint32) *uint32 { return &v }
	for name, c := range map[string]struct {
		user, group *uint32
		space       map[string]string
		want        identity
	}{
		"neither":             {nil, nil, nil, identity{10001, 10001}},
		"configured":          {id(7), id(8), space, identity{7, 8}},
		"configured user":     {id(7), nil, space, identity{7, 7}},
		"configured group":    {nil, id(8), nil, identity{10001, 8}},
		"namespace":           {nil, nil, space, identity{1000660000, 1000670000}},
		"list":                {nil, nil, map[string]string{workspace.AnnotationUIDRange: "1,2"}, identity{10001, 10001}},
		"start to end":        {nil, nil, map[string]string{workspace.AnnotationUIDRange: "1-2"}, identity{10001, 10001}},
		"root":                {nil, nil, map[string]string{workspace.AnnotationUIDRange: "0/1"}, identity{10001, 10001}},
		"more than the API's": {nil, nil, map[string]string{workspace.AnnotationUIDRange: "4294967294/1"}, identity{10001, 10001}},
	} {
		k := stock()
		k.SandboxUID, k.SandboxGID = c.user, c.group
		if got := identityOf(k, c.space); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestAltered(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"nothing":         {func(*corev1.Pod) {}, ""},
		"more labels":     {func(p *corev1.Pod) { p.Labels["mesh"] = "x" }, ""},
		"defaults":        {func(p *corev1.Pod) { p.Spec.DNSPolicy, p.Spec.SchedulerName = "ClusterFirst", "default-scheduler" }, ""},
		"tolerations":     {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "x"}} }, ""},
		"role":            {func(p *corev1.Pod) { p.Labels[workspace.LabelBoundaryRole] = "supervisor" }, workspace.LabelBoundaryRole},
		"no labels":       {func(p *corev1.Pod) { p.Labels = nil }, "label"},
		"pair":            {func(p *corev1.Pod) { p.Labels[workspace.LabelBoundaryPair] = "x" }, workspace.LabelBoundaryPair},
		"host network":    {func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "network"},
		"sidecar":         {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{}) }, "2 containers"},
		"init container":  {func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{}} }, "init"},
		"image":           {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "mirror" }, "program"},
		"command":         {func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"/wrap"} }, "program"},
		"args":            {func(p *corev1.Pod) { p.Spec.Containers[0].Args = nil }, "program"},
		"volume":          {func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "token"}} }, "token"},
		"restarted":       {func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }, "restartPolicy"},
		"host's process":  {func(p *corev1.Pod) { p.Spec.HostPID = true }, "processes"},
		"other probe":     {func(p *corev1.Pod) { p.Labels[LabelProbe] = "x" }, LabelProbe},
		"other component": {func(p *corev1.Pod) { delete(p.Labels, workspace.LabelComponent) }, workspace.LabelComponent},
	} {
		wanted := rendered(t, stock(), canary.Workload)
		made := wanted.DeepCopy()
		c.change(made)
		if got := altered(made, wanted); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestStages(t *testing.T) {
	waits := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "because"}}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "panic"}}
	for name, c := range map[string]struct {
		state  corev1.ContainerState
		change func(*corev1.Pod)
		want   stage
	}{
		"new":            {corev1.ContainerState{}, func(p *corev1.Pod) { p.Status.PodIP = "" }, stage{node: "n"}},
		"creating":       {waits("ContainerCreating"), nil, stage{node: "n", ip: "i"}},
		"pull failed":    {waits("ErrImagePull"), nil, stage{node: "n", ip: "i", detail: "its container waits: ErrImagePull: because"}},
		"pull hopeless":  {waits("ImagePullBackOff"), nil, stage{node: "n", ip: "i", lost: true, detail: "its container waits: ImagePullBackOff: because"}},
		"never pulled":   {waits("ErrImageNeverPull"), nil, stage{node: "n", ip: "i", lost: true, detail: "its container waits: ErrImageNeverPull: because"}},
		"no address yet": {runs, func(p *corev1.Pod) { p.Status.PodIP = "" }, stage{node: "n"}},
		"running":        {runs, nil, stage{node: "n", ip: "i", running: true}},
		"ended":          {ended, nil, stage{node: "n", ip: "i", ended: true, message: "panic", detail: "its container ended with code 1: Error: panic"}},
		"ended, deleted": {ended, deleting, stage{node: "n", ip: "i", ended: true, message: "panic", detail: "its container ended with code 1: Error: panic"}},
		"being deleted":  {runs, deleting, stage{node: "n", ip: "i", lost: true, detail: "it is being deleted by somebody else"}},
		"evicted": {corev1.ContainerState{}, func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "disk"
		}, stage{node: "n", ip: "i", lost: true, detail: "it ended as Failed: Evicted: disk"}},
		"replaced": {runs, func(p *corev1.Pod) { p.UID = "other" }, stage{lost: true, detail: "another Pod has its name"}},
		"unscheduled": {corev1.ContainerState{}, func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.PodIP = "", ""
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes"}}
		}, stage{detail: "no node takes it: Unschedulable: 0/1 nodes"}},
		"sidecar's state": {runs, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Name = "other" }, stage{node: "n", ip: "i"}},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{
			PodIP: "i", ContainerStatuses: []corev1.ContainerStatus{{Name: container, State: c.state}},
		}}
		if c.change != nil {
			c.change(p)
		}
		if got := stageOf(p, "u"); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func deleting(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

// TestWhatPeopleRead is the text and the JSON of every kind of result.
func TestWhatPeopleRead(t *testing.T) {
	late := enforced()
	late.workload.Targets[0].Opens, late.workload.Targets[0].LastOpen, late.workload.Targets[0].Tries = 4, 3240, 14
	for name, c := range map[string]struct {
		e    *evidence
		made []string
		left []string
	}{
		"enforced": {late, []string{"openshell-sandbox-workloads"}, nil},
		"open":     {func() *evidence { e := enforced(); open(e.workload); e.supervisor = nil; return e }(), nil, nil},
		"dead":     {func() *evidence { e := enforced(); dead(e); e.workload = nil; return e }(), nil, []string{"Pod x: cannot be\ndeleted"}},
		"none":     {&evidence{workloadFailed: lost}, nil, nil},
	} {
		r := Result{
			Namespace: "sandboxes", Decision: judge(c.e), Node: "node-1", Made: c.made, LeftOver: c.left,
			Workload: c.e.workload, Supervisor: c.e.supervisor, Began: time.Unix(1, 0), Took: 12340 * time.Millisecond,
		}
		var text, object bytes.Buffer
		if err := WriteText(&text, &r); err != nil {
			t.Fatal(err)
		}
		if err := WriteJSON(&object, &r); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", text.Bytes())
		golden(t, name+".json", object.Bytes())
	}
}
