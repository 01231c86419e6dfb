//go:build portcullis_long

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/images"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// bucket is the stream of the allowlist, and trail that of audit events.
const (
	bucket = "KV_portcullis_allowlist"
	trail  = "PORTCULLIS_AUDIT"
)

// monitorPolicy lets the test ask the NATS servers how they are, as monitoring does.
const monitorPolicy = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: nats-monitor, namespace: portcullis}
spec:
  podSelector: {matchLabels: {app.kubernetes.io/name: nats}}
  policyTypes: [Ingress]
  ingress: [{from: [{ipBlock: {cidr: ` + cluster.HostAddress + `/32}}], ports: [{port: monitor}]}]
`

// threeServers: both streams are on all three NATS servers. The one that leads the list's is deleted, then all are replaced one after another,
// and all the time nobody is told a wrong yes or a wrong no; whoever is refused is so since the proof of the list is old. While two are away the
// gate is closed for that reason, and it opens when they are back.
func threeServers(t *testing.T, i *installation) {
	liveUpdate(t, i.house)
	i.c.Apply(t, installed, []byte(monitorPolicy))
	for _, stream := range []string{bucket, trail} {
		i.awaitServers(t, stream)
	}
	ns, barred := i.workspace(t, "majority"), i.namespace(t, "minority")
	s, err := i.create(t, i.wish(t, ns, "box"))
	noError(t, err)
	end := i.vigil(t, s, barred)
	i.loseLeader(t)
	end("while the server that leads is deleted")
	end = i.vigil(t, s, barred)
	i.restarted(t, "statefulsets", images.NATS)
	end("while all servers are replaced")
	for _, stream := range []string{bucket, trail} {
		i.awaitServers(t, stream)
	}
	// What is said now is new: both change places, and back.
	for _, on := range []bool{true, false} {
		i.admit(t, barred, on)
		i.admit(t, ns, !on)
		open, shut := barred, ns
		if !on {
			open, shut = ns, barred
		}
		i.awaitAllowed(t, open)
		i.awaitBarred(t, shut)
	}
	i.remove(t, s)
	outage(t, i, ns, absence{kind: "statefulsets", name: images.NATS, left: 1, reasons: []string{"stale"}})
	i.awaitServers(t, bucket)
}

// loseLeader deletes the Pod of the server that leads the list's stream, which says before it ends that it takes no more clients, and waits
// until another leads and its Pod is there again.
func (i *installation) loseLeader(t *testing.T) {
	t.Helper()
	leader := i.awaitServers(t, bucket)
	pods := i.c.Client().CoreV1().Pods(installed)
	former, err := pods.Get(t.Context(), leader, metav1.GetOptions{})
	noError(t, err)
	said := i.follow(t, leader, images.NATS)
	noError(t, pods.Delete(t.Context(), leader, metav1.DeleteOptions{}))
	if log := said(); !strings.Contains(log, "Entering lame duck mode") {
		t.Errorf("the server %s ended without sending its clients away: %s", leader, log)
	}
	i.eventually(t, "the Pod of "+leader+" is there again", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, leader, metav1.GetOptions{})
		if err == nil && (pod.UID == former.UID || !readyPod(pod)) {
			err = fmt.Errorf("it is the former or not ready: %s", unready(ctx, i.c))
		}
		return err
	})
	t.Logf("%s led the list's stream, and now %s does", leader, i.awaitServers(t, bucket))
}

// follow returns, when the container of a Pod has ended, all that it has logged.
func (i *installation) follow(t *testing.T, pod, container string) (ended func() string) {
	t.Helper()
	stream, err := i.c.Client().CoreV1().Pods(installed).GetLogs(pod, &corev1.PodLogOptions{Container: container, Follow: true}).Stream(t.Context())
	noError(t, err)
	said := make(chan string, 1)
	go func() {
		defer func() { _ = stream.Close() }()
		log, err := io.ReadAll(stream)
		said <- fmt.Sprint(string(log), errors.Join(err))
	}()
	return func() string { return <-said }
}

// awaitServers waits until every NATS server is ready and has the stream, with one of them at its head, and returns the name of that one.
func (i *installation) awaitServers(t *testing.T, stream string) (leader string) {
	t.Helper()
	i.eventually(t, "stream "+stream+" is on every server", func(ctx context.Context) error {
		pods := i.daemonPods(t, images.NATS)
		for name, pod := range pods {
			at, err := standingAt(ctx, pod, stream)
			if err != nil {
				return err
			}
			// A server does not count itself.
			at.servers[name] = true
			if want := slices.Sorted(maps.Keys(pods)); at.leader == "" || len(want) != i.overlay.servers || !slices.Equal(slices.Sorted(maps.Keys(at.servers)), want) {
				return fmt.Errorf("%s says that it is on %v and that %q leads; the servers are %v", name, at.servers, at.leader, want)
			}
			leader = at.leader
		}
		return nil
	})
	return leader
}

// standing is what a NATS server knows of a stream: who leads it, and who else has it.
type standing struct {
	leader  string
	servers map[string]bool
}

// standingAt asks one server.
func standingAt(ctx context.Context, pod *corev1.Pod, stream string) (standing, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	target := "http://" + net.JoinHostPort(pod.Status.PodIP, "8222") + "/jsz?accounts=true&streams=true"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return standing{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return standing{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	var said struct {
		Accounts []struct {
			Streams []struct {
				Name    string `json:"name"`
				Cluster struct {
					Leader   string `json:"leader"`
					Replicas []struct {
						Name string `json:"name"`
					} `json:"replicas"`
				} `json:"cluster"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil {
		return standing{}, fmt.Errorf("read what %s says of its streams: %w", pod.Name, err)
	}
	for _, account := range said.Accounts {
		for _, s := range account.Streams {
			if s.Name != stream {
				continue
			}
			at := standing{leader: s.Cluster.Leader, servers: map[string]bool{}}
			for _, peer := range s.Cluster.Replicas {
				at.servers[peer.Name] = true
			}
			return at, nil
		}
	}
	return standing{}, fmt.Errorf("%s has no stream %s", pod.Name, stream)
}

