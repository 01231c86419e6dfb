package bench_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/mesh"
	"github.com/portcullis-mesh/portcullis/test/program"
)

const (
	// known is how many sandboxes the lifecycle behind the relay has: a list of them is as long as lifecycle's.
	known = 5000
	// few is how many each of many streams is told of, many what one stream is told at once.
	few, many = 100, 100_000
	// relayTime is for how long callers call, and for how long a relay at rest is looked at.
	relayTime = 15 * time.Second
)

// BenchmarkRelay runs once, whatever b.N is, and prints its table. Behind the relay, over mutual TLS, is a server that answers at once with
// answers of the size of lifecycle's: a relay decodes nothing, so what is in them does not matter to it. A stream is told of sandboxes, and
// then stays, as a watch does. Each row has a relay of its own.
func BenchmarkRelay(b *testing.B) {
	behind := startBehind(b)
	var open, calls []relayRow
	for _, streams := range []int{0, 1, 16, 128, 1000} {
		open = append(open, behind.open(b, streams))
	}
	open = append(open, behind.told(b))
	for _, callers := range []int{1, 16} {
		calls = append(calls, behind.call(b, "GetSandbox", callers), behind.call(b, "ListSandboxes", callers))
	}
	show(b, "streams", relayTable(open))
	show(b, "calls", fmt.Sprintf("%s\n\nAn answer to ListSandboxes has %d bytes, one to GetSandbox %d.", relayTable(calls), proto.Size(behind.all), proto.Size(behind.one)))
}

// relayRow is what a relay took while something went on.
type relayRow struct {
	what      string
	now, most int64 // resident bytes
	each      time.Duration
	of        string // what each was
	done      int64
	took      time.Duration
}

// behind is what the relay takes for lifecycle.
type behind struct {
	computev1.UnimplementedComputeDriverServer

	ca      *meshtest.CA
	address string
	all     *computev1.ListSandboxesResponse
	one     *computev1.GetSandboxResponse
	// tell is of how many sandboxes each stream is told.
	tell atomic.Int64
}

func startBehind(b *testing.B) *behind {
	b.Helper()
	s := &behind{ca: meshtest.NewCA(b), all: &computev1.ListSandboxesResponse{}}
	for n := range known {
		s.all.Sandboxes = append(s.all.Sandboxes, sandboxLike(n))
	}
	s.one = &computev1.GetSandboxResponse{Sandbox: s.all.GetSandboxes()[0]}
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s.address = listener.Addr().String()
	server := grpc.NewServer(grpc.MaxConcurrentStreams(2048), grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{s.ca.Issue(b, mesh.Lifecycle).TLS(b)}, ClientCAs: s.ca.Pool(),
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	})))
	computev1.RegisterComputeDriverServer(server, s)
	ready := health.NewServer()
	ready.SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, ready)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	b.Cleanup(func() { server.Stop(); serving.Wait() })
	return s
}

// sandboxLike is a sandbox of some 330 bytes, as those of which lifecycle's list of 5 000 was 1.6 MiB.
func sandboxLike(n int) *computev1.DriverSandbox {
	name := fmt.Sprintf("sandbox-%05d", n)
	return &computev1.DriverSandbox{
		Id: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Name: name, Workspace: "team", Namespace: "sandboxes",
		Status: &computev1.DriverSandboxStatus{
			Name: "team--" + name,
			Conditions: []*computev1.DriverCondition{{
				Type: "Ready", Status: "True", Reason: "DependenciesReady", Message: strings.Repeat("it is ready; ", 12),
			}},
		},
	}
}

func (s *behind) GetSandbox(context.Context, *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
	return s.one, nil
}

func (s *behind) ListSandboxes(context.Context, *computev1.ListSandboxesRequest) (*computev1.ListSandboxesResponse, error) {
	return s.all, nil
}

