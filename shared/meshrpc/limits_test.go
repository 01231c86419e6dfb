package meshrpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

// small is a server with every limit at its floor, and a permitted client's
// credentials.
func small(t *testing.T, s *service) (address string, creds credentials.TransportCredentials, client *member) {
	t.Helper()
	ca := meshtest.NewCA(t)
	cfg := configFor(meshtest.NewFiles(t, ca, "tokenauth"))
	cfg.MaxMessageBytes, cfg.MaxConcurrentStreams = 1024, 3
	cfg.MaxCallDuration = driverconf.Duration(50 * time.Minute)
	address = join(t, cfg, "tokenauth").serve(t, onlyLifecycle(), s)
	files := meshtest.NewFiles(t, ca, "lifecycle")
	clientCfg := configFor(files)
	clientCfg.MaxCallDuration = driverconf.Duration(time.Hour)
	clientCfg.CallTimeout = driverconf.Duration(30 * time.Minute)
	creds = credentials.NewTLS(insecureTLS(nil, ca.Issue(t, "lifecycle").TLS(t)))
	return address, creds, join(t, clientCfg, "lifecycle")
}

func TestMessageSize(t *testing.T) {
	address, creds, client := small(t, &service{})
	request := func(n int) *grpc_testing.SimpleRequest {
		return &grpc_testing.SimpleRequest{Payload: &grpc_testing.Payload{Body: bytes.Repeat([]byte("x"), n)}}
	}
	conn := grpc_testing.NewTestServiceClient(stranger(t, address, creds))
	_, err := conn.UnaryCall(testContext(t), request(900))
	must(t, err)
	if _, err := conn.UnaryCall(testContext(t), request(1100)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an oversized request ends with %v", err)
	}
	own := client.client(t, Target{Daemon: "tokenauth", Address: address})
	if _, err := own.UnaryCall(testContext(t), request(DefaultConfig().MaxMessageBytes)); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "trying to send message larger than max") {
		t.Errorf("our client sends too much: %v", err)
	}
}

func TestMetadataSize(t *testing.T) {
	address, creds, _ := small(t, &service{})
	call := func(n int) error {
		ctx := metadata.AppendToOutgoingContext(testContext(t), "x", strings.Repeat("y", n))
		_, err := grpc_testing.NewTestServiceClient(stranger(t, address, creds)).EmptyCall(ctx, &grpc_testing.Empty{})
		return err
	}
	must(t, call(30<<10))
	if err := call(70 << 10); err == nil {
		t.Error("metadata of 70 KiB passes")
	}
}

func TestDeadlines(t *testing.T) {
	var left time.Duration
	var bounded bool
	s := &service{empty: func(ctx context.Context) error {
		deadline, ok := ctx.Deadline()
		bounded, left = ok, time.Until(deadline)
		return nil
	}}
	address, creds, client := small(t, s)
	foreign := grpc_testing.NewTestServiceClient(stranger(t, address, creds))
	own := client.client(t, Target{Daemon: "tokenauth", Address: address})
	within := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		t.Cleanup(cancel)
		return ctx
	}
	// The handler sees at most `atMost` of time left, and more than `above`, which keeps
	// one bound from being mistaken for another and is minutes away from the truth.
	cases := map[string]struct {
		client        grpc_testing.TestServiceClient
		ctx           context.Context
		above, atMost time.Duration
	}{
		"the server's cap without a deadline":  {foreign, context.Background(), 30 * time.Minute, 50 * time.Minute},
		"the server's cap over a far deadline": {foreign, within(2 * time.Hour), 30 * time.Minute, 50 * time.Minute},
		"the caller's nearer deadline":         {foreign, within(10 * time.Minute), 0, 10 * time.Minute},
		"our client's default":                 {own, context.Background(), 10 * time.Minute, 30 * time.Minute},
		"our caller's nearer deadline":         {own, within(10 * time.Minute), 0, 10 * time.Minute},
		"our caller's farther deadline":        {own, within(40 * time.Minute), 30 * time.Minute, 40 * time.Minute},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := c.client.EmptyCall(c.ctx, &grpc_testing.Empty{})
			must(t, err)
			if !bounded || left > c.atMost || left <= c.above {
				t.Errorf("the handler has a deadline: %t, in %s; want above %s, at most %s", bounded, left, c.above, c.atMost)
			}
		})
	}
}

