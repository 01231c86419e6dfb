package conduct

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/launch"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	gatewayID = "blue"
	sandboxID = "4b67c0d0-1111-2222-3333-444444444444"
	boxName   = "team-a--demo"
	boxUID    = "uid-box"
	namespace = "sandboxes"

	generation   = "g000000000000001"
	session      = "3f2b8c1e-9a4d-4e6f-8b7a-0c1d2e3f4a5b"
	gatewayToken = "Z2F0ZXdheQ.dG9rZW4.c2lnbmF0dXJl"
	sandboxToken = "c2FuZGJveA.dG9rZW4.c2lnbmF0dXJl"

	supervisorPod  = "os-supervisor-" + sandboxID
	boundary       = "os-boundary-" + sandboxID
	sandboxSecret  = "os-sandbox-" + sandboxID + "-g00000000000"
	supervisorFile = "os-supervisor-" + sandboxID + "-g00000000000"
)

func theRef() plan.Ref {
	return plan.Ref{GatewayID: gatewayID, SandboxID: sandboxID, Namespace: namespace, Name: boxName, UID: boxUID}
}

func theRun() plan.Run { return plan.Run{Generation: generation, Session: session, Epoch: 1} }

// bundle is the credentials of the run.
func bundle(t testing.TB) *launch.Bundle {
	t.Helper()
	public := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)).Public()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	var octets []int
	for _, c := range pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}) {
		octets = append(octets, int(c))
	}
	text, err := json.Marshal(map[string]any{
		"supervisor": map[string]any{
			"session_id": session, "runtime_generation": generation, "session_rotation": 1, "auth_epoch": 1,
			"gateway_token": gatewayToken, "gateway_expires_at": 0, "sandbox_token": sandboxToken, "sandbox_expires_at": 0,
		},
		"gateway_id": gatewayID, "verification_keys": []any{map[string]any{"key_id": "k", "public_key_pem": octets}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := launch.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func settings(t testing.TB) *driverconf.Kubernetes {
	t.Helper()
	loaded, err := driverconf.Load(driverconf.Source{})
	if err != nil {
		t.Fatal(err)
	}
	k := loaded.Kubernetes
	k.GatewayID, k.Namespace, k.ServiceAccountName = gatewayID, namespace, "sandbox"
	k.SupervisorImage, k.GRPCEndpoint = "registry.example/supervisor:1", "https://gateway.example:8080"
	k.SandboxRuntime.NetworkPolicyEnforced = true
	return &k
}

// site is a conductor and its world.
type site struct {
	*Conductor
	t     *testing.T
	world *world
	log   *bytes.Buffer
	spans *tracing
}

func newSite(t *testing.T, world *world, changes ...func(*driverconf.Kubernetes)) *site {
	t.Helper()
	k := settings(t)
	for _, change := range changes {
		change(k)
	}
	s := &site{t: t, world: world, log: &bytes.Buffer{}, spans: &tracing{}}
	var err error
	s.Conductor, err = New(k, companion.Options{}, world, zerolog.New(s.log), prometheus.NewRegistry(), s.spans)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { end(); running.Wait() })
	return s
}

func (s *site) goal(goal plan.Goal) Goal {
	g := Goal{Want: plan.Want{Goal: goal, Ref: theRef(), Run: theRun()}, Patient: true}
	if goal == plan.Provision || goal == plan.Restart {
		g.Bundle = bundle(s.t)
	}
	return g
}

// do works on a goal and demands that it is reached.
func (s *site) do(goal Goal) Outcome {
	s.t.Helper()
	out, err := s.Do(s.t.Context(), goal)
	if err != nil || out.Step.Action != plan.Done {
		s.t.Fatalf("%s: %v, %s: %s\n%v", goal.Goal, err, out.Step.Reason, out.Step.Explanation, s.world.done())
	}
	return out
}

// refused works on a goal and demands that it is refused for a reason.
func (s *site) refused(ctx context.Context, goal Goal, reason string) Outcome {
	s.t.Helper()
	out, err := s.Do(ctx, goal)
	if err != nil || out.Step.Action != plan.Refuse || string(out.Step.Reason) != reason || out.Step.Explanation == "" || out.Step.Undo {
		s.t.Fatalf("%s: %v, %s, want %s: %s\n%v", goal.Goal, err, out.Step.Reason, reason, out.Step.Explanation, s.world.done())
	}
	return out
}

func (s *site) record() runstate.Record {
	s.t.Helper()
	var annotations map[string]string
	s.world.change(func(w *world) { annotations = clone(w.box).Annotations })
	r, err := runstate.Of(annotations)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// still is the record as the reconcile loop measures its time.
func (s *site) still() runstate.Record {
	r := s.record()
	r.MainProcess, r.LogLevel = "", ""
	return r
}

// fresh is a Sandbox as lifecycle makes it for a create.
func fresh() *sandboxapi.Object {
	r := runstate.Record{
		Bootstrapping: true, StartedAt: time.Now().UnixMilli(), Operation: runstate.Create, Phase: runstate.Preparing, Generation: generation,
		Readiness: runstate.Unavailable, MainProcess: `{"version":1,"command":["/bin/run"],"tty":false}`, LogLevel: "info",
	}
	return &sandboxapi.Object{
		Sandbox: sandboxapi.Sandbox{
			Namespace: namespace, Name: boxName, UID: boxUID, Annotations: r.Annotations(),
			Labels: map[string]string{
				workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelGatewayID: gatewayID, workspace.LabelSandboxID: sandboxID,
				workspace.LabelSandboxName: "demo", workspace.LabelSandboxWorkspace: "team-a",
			},
		},
		Version: sandboxapi.V1beta1, Generation: 1, ResourceVersion: "0", Mode: sandboxapi.Suspended,
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Labels:      map[string]string{workspace.LabelBoundaryPair: workspace.Pair(sandboxID), workspace.LabelBoundaryRole: workspace.RoleWorkload},
				Annotations: map[string]string{"openshell.ai/sandbox-id": sandboxID},
			},
			Spec: template(),
		},
	}
}

// template is the workload Pod's spec (contract 7.5).
func template() corev1.PodSpec {
	boot := container("openshell-sandbox-bootstrap", []string{"/openshell-sandbox", "bootstrap"},
		"openshell-runtime=/.openshell/runtime", "openshell-runtime-state=/.openshell/state",
		"openshell-sandbox-bootstrap=/.openshell/bootstrap-input", "openshell-pod-identity=/.openshell/pod-identity")
	boot.SecurityContext.ReadOnlyRootFilesystem = new(true)
	agent := container("agent", []string{"/.openshell/runtime/openshell-sandbox", "--bootstrap", "/.openshell/state/bootstrap/boundary.json"},
		"openshell-runtime=/.openshell/runtime", "openshell-runtime-state=/.openshell/state",
		"openshell-pod-identity=/.openshell/pod-identity", "openshell-run=/run", "workspace=/sandbox")
	agent.Env = []corev1.EnvVar{{Name: "GREETING", Value: "hello"}, {Name: "OPENSHELL_LOG_LEVEL", Value: "info"}}
	value := func(name, value string) corev1.PodDNSConfigOption {
		return corev1.PodDNSConfigOption{Name: name, Value: new(value)}
	}
	return corev1.PodSpec{
		SchedulingGates: []corev1.PodSchedulingGate{{Name: workspace.SchedulingGate}},
		RestartPolicy:   corev1.RestartPolicyNever, DNSPolicy: corev1.DNSNone, TerminationGracePeriodSeconds: new(int64(5)),
		DNSConfig: &corev1.PodDNSConfig{
			Nameservers: []string{"127.0.0.53"}, Options: []corev1.PodDNSConfigOption{value("ndots", "5"), value("timeout", "2"), value("attempts", "2")},
		},
		AutomountServiceAccountToken: new(false), ServiceAccountName: "sandbox",
		SecurityContext: &corev1.PodSecurityContext{
			RunAsUser: new(int64(10001)), RunAsGroup: new(int64(10002)), RunAsNonRoot: new(true), FSGroup: new(int64(10002)),
			FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
			SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			Sysctls:             []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}},
		},
		Volumes: []corev1.Volume{
			memory("openshell-runtime"), memory("openshell-runtime-state"), memory("openshell-run"),
			{Name: companion.WorkloadVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: sandboxSecret, DefaultMode: new(int32(0o440))}}},
			{Name: "openshell-pod-identity", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
				Items: []corev1.DownwardAPIVolumeFile{{Path: "uid", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"}}},
			}}},
		},
		InitContainers: []corev1.Container{boot, container("workspace-init", []string{"/.openshell/runtime/openshell-sandbox", "seed-workspace"},
			"openshell-runtime=/.openshell/runtime", "workspace=/mnt/openshell-workspace")},
		Containers: []corev1.Container{agent},
	}
}

func memory(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}
}

func container(name string, command []string, mounts ...string) corev1.Container {
	c := corev1.Container{
		Name: name, Image: "registry.example/" + name, Command: command,
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: new(int64(10001)), RunAsGroup: new(int64(10002)), RunAsNonRoot: new(true),
			AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	for _, m := range mounts {
		volume, path, _ := bytes.Cut([]byte(m), []byte("="))
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: string(volume), MountPath: string(path)})
	}
	return c
}

// authority is a certificate authority in PEM.
func authority(t testing.TB) []byte {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

var errNo = errors.New("no answer")