func (s *behind) WatchSandboxes(_ *computev1.WatchSandboxesRequest, stream grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
	for n := range s.tell.Load() {
		event := &computev1.WatchSandboxesEvent{Payload: &computev1.WatchSandboxesEvent_Sandbox{
			Sandbox: &computev1.WatchSandboxesSandboxEvent{Sandbox: s.all.GetSandboxes()[n%known]},
		}}
		if err := stream.Send(event); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

// seat is a relay with the gateway's end of its socket.
type seat struct {
	*field
	relay  *program.Process
	driver computev1.ComputeDriverClient
}

func (s *behind) relay(b *testing.B) *seat {
	b.Helper()
	dir, err := os.MkdirTemp("", "rl") // the path of a socket must be short
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	pair := s.ca.Issue(b, mesh.Relay)
	for name, content := range map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key, "ca.crt": s.ca.PEM} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "driver", "driver.sock")
	p := program.Start(b, "lifecycle relay", fmt.Sprintf(`[openshell.drivers.kubernetes]
socket_path = %q
[portcullis.relay]
http_address = "127.0.0.1:0"
lifecycle_address = %q
[portcullis.mesh]
cert_file = %q
key_file = %q
ca_file = %q
`, socket, s.address, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")))
	p.AwaitReady()
	conn, err := udsock.NewClient(socket, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	at := &seat{field: &field{b: b}, relay: p, driver: computev1.NewComputeDriverClient(conn)}
	if _, err := at.driver.GetSandbox(b.Context(), &computev1.GetSandboxRequest{}); err != nil {
		b.Fatal(err)
	}
	return at
}

// watch opens so many streams, and returns when each has been told of so many sandboxes.
func (at *seat) watch(streams, told int) (leave func()) {
	at.b.Helper()
	ctx, cancel := context.WithCancel(at.b.Context())
	var telling, open sync.WaitGroup
	for range streams {
		telling.Add(1)
		open.Go(func() {
			done := sync.OnceFunc(telling.Done)
			defer done()
			stream, err := at.driver.WatchSandboxes(ctx, &computev1.WatchSandboxesRequest{})
			for n := 0; err == nil; n++ {
				if n == told {
					done()
				}
				_, err = stream.Recv()
			}
			if ctx.Err() == nil {
				at.b.Errorf("a watch through the relay ended: %v", err)
			}
		})
	}
	telling.Wait()
	return func() { cancel(); open.Wait() }
}

// open is a relay with open streams of which all has been told: what it has then, and takes while nothing happens.
func (s *behind) open(b *testing.B, streams int) relayRow {
	b.Helper()
	at := s.relay(b)
	most := at.watchResident(at.relay.PID())
	s.tell.Store(few)
	leave := at.watch(streams, few)
	cpu, start := at.cpu(at.relay.PID()), time.Now()
	time.Sleep(relayTime)
	row := relayRow{what: fmt.Sprintf("%d streams, each told of %d", streams, few), of: "a second at rest", done: int64(time.Since(start).Seconds()), took: time.Since(start)}
	row.each = (at.cpu(at.relay.PID()) - cpu) / time.Duration(row.done)
	row.now, row.most = at.resident(at.relay.Resident()), most()
	leave()
	at.relay.Stop()
	return row
}

// told is one stream that is told of much, without an end to what waits.
func (s *behind) told(b *testing.B) relayRow {
	b.Helper()
	s.tell.Store(many)
	at := s.relay(b)
	most := at.watchResident(at.relay.PID())
	cpu, start := at.cpu(at.relay.PID()), time.Now()
	leave := at.watch(1, many)
	row := relayRow{what: "one stream, told at once", of: "an event", done: many, took: time.Since(start)}
	row.each = (at.cpu(at.relay.PID()) - cpu) / many
	row.now, row.most = at.resident(at.relay.Resident()), most()
	leave()
	at.relay.Stop()
	return row
}

// call has so many callers call one after another for relayTime.
func (s *behind) call(b *testing.B, method string, callers int) relayRow {
	b.Helper()
	at := s.relay(b)
	most := at.watchResident(at.relay.PID())
	var done atomic.Int64
	var calling sync.WaitGroup
	cpu, start := at.cpu(at.relay.PID()), time.Now()
	for range callers {
		calling.Go(func() {
			for time.Since(start) < relayTime {
				var err error
				if method == "GetSandbox" {
					_, err = at.driver.GetSandbox(b.Context(), &computev1.GetSandboxRequest{})
				} else {
					_, err = at.driver.ListSandboxes(b.Context(), &computev1.ListSandboxesRequest{})
				}
				if err != nil {
					b.Errorf("%s through the relay: %v", method, err)
					return
				}
				done.Add(1)
			}
		})
	}
	calling.Wait()
	row := relayRow{what: fmt.Sprintf("%s by %d callers", method, callers), of: "a call", done: done.Load(), took: time.Since(start)}
	row.each = (at.cpu(at.relay.PID()) - cpu) / time.Duration(max(row.done, 1))
	row.now, row.most = at.resident(at.relay.Resident()), most()
	at.relay.Stop()
	return row
}

func relayTable(rows []relayRow) string {
	var b strings.Builder
	b.WriteString("| relay | resident / most | processor | were | in |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %.1f / %.1f MiB | %.3f ms for %s | %d | %.1f s |\n", r.what, mib(r.now), mib(r.most), ms(r.each), r.of, r.done, r.took.Seconds())
	}
	return strings.TrimSuffix(b.String(), "\n")
}