// vigil asks all the time, until it is ended, for the workspace of a sandbox, for a token of its supervisor, and for a namespace that may not be
// used. The last is never granted. The others are granted, or refused since the proof of the list is old and for no other reason.
func (i *installation) vigil(t *testing.T, s gateway.Sandbox, barred string) (end func(when string)) {
	t.Helper()
	former := map[string]int{}
	for daemon, message := range gateRefusals {
		former[daemon] = len(i.said(daemon, message, s.Workspace))
	}
	ctx, stop := context.WithCancel(t.Context())
	answers, ended := map[codes.Code]int{}, make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			i.demandNever(t, ctx, barred)
			answers[i.askAs(t, ctx, s)]++
		}
	}()
	over := func() {
		stop()
		<-ended
	}
	t.Cleanup(over)
	return func(when string) {
		t.Helper()
		over()
		t.Logf("%s a workspace that may be used was answered %v", when, answers)
		if answers[codes.OK] == 0 {
			t.Errorf("%s nobody was ever let in", when)
		}
		for daemon, message := range gateRefusals {
			lines := i.said(daemon, message, s.Workspace)
			for _, line := range lines[min(former[daemon], len(lines)):] {
				if line["reason"] != "stale" {
					t.Errorf("%s %s refused it so: %v", when, daemon, line)
				}
			}
		}
	}
}

// gateRefusals are the lines of the daemons that ask the list.
var gateRefusals = map[string]string{mesh.Lifecycle: "refused", mesh.Tokenauth: "bearer refused"}

// demandNever demands that a namespace is not granted that may not be used.
func (i *installation) demandNever(t *testing.T, ctx context.Context, barred string) {
	if err := i.gateway.EnsureWorkspace(ctx, barred); err == nil {
		t.Error("what may not be used was granted")
	}
}

// askAs asks for what may be used, and returns the gate's answer.
func (i *installation) askAs(t *testing.T, ctx context.Context, s gateway.Sandbox) codes.Code {
	err := i.gateway.EnsureWorkspace(ctx, s.Workspace)
	if ctx.Err() != nil {
		return codes.Canceled
	}
	if err != nil && (status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), unproven)) {
		t.Errorf("what may be used is answered %v", err)
	}
	token := i.exchange(ctx, s)
	if ctx.Err() == nil && token != nil && status.Code(token) != codes.Unavailable {
		t.Errorf("a supervisor that may be let in is answered %v", token)
	}
	return status.Code(err)
}
