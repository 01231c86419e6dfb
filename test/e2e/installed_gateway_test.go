//go:build portcullis_long

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/gatewayside"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/control"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

// gatewayPod is the one Pod of the gateway's StatefulSet.
const gatewayPod = "openshell-0"

// Ports of the gateway's Pod: supervisors dial the first, and the test, which a policy lets in from its address alone, the others.
const (
	supervisorsPort = "8080"
	controlDoor     = "7001"
	driverDoor      = "7002"
)

// gatewayWorkload is the reference gateway as an operator has his: on its own, before anything is put beside it. The door is the test's.
const gatewayWorkload = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: openshell, namespace: portcullis, labels: {app.kubernetes.io/name: openshell}}
spec:
  serviceName: openshell
  selector: {matchLabels: {app.kubernetes.io/name: openshell}}
  template:
    metadata: {labels: {app.kubernetes.io/name: openshell}}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      # The records are private, and stay so when they are mounted again.
      securityContext: {runAsNonRoot: true, fsGroupChangePolicy: OnRootMismatch, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: gateway
          image: portcullis.test/gateway:1
          args:
            - run
            - --config=/etc/openshell/gateway.toml
            - --records=/var/lib/openshell/records.db
            - --control=/run/openshell/control/control.sock
            - --listen=:8080
            - --tls-cert=/etc/openshell-tls/tls.crt
            - --tls-key=/etc/openshell-tls/tls.key
          ports: [{name: grpc, containerPort: 8080}]
          readinessProbe: {tcpSocket: {port: grpc}, periodSeconds: 1}
          terminationMessagePolicy: FallbackToLogsOnError
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          volumeMounts:
            - {name: settings, mountPath: /etc/openshell, readOnly: true}
            - {name: tls, mountPath: /etc/openshell-tls, readOnly: true}
            - {name: records, mountPath: /var/lib/openshell}
            - {name: control, mountPath: /run/openshell}
        - name: door
          image: portcullis.test/door:1
          args: [":7001=/run/openshell/control/control.sock", ":7002=/run/portcullis/gateway/driver.sock"]
          ports: [{containerPort: 7001}, {containerPort: 7002}]
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          volumeMounts:
            - {name: control, mountPath: /run/openshell}
            - {name: portcullis-socket, mountPath: /run/portcullis}
      volumes:
        - {name: settings, configMap: {name: portcullis-config}}
        - {name: tls, secret: {secretName: openshell-tls, defaultMode: 0440}}
        - {name: control, emptyDir: {}}
  volumeClaimTemplates:
    - metadata: {name: records}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: openshell, namespace: portcullis}
spec: {selector: {app.kubernetes.io/name: openshell}, ports: [{port: 8080, targetPort: grpc}]}
`

// supervisorsPolicy lets supervisors in, as components/gateway-sidecar/supervisors does.
const supervisorsPolicy = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: openshell, namespace: portcullis}
spec:
  podSelector: {matchLabels: {app.kubernetes.io/name: openshell}}
  policyTypes: [Ingress]
  ingress:
    - from: [{namespaceSelector: {}, podSelector: {matchLabels: {openshell.ai/boundary-role: supervisor}}}]
      ports: [{port: grpc}]
`

// doorPolicy lets the test in, as an operator lets his users.
const doorPolicy = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: openshell-door, namespace: portcullis}
spec:
  podSelector: {matchLabels: {app.kubernetes.io/name: openshell}}
  policyTypes: [Ingress]
  ingress:
    - from: [{ipBlock: {cidr: ` + cluster.HostAddress + `/32}}]
      ports: [{port: grpc}, {port: 7001}, {port: 7002}]