// rawHTTP2 speaks frames to the server, as a client that keeps no rule of gRPC's.
func rawHTTP2(t *testing.T, address string, ca *meshtest.CA) *http2.Framer {
	t.Helper()
	conn, err := tls.Dial("tcp", address, insecureTLS(nil, ca.Issue(t, "lifecycle").TLS(t)))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = conn.Write([]byte(http2.ClientPreface))
	must(t, err)
	framer := http2.NewFramer(conn, conn)
	must(t, framer.WriteSettings())
	return framer
}

func TestServerSettings(t *testing.T) {
	ca := meshtest.NewCA(t)
	cfg := configFor(meshtest.NewFiles(t, ca, "tokenauth"))
	cfg.MaxConcurrentStreams = 3
	framer := rawHTTP2(t, join(t, cfg, "tokenauth").serve(t, onlyLifecycle(), &service{}), ca)
	frame, err := framer.ReadFrame()
	must(t, err)
	settings, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("the first frame is %v", frame)
	}
	if n, ok := settings.Value(http2.SettingMaxConcurrentStreams); !ok || n != 3 {
		t.Errorf("concurrent streams: %d, %t", n, ok)
	}
	if n, ok := settings.Value(http2.SettingMaxHeaderListSize); !ok || n != maxHeaderBytes {
		t.Errorf("header list: %d, %t", n, ok)
	}
}

// A client that pings far more often than half the keepalive time is sent away.
func TestPingFlood(t *testing.T) {
	ca := meshtest.NewCA(t)
	address := join(t, configFor(meshtest.NewFiles(t, ca, "tokenauth")), "tokenauth").serve(t, onlyLifecycle(), &service{})
	framer := rawHTTP2(t, address, ca)
	for range 10 {
		// The server may close at any of them.
		if framer.WritePing(false, [8]byte{}) != nil {
			break
		}
	}
	for {
		frame, err := framer.ReadFrame()
		must(t, err)
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			if away.ErrCode != http2.ErrCodeEnhanceYourCalm {
				t.Errorf("sent away with %s", away.ErrCode)
			}
			return
		}
	}
}

// extra options cannot weaken the server.
func TestExtraOptionsDoNotOverride(t *testing.T) {
	ca := meshtest.NewCA(t)
	cfg := configFor(meshtest.NewFiles(t, ca, "tokenauth"))
	cfg.MaxMessageBytes = 1024
	m := join(t, cfg, "tokenauth")
	var seen []string
	outer := func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		response, err := next(ctx, request)
		seen = append(seen, CallerFromContext(ctx).String()+" "+status.Code(err).String())
		return response, err
	}
	server, err := m.NewServer(onlyLifecycle(), func(r Registrar) { grpc_testing.RegisterTestServiceServer(r, &service{}) },
		grpc.Creds(credentials.NewTLS(insecureTLS(nil, ca.Issue(t, "tokenauth").TLS(t)))),
		grpc.MaxRecvMsgSize(1<<30), grpc.ChainUnaryInterceptor(outer))
	must(t, err)
	listener, err := m.Listen(context.Background(), "127.0.0.1:0")
	must(t, err)
	address := serveOn(t, server, listener)
	if err := callEmpty(t, stranger(t, address, credentials.NewTLS(insecureTLS(nil)))); status.Code(err) != codes.Unavailable {
		t.Errorf("without a certificate the call ends with %v", err)
	}
	if got := callAs(t, address, ca.Issue(t, "nswatch")); got != codes.PermissionDenied {
		t.Errorf("another daemon's call ends with %s", got)
	}
	conn := grpc_testing.NewTestServiceClient(stranger(t, address, credentials.NewTLS(insecureTLS(nil, ca.Issue(t, "lifecycle").TLS(t)))))
	if _, err := conn.UnaryCall(testContext(t), &grpc_testing.SimpleRequest{Payload: &grpc_testing.Payload{Body: make([]byte, 2000)}}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an oversized request ends with %v", err)
	}
	if len(seen) != 1 || seen[0] != "nswatch PermissionDenied" {
		t.Errorf("the outer interceptor saw %q", seen)
	}
}

