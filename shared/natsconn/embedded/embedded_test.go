package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/embedded"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdStoreEnv); dir != "" {
		holdStore(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// valid is the base that each case changes in one way.
func valid(t testing.TB) embedded.Config {
	t.Helper()
	return embedded.Config{StoreDir: filepath.Join(t.TempDir(), "nats"), Listen: "127.0.0.1:0", MaxStore: 64 << 20}
}

type running struct {
	*embedded.Server
	stop func()
	log  *logBuffer
}

// logBuffer takes log lines from the server's goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs a server until stop or the end of the test.
func start(t *testing.T, cfg embedded.Config) *running {
	t.Helper()
	r := &running{log: &logBuffer{}}
	server, err := embedded.New(cfg, zerolog.New(r.log))
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	r.Server = server
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	select {
	case <-server.Listening():
	case err := <-done:
		cancel()
		t.Fatalf("run: %v", err)
	case <-time.After(patience):
		cancel()
		t.Fatalf("not listening after %s", patience)
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v, want nil for a requested stop", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func dial(t *testing.T, url string, opts ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func TestStoreOutlivesTheServer(t *testing.T) {
	cfg := valid(t)
	first := start(t, cfg)
	if err := first.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
	_, js := dial(t, first.ClientURL())
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "probe", Storage: jetstream.FileStorage})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	first.stop()
	if err := first.Ready(t.Context()); err == nil {
		t.Error("ready after the stop")
	}
	if url := first.ClientURL(); url != "" {
		t.Errorf("client URL %q after the stop", url)
	}
	if !strings.Contains(first.log.String(), "Listening for client connections") {
		t.Errorf("the server's log did not arrive:\n%s", first.log)
	}

	second := start(t, cfg)
	_, js = dial(t, second.ClientURL())
	kv, err = js.KeyValue(t.Context(), "probe")
	if err != nil {
		t.Fatal(err)
	}
	if entry, err := kv.Get(t.Context(), "key"); err != nil || string(entry.Value()) != "value" {
		t.Errorf("after restart: %v, %v", entry, err)
	}
}