`

// gatewayLoaded are the gateway's images, which the node has until it goes.
var gatewayLoaded sync.Once

func loadGateway(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	gatewayLoaded.Do(func() {
		for _, name := range []string{"gateway", "door"} {
			c.LoadProgram(t, "portcullis.test/"+name+":1", name, "test", "./gateway/cmd/"+name)
		}
	})
}

// enter connects to a port of the gateway's Pod, wherever that is now.
func enter(ctx context.Context, c *cluster.Cluster, port string) (net.Conn, error) {
	pod, err := c.Client().CoreV1().Pods(installed).Get(ctx, gatewayPod, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, port))
}

// afar is the gateway in its Pod, as its users have it.
type afar struct {
	t      *testing.T
	client *control.Client
}

var _ users = (*afar)(nil)

func newAfar(t *testing.T, c *cluster.Cluster) *afar {
	return &afar{t: t, client: control.NewClientOver(func(ctx context.Context) (net.Conn, error) { return enter(ctx, c, controlDoor) })}
}

// askLimit ends an operation on records alone.
const askLimit = 20 * time.Second

func (g *afar) one(ctx context.Context, op control.Operation, r control.Request) (gateway.Sandbox, error) {
	reply, err := g.client.Do(ctx, op, r)
	if reply.Sandbox == nil {
		return gateway.Sandbox{}, err
	}
	return *reply.Sandbox, err
}

func (g *afar) only(ctx context.Context, op control.Operation, r control.Request) error {
	_, err := g.client.Do(ctx, op, r)
	return err
}

func (g *afar) EnsureWorkspace(ctx context.Context, name string) error {
	return g.only(ctx, control.EnsureWorkspace, control.Request{Workspace: name})
}

func (g *afar) DeleteWorkspace(ctx context.Context, name string) error {
	return g.only(ctx, control.DeleteWorkspace, control.Request{Workspace: name})
}

func (g *afar) Create(ctx context.Context, w gateway.Wish) (gateway.Sandbox, error) {
	spec, err := protojson.Marshal(w.Spec)
	noError(g.t, err)
	return g.one(ctx, control.Create, control.Request{ID: w.ID, Workspace: w.Workspace, Name: w.Name, Spec: spec})
}

func (g *afar) Start(ctx context.Context, id string) (gateway.Sandbox, error) {
	return g.one(ctx, control.Start, control.Request{ID: id})
}

func (g *afar) Stop(ctx context.Context, id string) error {
	return g.only(ctx, control.Stop, control.Request{ID: id})
}

func (g *afar) Delete(ctx context.Context, id string) error {
	return g.only(ctx, control.Delete, control.Request{ID: id})
}

func (g *afar) Drop(ctx context.Context, id string) error {
	return g.only(ctx, control.Drop, control.Request{ID: id})
}

func (g *afar) Get(id string) (gateway.Sandbox, error) { return g.get(control.Request{ID: id}) }

func (g *afar) Find(workspace, name string) (gateway.Sandbox, error) {
	return g.get(control.Request{Workspace: workspace, Name: name})
}

func (g *afar) get(r control.Request) (gateway.Sandbox, error) {
	ctx, cancel := context.WithTimeout(g.t.Context(), askLimit)
	defer cancel()
	return g.one(ctx, control.Get, r)
}

func (g *afar) Exec(ctx context.Context, id string, command []string, stdin []byte) (gatewayside.Output, error) {
	reply, err := g.client.Do(ctx, control.Exec, control.Request{ID: id, Command: command, Stdin: stdin})
	if err != nil {
		return gatewayside.Output{}, err
	}
	return gatewayside.Output{Stdout: reply.Stdout, Stderr: reply.Stderr, Exit: exited(reply.Exit)}, nil
}

// exited is how a command ended; one of which that is not known did not end well.
func exited(exit *boundary.Exit) boundary.Exit {
	if exit == nil {
		return boundary.Exit{Code: 255}
	}
	return *exit
}

func (g *afar) AwaitPhase(ctx context.Context, id string, wanted ...phase.Phase) (last gateway.Sandbox, err error) {
	err = g.await(ctx, id, func(s gateway.Sandbox) bool {
		last = s
		return slices.Contains(wanted, s.Phase) || s.Phase == phase.Error
	})
	if err == nil && !slices.Contains(wanted, last.Phase) {
		err = fmt.Errorf("it failed: %s: %s", last.Cause, last.Message)
	}
	return last, err
}

func (g *afar) AwaitRemoved(ctx context.Context, id string) error {
	err := g.await(ctx, id, func(gateway.Sandbox) bool { return false })
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

// await waits until the sandbox is as it should be. The error is NOT_FOUND when there is no row.
func (g *afar) await(ctx context.Context, id string, enough func(gateway.Sandbox) bool) error {
	events := g.Subscribe()
	defer events.Close()
	for {
		s, err := g.Get(id)
		if err != nil || enough(s) {
			return err
		}
		if _, err := events.Await(ctx, func(e gateway.Event) bool { return e.SandboxID == id }); err != nil {
			return err
		}
	}
}

// told are the gateway's events from a moment on.
type told struct {
	events chan gateway.Event
	stop   context.CancelFunc
	over   chan struct{}
}

func (g *afar) Subscribe() subscription {
	ctx, stop := context.WithCancel(g.t.Context())
	follow, err := g.client.Follow(ctx)
	if err != nil {
		stop()
		g.t.Fatalf("follow the gateway's events: %v", err)
	}
	s := &told{events: make(chan gateway.Event), stop: stop, over: make(chan struct{})}
	go func() {
		defer close(s.over)
		defer close(s.events)
		err := follow(func(line []byte) {
			var e gateway.Event
			// Of a line that has come in part when nobody listens any more the rest never comes.
			if err := json.Unmarshal(line, &e); err != nil && ctx.Err() == nil {
				g.t.Errorf("an event that cannot be read: %v: %s", err, line)
			}
			select {
			case s.events <- e:
			case <-ctx.Done():
			}
		})
		if err != nil {
			g.t.Errorf("follow the gateway's events: %v", err)
		}
	}()
	return s
}

func (s *told) Await(ctx context.Context, fits func(gateway.Event) bool) (gateway.Event, error) {
	for {
		select {
		case e, more := <-s.events:
			if !more {
				return e, status.Error(codes.Unavailable, "the gateway tells no more")
			}
			if fits(e) {
				return e, nil
			}
		case <-ctx.Done():
			return gateway.Event{}, context.Cause(ctx)
		}
	}
}

func (s *told) Close() {
	s.stop()
	<-s.over
}
