package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/companions"
	"github.com/portcullis-mesh/portcullis/test/companions/gatewayside"
	"github.com/portcullis-mesh/portcullis/test/program"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// upLimit ends the wait for a sandbox that will never be up.
const upLimit = 3 * time.Minute

// ground is a gateway whose sandboxes really run: supervisorctl as a process with its own rights, the stand-in controller, the images
// of the stand-ins on the node, and the gateway's side of sessions, which Pods reach. Safe for concurrent use, but for process.
type ground struct {
	*supervisor.Site
	client  *supervisor.Client
	process *program.Process
	gateway *gatewayside.Gateway
	// cut ends the connections of an address to the gateway and returns how many.
	cut func(ip string) int
}

// loaded are the images, which the node has until it goes.
var loaded struct {
	sync.Mutex
	images companions.Images
}

func loadImages(t testing.TB, c *cluster.Cluster) companions.Images {
	t.Helper()
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.images == (companions.Images{}) {
		loaded.images = companions.LoadImages(t, c)
	}
	return loaded.images
}

// newGround starts one, with further changes of its settings.
func newGround(t *testing.T, mode supervisor.Mode, changes ...func(*supervisor.Site)) *ground {
	t.Helper()
	c := cluster.Start(t, cluster.Node)
	g := &ground{Site: supervisor.OnNode(t, c, reconcile.Newest(), supervisor.Setup{Mode: mode})}
	g.Images = loadImages(t, c)
	g.gateway = gatewayside.New(g.authenticate)
	server := grpc.NewServer(gatewayside.ServerOption()...)
	g.gateway.Register(server)
	listener := &severable{Listener: listen(t, cluster.HostAddress)}
	g.cut = listener.cut
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	g.Endpoint = "http://" + listener.Addr().String()
	for _, change := range changes {
		change(g.Site)
	}
	g.process = g.Start()
	g.client = g.Client(g.process)
	return g
}

// severable is a listener whose connections can be ended as by a network.
type severable struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

// Accept implements net.Listener.
func (s *severable) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns = append(s.conns, conn)
	}
	return conn, err
}

func (s *severable) cut(ip string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		if host, _, _ := net.SplitHostPort(conn.RemoteAddr().String()); host == ip && conn.Close() == nil {
			n++
		}
	}
	return n
}

func listen(t testing.TB, host string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	noError(t, err)
	t.Cleanup(func() { _ = l.Close() }) // a server may have closed it
	return l
}