// TestHostAndOthersConnectBySettings goes the way of the daemons: one settings section for the server and its
// clients, TLS, client certificates and NKEYs on.
func TestHostAndOthersConnectBySettings(t *testing.T) {
	ca := certtest.New(t, "mesh")
	files := ca.Issue(t.TempDir(), "daemon")
	public, seed := natstest.NKey(t)
	settings := natsconn.DefaultConfig()
	settings.Embedded, settings.EmbeddedStoreDir = true, filepath.Join(t.TempDir(), "nats")
	settings.EmbeddedListen = natstest.New(t).Addr()
	settings.EmbeddedCertFile, settings.EmbeddedKeyFile, settings.EmbeddedClientCAFile = files.Cert, files.Key, files.CA
	settings.CAFile, settings.CertFile, settings.KeyFile = files.CA, files.Cert, files.Key
	settings.TLSHandshakeFirst = true
	settings.EmbeddedAuthorizedNKeys, settings.NKeySeedFile = []string{public}, filepath.Join(t.TempDir(), "seed")
	certtest.Replace(t, settings.NKeySeedFile, seed)

	conn, err := natsconn.New(settings, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	server := start(t, embedded.FromSettings(settings))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- conn.Run(ctx) }()
	session, err := conn.Await(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if session.Server != server.ClientURL() {
		t.Errorf("connected to %s, want %s", session.Server, server.ClientURL())
	}
	if _, err := session.JetStream.AccountInfo(ctx); err != nil {
		t.Errorf("JetStream: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestClientsWithoutIdentityAreRefused(t *testing.T) {
	ca, other := certtest.New(t, "mesh"), certtest.New(t, "other")
	files := ca.Issue(t.TempDir(), "server")
	foreign := other.Issue(t.TempDir(), "client")
	public, seed := natstest.NKey(t)
	_, strange := natstest.NKey(t)
	cfg := valid(t)
	cfg.CertFile, cfg.KeyFile, cfg.ClientCAFile, cfg.AuthorizedNKeys = files.Cert, files.Key, files.CA, []string{public}
	server := start(t, cfg)
	nkey := func(seed []byte) nats.Option {
		path := filepath.Join(t.TempDir(), "seed")
		certtest.Replace(t, path, seed)
		option, err := nats.NkeyOptionFromSeed(path)
		if err != nil {
			t.Fatal(err)
		}
		return option
	}
	trust, certificate := nats.RootCAs(files.CA), nats.ClientCert(files.Cert, files.Key)
	dial(t, server.ClientURL(), trust, certificate, nkey(seed))
	for _, c := range []struct {
		name string
		opts []nats.Option
	}{
		{"no certificate", []nats.Option{trust, nkey(seed)}},
		{"certificate of another authority", []nats.Option{trust, nats.ClientCert(foreign.Cert, foreign.Key), nkey(seed)}},
		{"no NKEY", []nats.Option{trust, certificate}},
		{"unknown NKEY", []nats.Option{trust, certificate, nkey(strange)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if nc, err := nats.Connect(server.ClientURL(), c.opts...); err == nil {
				nc.Close()
				t.Error("was let in")
			}
		})
	}
}

func TestRotatedServerCertificate(t *testing.T) {
	dir := t.TempDir()
	before, after := certtest.New(t, "before"), certtest.New(t, "after")
	files := before.Issue(dir, "server")
	cfg := valid(t)
	cfg.CertFile, cfg.KeyFile = files.Cert, files.Key
	server := start(t, cfg)
	trusted := func(ca *certtest.CA) bool {
		path := filepath.Join(t.TempDir(), "ca")
		certtest.Replace(t, path, ca.PEM())
		nc, err := nats.Connect(server.ClientURL(), nats.RootCAs(path))
		if err == nil {
			nc.Close()
		}
		return err == nil
	}
	if !trusted(before) || trusted(after) {
		t.Fatal("the first certificate is not in use")
	}
	certtest.Replace(t, files.Cert, []byte("half a file"))
	if !trusted(before) {
		t.Error("a broken file took the server's certificate away")
	}
	after.Issue(dir, "server")
	for deadline := time.Now().Add(patience); !trusted(after); {
		if time.Now().After(deadline) {
			t.Fatal("the new certificate was never used")
		}
	}
}

func TestStoreOfAnotherServerIsRefused(t *testing.T) {
	cfg := valid(t)
	first := start(t, cfg)
	second, err := embedded.New(cfg, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another server is using it") {
		t.Fatalf("second server on the store: %v", err)
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("second run: %v", err)
	}
	first.stop()
	start(t, cfg)
}

func TestFailedStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	const storeKey, listenKey = "portcullis.nats.embedded_store_dir: ", "portcullis.nats.embedded_listen: "
	files := certtest.New(t, "mesh").Issue(t.TempDir(), "server")
	inUse := valid(t)
	start(t, inUse)
	file := filepath.Join(t.TempDir(), "file")
	certtest.Replace(t, file, []byte("x"))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		spoil func(c *embedded.Config)
		key   string
		text  string
	}{
		{"port taken", func(c *embedded.Config) { c.Listen = taken.Addr().String() }, listenKey, "address already in use"},
		{"address of another machine", func(c *embedded.Config) {
			c.Listen, c.CertFile, c.KeyFile, c.ClientCAFile = "192.0.2.1:4222", files.Cert, files.Key, files.CA
		}, listenKey, "cannot assign requested address"},
		{"store is a file", func(c *embedded.Config) { c.StoreDir = file }, storeKey, "not a directory"},
		{"store below a file", func(c *embedded.Config) { c.StoreDir = filepath.Join(file, "nats") }, storeKey, "not a directory"},
		{"store is a link", func(c *embedded.Config) { c.StoreDir = link }, storeKey, "not a directory"},
		{"store where none can be", func(c *embedded.Config) { c.StoreDir = "/proc/nats" }, storeKey, "make store directory"},
		{"store of another user", func(c *embedded.Config) { c.StoreDir = foreignDirectory(t) }, storeKey, "belongs to user"},
		{"store in use", func(c *embedded.Config) { c.StoreDir = inUse.StoreDir }, storeKey, "another server is using it"},
		{"server's directory is a file", func(c *embedded.Config) {
			if err := os.MkdirAll(c.StoreDir, 0o700); err != nil {
				t.Fatal(err)
			}
			certtest.Replace(t, filepath.Join(c.StoreDir, "jetstream"), []byte("x"))
		}, storeKey, "JetStream"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := valid(t)
			c.spoil(&cfg)
			server, err := embedded.New(cfg, zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{"claim": server.Claim(t.Context()), "run": server.Run(t.Context())} {
				if err == nil || !strings.HasPrefix(err.Error(), c.key) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %v, want one line with %s and %q", what, err, c.key, c.text)
				}
			}
			if server.Ready(t.Context()) == nil {
				t.Error("ready after a failed start")
			}
		})
	}
}