// aging is a server whose connections are old at once, and whose streams tell what the test tells them.
func aging(t *testing.T, tell <-chan struct{}, extra ...grpc.ServerOption) (*grpc.ClientConn, chan string) {
	t.Helper()
	ca := meshtest.NewCA(t)
	m := join(t, configFor(meshtest.NewFiles(t, ca, "tokenauth")), "tokenauth")
	// Below what Validate lets by.
	m.cfg.MaxConnectionAge, m.cfg.MaxCallDuration = driverconf.Duration(50*time.Millisecond), driverconf.Duration(10*time.Millisecond)
	from := make(chan string, 1)
	s := &service{
		empty: func(ctx context.Context) error {
			p, _ := peer.FromContext(ctx)
			select {
			case from <- p.Addr.String():
			case <-ctx.Done(): // nobody waits for the answer of a call that was cut off
			}
			return nil
		},
		output: func(stream grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]) error {
			for {
				select {
				case <-tell:
				case <-stream.Context().Done():
					return stream.Context().Err()
				}
				if err := stream.Send(new(grpc_testing.StreamingOutputCallResponse)); err != nil {
					return err
				}
			}
		},
	}
	server, err := m.NewServer(onlyLifecycle(), func(r Registrar) { grpc_testing.RegisterTestServiceServer(r, s) }, extra...)
	must(t, err)
	listener, err := m.Listen(context.Background(), "127.0.0.1:0")
	must(t, err)
	address := serveOn(t, server, listener)
	return stranger(t, address, credentials.NewTLS(insecureTLS(nil, ca.Issue(t, "lifecycle").TLS(t)))), from
}

// outlive makes calls until they have come over three more connections, so that the first is past its age and its grace.
func outlive(t *testing.T, conn *grpc.ClientConn, from chan string) {
	t.Helper()
	seen := map[string]bool{}
	eventually(t, "the fourth connection", func() bool {
		if _, err := grpc_testing.NewTestServiceClient(conn).EmptyCall(testContext(t), new(grpc_testing.Empty)); err == nil {
			seen[<-from] = true
		}
		return len(seen) == 4
	})
}

// Connections of a server with EndlessStreams have no age, so that a stream and the calls beside it stay on one.
func TestEndlessStreams(t *testing.T) {
	tell := make(chan struct{})
	stream := func(conn *grpc.ClientConn) grpc.ServerStreamingClient[grpc_testing.StreamingOutputCallResponse] {
		got, err := grpc_testing.NewTestServiceClient(conn).StreamingOutputCall(testContext(t), new(grpc_testing.StreamingOutputCallRequest))
		must(t, err)
		return got
	}
	endless, from := aging(t, tell, EndlessStreams())
	goesOn := stream(endless)
	must(t, callEmpty(t, endless))
	first := <-from
	others, fromOthers := aging(t, nil)
	cutOff := stream(others)
	outlive(t, others, fromOthers)
	if _, err := cutOff.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("a stream of a server without the option went on, or ended with %v", err)
	}
	must(t, callEmpty(t, endless))
	if again := <-from; again != first {
		t.Errorf("calls come over %s and then over %s", first, again)
	}
	select {
	case tell <- struct{}{}:
	case <-goesOn.Context().Done():
	}
	if _, err := goesOn.Recv(); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
}

// What has no age ends with the certificate that was shown, at whichever end, and the next connection shows its successor.
func TestConnectionsEndWithTheirCertificates(t *testing.T) {
	for _, short := range []string{"tokenauth", "lifecycle"} {
		t.Run(short, func(t *testing.T) {
			t.Parallel()
			ca, files, all := meshtest.NewCA(t), map[string]*meshtest.Files{}, map[string]*member{}
			for _, name := range []string{"tokenauth", "lifecycle"} {
				var changes []meshtest.Change
				if name == short {
					changes = append(changes, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(4 * time.Second) })
				}
				files[name] = meshtest.NewFiles(t, ca, name, changes...)
				all[name] = join(t, configFor(files[name]), name).running(t)
			}
			s := &service{output: func(stream grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]) error {
				<-stream.Context().Done()
				return stream.Context().Err()
			}}
			address := all["tokenauth"].serve(t, onlyLifecycle(), s, EndlessStreams())
			to := all["lifecycle"].client(t, Target{Daemon: "tokenauth", Address: address, Sticky: new(Sticky)})
			stream, err := to.StreamingOutputCall(testContext(t), new(grpc_testing.StreamingOutputCallRequest))
			must(t, err)
			files[short].Replace(t, meshtest.Content{Pair: ca.Issue(t, short), CA: ca.PEM})
			if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
				t.Errorf("the stream ends with %v", err)
			}
			eventually(t, "a call with the successor", func() bool {
				_, err := to.EmptyCall(testContext(t), new(grpc_testing.Empty))
				return err == nil
			})
		})
	}
}