// authenticate accepts the token that the kubelet mounted into the supervisor Pod of the sandbox, and no other.
func (g *ground) authenticate(ctx context.Context, bearer secret.Value, sandboxID string) error {
	exposed := bearer.Expose()
	defer clear(exposed)
	review, err := g.Cluster.Client().AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: string(exposed), Audiences: []string{"openshell-gateway"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	user := review.Status.User
	parts := strings.Split(user.Username, ":")
	name, uid := user.Extra["authentication.kubernetes.io/pod-name"], user.Extra["authentication.kubernetes.io/pod-uid"]
	if !review.Status.Authenticated || len(parts) != 4 || len(name) != 1 || len(uid) != 1 || name[0] != "os-supervisor-"+sandboxID {
		return status.Errorf(codes.PermissionDenied, "%s, Pod %v, is not the supervisor of %s: %s", user.Username, name, sandboxID, review.Status.Error)
	}
	pod, err := g.Cluster.Client().CoreV1().Pods(parts[2]).Get(ctx, name[0], metav1.GetOptions{})
	if err != nil || string(pod.UID) != uid[0] || pod.Annotations["openshell.ai/sandbox-id"] != sandboxID {
		return status.Errorf(codes.PermissionDenied, "the Pod of the token is not the supervisor of %s: %v", sandboxID, err)
	}
	return nil
}

// namespace makes one whose Pods must be as PodSecurity "restricted" demands.
func (g *ground) namespace(t testing.TB) string {
	t.Helper()
	name, err := g.Namespace(t.Context(), restricted)
	noError(t, err)
	return name
}

// box makes a Sandbox as lifecycle does, and the volume of its workspace, which no provisioner makes here; but none for a claim with a
// storage class, which then nobody serves.
func (g *ground) box(t testing.TB, namespace string, changes ...func(*supervisor.Draft)) *supervisor.Box {
	t.Helper()
	changes = append(changes, func(d *supervisor.Draft) {
		d.Sandbox.Annotations["openshell.ai/sandbox-runtime-main-process-spec"] = `{"version":1,"command":["/openshell-workload","family"],"tty":false}`
		if d.Sandbox.Spec.VolumeClaimTemplates[0].Spec["storageClassName"] == nil {
			volume(t, g.Cluster, namespace, "workspace-"+d.Sandbox.Name)
		}
	})
	b, err := g.Make(t.Context(), namespace, changes...)
	noError(t, err)
	return b
}

// volume is a directory of the node that only this claim can have.
func volume(t testing.TB, c *cluster.Cluster, namespace, claim string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "workspace")
	noError(t, err)
	volumes := c.Client().CoreV1().PersistentVolumes()
	made, err := volumes.Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "workspace-"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}, // enough for any claim
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: claim},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{cluster.NodeName},
				}},
			}}}},
		},
	}, metav1.CreateOptions{})
	noError(t, err)
	t.Cleanup(func() {
		err := volumes.Delete(context.WithoutCancel(t.Context()), made.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete volume %s: %v", made.Name, err)
		}
		_ = os.RemoveAll(dir) // a Pod may write to it as long as its namespace goes
	})
	return dir
}

// provision asks for a first run and returns its session once both Pods run and trust each other.
func (g *ground) provision(t testing.TB, b *supervisor.Box) *gatewayside.Session {
	t.Helper()
	return g.provisionAll(t, b)[0]
}

// provisionAll is provision for several at once.
func (g *ground) provisionAll(t testing.TB, boxes ...*supervisor.Box) []*gatewayside.Session {
	t.Helper()
	return g.all(t, boxes, func(ctx context.Context, b *supervisor.Box) error {
		_, err := g.client.Provision(ctx, b, b.Run)
		return err
	})
}

// restart asks for a run of the epoch that nobody has had, for all at once, and notes it.
func (g *ground) restart(t testing.TB, epoch uint64, boxes ...*supervisor.Box) []*gatewayside.Session {
	t.Helper()
	for _, b := range boxes {
		b.Run = supervisor.NewRun(epoch)
	}
	return g.all(t, boxes, func(ctx context.Context, b *supervisor.Box) error {
		_, err := g.client.Restart(ctx, b, b.Run)
		return err
	})
}

// all makes a call for each box at once and returns the sessions that follow.
func (g *ground) all(t testing.TB, boxes []*supervisor.Box, call func(context.Context, *supervisor.Box) error) []*gatewayside.Session {
	t.Helper()
	sessions := make([]*gatewayside.Session, len(boxes))
	each(t, boxes, func(i int, b *supervisor.Box) error {
		err := insist(t, func(ctx context.Context) error { return call(ctx, b) })
		if err == nil {
			sessions[i], err = g.await(t.Context(), b)
		}
		if err != nil {
			err = fmt.Errorf("no session of sandbox %s: %w\n%s", b.ID, err, g.pods(b))
		}
		return err
	})
	return sessions
}

// insist repeats a call as lifecycle does: a busy machine may need longer than one call may take.
func insist(t testing.TB, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	return supervisor.Insist(ctx, call)
}

// release asks for a stop of all at once, remove for the end of all their sets.
func (g *ground) release(t testing.TB, boxes ...*supervisor.Box) {
	t.Helper()
	each(t, boxes, func(_ int, b *supervisor.Box) error {
		return insist(t, func(ctx context.Context) error {
			_, err := g.client.Release(ctx, b, b.Run)
			return err
		})
	})
}