// foreignDirectory belongs to another user: root can make one, everyone else finds the root directory.
func foreignDirectory(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		return "/"
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestStoreIsPrivate(t *testing.T) {
	cfg := valid(t)
	if err := os.MkdirAll(cfg.StoreDir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(cfg.StoreDir, 0o777); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
	info, err := os.Stat(cfg.StoreDir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("store mode %v, want 0700", got)
	}
}

func TestLimits(t *testing.T) {
	nc, js := dial(t, start(t, valid(t)).ClientURL())
	if got := nc.MaxPayload(); got != embedded.MaxPayload {
		t.Errorf("max payload %d, want %d", got, embedded.MaxPayload)
	}
	if err := nc.Publish("probe", make([]byte, embedded.MaxPayload+1)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("too large a message: %v", err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "probe", Subjects: []string{"probe"}, Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	consumer := func(i int) error {
		_, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
			Name: fmt.Sprint("c", i), MemoryStorage: true, InactiveThreshold: time.Hour, // none may expire meanwhile
		})
		return err
	}
	for i := range embedded.MaxConsumers {
		if err := consumer(i); err != nil {
			t.Fatalf("consumer %d: %v", i+1, err)
		}
	}
	if err := consumer(embedded.MaxConsumers); err == nil || !strings.Contains(err.Error(), "maximum consumers") {
		t.Errorf("one consumer too many: %v", err)
	}
}

func TestBrokenConfig(t *testing.T) {
	ca := certtest.New(t, "mesh")
	files := ca.Issue(t.TempDir(), "server")
	_, otherKey := ca.IssuePEM("other")
	keyFile := filepath.Join(t.TempDir(), "key")
	certtest.Replace(t, keyFile, otherKey)
	for _, c := range []struct {
		name  string
		spoil func(c *embedded.Config)
		text  string
	}{
		{"zero", func(c *embedded.Config) { *c = embedded.Config{} }, "absolute path"},
		{"relative store", func(c *embedded.Config) { c.StoreDir = "nats" }, "absolute path"},
		{"no store limit", func(c *embedded.Config) { c.MaxStore = 0 }, "not positive"},
		{"no listen address", func(c *embedded.Config) { c.Listen = "" }, "ip:port"},
		{"listen on a name", func(c *embedded.Config) { c.Listen = "localhost:0" }, "ip:port"},
		{"listen on every address", func(c *embedded.Config) { c.Listen = "0.0.0.0:0" }, "not loopback"},
		{"everyone on the network", func(c *embedded.Config) {
			c.Listen, c.CertFile, c.KeyFile = "0.0.0.0:0", files.Cert, files.Key
		}, "every client is let in"},
		{"certificate without key", func(c *embedded.Config) { c.CertFile = files.Cert }, "together"},
		{"client authority without TLS", func(c *embedded.Config) { c.ClientCAFile = files.CA }, "need a certificate"},
		{"key of another certificate", func(c *embedded.Config) { c.CertFile, c.KeyFile = files.Cert, keyFile }, "does not match"},
		{"absent certificate", func(c *embedded.Config) { c.CertFile, c.KeyFile = "/nowhere/tls.crt", files.Key }, "no such file"},
		{"client authority malformed", func(c *embedded.Config) {
			c.CertFile, c.KeyFile, c.ClientCAFile = files.Cert, files.Key, keyFile
		}, "embedded_client_ca_file"},
		{"user key malformed", func(c *embedded.Config) { c.AuthorizedNKeys = []string{"U"} }, "NKEY 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := valid(t)
			c.spoil(&cfg)
			if _, err := embedded.New(cfg, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("new: %v, want %q", err, c.text)
			}
			if _, err := os.Stat(cfg.StoreDir); err == nil && filepath.IsAbs(cfg.StoreDir) {
				t.Error("new touched the store")
			}
		})
	}
}