func (g *ground) remove(t testing.TB, boxes ...*supervisor.Box) {
	t.Helper()
	each(t, boxes, func(_ int, b *supervisor.Box) error {
		return insist(t, func(ctx context.Context) error {
			_, err := g.client.Remove(ctx, b, b.Run)
			return err
		})
	})
}

// each does something with all at once and fails the test with what went wrong.
func each[T any](t testing.TB, things []T, do func(i int, thing T) error) {
	t.Helper()
	var doing sync.WaitGroup
	errs := make([]error, len(things))
	for i, thing := range things {
		doing.Go(func() { errs[i] = do(i, thing) })
	}
	doing.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// await returns the session of the box's run.
func (g *ground) await(ctx context.Context, b *supervisor.Box) (*gatewayside.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, upLimit)
	defer cancel()
	for {
		s, err := g.gateway.Await(ctx, b.ID)
		if err != nil || s.Confirmation().SessionID == b.Run.Session {
			return s, err
		}
		select {
		case <-s.Over(): // that of the run before
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// pods says what became of the two Pods, for failed tests.
func (g *ground) pods(b *supervisor.Box) string {
	text := &strings.Builder{}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, name := range []string{b.Name, b.SupervisorName()} {
		pod, err := g.Cluster.Client().CoreV1().Pods(b.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			fmt.Fprintln(text, err)
			continue
		}
		fmt.Fprintf(text, "Pod %s is %s, gates %v\n", name, pod.Status.Phase, pod.Spec.SchedulingGates)
		for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			fmt.Fprintf(text, "  %s: %+v\n", c.Name, c.State)
		}
		for _, c := range pod.Spec.Containers {
			log, err := g.Cluster.Client().CoreV1().Pods(b.Namespace).GetLogs(name, &corev1.PodLogOptions{Container: c.Name}).DoRaw(ctx)
			fmt.Fprintf(text, "  %s says %s %v\n", c.Name, log, err)
		}
	}
	return text.String()
}

// does runs a workload's command in the sandbox and returns its output, which ends well.
func does(t testing.TB, s *gatewayside.Session, args ...string) string {
	t.Helper()
	out, err := s.Run(t.Context(), companions.Workload(args...), nil)
	if err != nil || out.Exit.Code != 0 {
		t.Fatalf("%v in the sandbox: %v, exit %+v, %s", args, err, out.Exit, out.Stderr)
	}
	return strings.TrimSpace(string(out.Stdout))
}

// fails runs one that must not end well, and returns what it complains of.
func fails(t testing.TB, s *gatewayside.Session, args ...string) string {
	t.Helper()
	out, err := s.Run(t.Context(), companions.Workload(args...), nil)
	if err != nil || out.Exit.Code == 0 {
		t.Fatalf("%v in the sandbox: %v, exit %+v, %s", args, err, out.Exit, out.Stdout)
	}
	return strings.TrimSpace(string(out.Stderr))
}

// awaitStatus waits until the set is in the phase and has the readiness.
func (g *ground) awaitStatus(t testing.TB, b *supervisor.Box, phase supervisorv1.Phase, readiness supervisorv1.Readiness) {
	t.Helper()
	cluster.Eventually(t, fmt.Sprintf("sandbox %s is %s and %s", b.ID, phase, readiness), func(ctx context.Context) error {
		s, err := g.client.Status(ctx, b)
		if err == nil && (s.GetPhase() != phase || s.GetReadiness() != readiness) {
			err = fmt.Errorf("it is %v", s)
		}
		return err
	})
}

// readiness is what the Sandbox publishes.
func readiness(t testing.TB, b *supervisor.Box) string {
	t.Helper()
	box, err := b.Object(t.Context())
	noError(t, err)
	return cmp.Or(box.Annotations["openshell.ai/sandbox-runtime-readiness"], "nothing")
}
