package bench_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/freeport"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/mesh"
	"github.com/portcullis-mesh/portcullis/test/program"
)

const (
	// natsChanges is how often the list is changed at each size with one reader, and again with natsReaders.
	natsChanges = 100
	natsReaders = 20
	// natsRest is how long a server is looked at while only heartbeats come, with natsReaders; with one it is a quarter of that.
	natsRest = 2 * time.Minute
	// natsLimit ends a wait for readers, who share the processor with whatever else runs.
	natsLimit = 5 * time.Minute
	// shippedNATS are the files of the server's configuration.
	shippedNATS = "../../deploy/kustomize/base/nats/"
)

// BenchmarkNATS runs once, whatever b.N is, and prints its table: what one NATS server takes as it is shipped, with TLS, accounts and
// sync_interval always, for the writer that nswatch has and readers as daemons have. Writer and readers are in this process, without a
// cluster: the server is told what it is told by nswatch.
func BenchmarkNATS(b *testing.B) {
	server := newBroker(b)
	server.know("openshell")
	server.start()
	server.do("nswatch", "allowlist", "bootstrap", "--replicas", "1")
	rows := []natsRow{server.taken("nothing but the bucket", 10*time.Second)}
	l := newListing(server)
	for _, listed := range []int{10, 1000, 10_000} {
		rows = append(rows, l.measure(listed)...)
	}
	show(b, "nats", natsTable(rows))
}

// BenchmarkNATSReload runs once, whatever b.N is, and prints what the container beside the server has.
func BenchmarkNATSReload(b *testing.B) {
	server := newBroker(b)
	server.know("openshell")
	server.start()
	show(b, "reload", server.reloader())
}

// natsRow is what a server took while something went on.
type natsRow struct {
	what      string
	now, most int64         // resident bytes
	rest      time.Duration // of a processor, in a second at rest
	each      time.Duration // for a change, above that; zero where there was none
}

// broker is one NATS server as a process, of the shipped files.
type broker struct {
	*field
	dir, identities string
	client, monitor int // ports
	gatewayID       string
	cmd             *exec.Cmd
}

func newBroker(b *testing.B) *broker {
	b.Helper()
	dir := b.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tls"), 0o700); err != nil {
		b.Fatal(err)
	}
	certtest.New(b, "nats").Issue(filepath.Join(dir, "tls"), "localhost")
	return &broker{field: &field{b: b}, dir: dir, identities: filepath.Join(dir, "identities"), client: freeport.Loopback(b), monitor: freeport.Loopback(b)}
}

func (s *broker) url() string { return "tls://localhost:" + strconv.Itoa(s.client) }

func (s *broker) authority() string { return filepath.Join(s.dir, "tls", "ca.crt") }

// know makes the identities of a gateway's parts.
func (s *broker) know(gatewayID string) {
	s.b.Helper()
	s.gatewayID = gatewayID
	out, err := program.Command(s.b, "nswatch", "nats", "identities", "--dir", s.identities, "--gateway-id", gatewayID, "--ca-file", s.authority()).CombinedOutput()
	if err != nil {
		s.b.Fatalf("make the identities: %v\n%s", err, out)
	}
}

// start runs the server until the benchmark ends.
func (s *broker) start() {
	s.b.Helper()
	paths := strings.NewReplacer(`"/data"`, strconv.Quote(filepath.Join(s.dir, "data")), "/etc/nats-tls/", filepath.Join(s.dir, "tls")+"/")
	for _, name := range []string{"nats.conf", "server.conf", "accounts.conf"} {
		certtest.Replace(s.b, filepath.Join(s.dir, name), []byte(paths.Replace(s.read(shippedNATS+name))))
	}
	certtest.Replace(s.b, filepath.Join(s.dir, "identities.conf"), []byte(s.read(filepath.Join(s.identities, "identities.conf"))))
	s.cmd = exec.CommandContext(context.WithoutCancel(s.b.Context()), cluster.Build(s.b, mesh.NATS, "test", "github.com/nats-io/nats-server/v2"),
		"--config", filepath.Join(s.dir, "nats.conf"), "--pid", s.pidFile(), "--addr", "127.0.0.1", "--port", strconv.Itoa(s.client),
		"--http_port", strconv.Itoa(s.monitor), "--log", filepath.Join(s.dir, "log"))
	s.cmd.Env = []string{"POD_NAME=nats-0"}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.b.Fatal(err)
	}
	s.b.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	cluster.Eventually(s.b, "the NATS server is ready", func(context.Context) error {
		text, err := os.ReadFile(filepath.Join(s.dir, "log"))
		if err == nil && !strings.Contains(string(text), "Server is ready") {
			err = fmt.Errorf("it says:\n%s", text)
		}
		return err
	})
}

func (s *broker) pidFile() string { return filepath.Join(s.dir, "nats.pid") }

func (s *broker) read(path string) string {
	s.b.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		s.b.Fatal(err)
	}
	return string(text)
}

// as are the lines of [portcullis.nats] for an identity.
func (s *broker) as(who string) string {
	return fmt.Sprintf("[portcullis.nats]\nca_file = %q\nnkey_seed_file = %q\njs_api_prefix = \"portcullis.js\"\n", s.authority(), s.seed(who))
}

func (s *broker) seed(who string) string { return filepath.Join(s.identities, who+".seed") }

// do runs a subcommand of a daemon, as the job that prepares an installation does.
func (s *broker) do(daemon string, words ...string) {
	s.b.Helper()
	config := program.Settings(s.b, fmt.Sprintf(`[openshell.drivers.kubernetes]
workspace_mode = "operator"
operator_namespace_label = "a=b"
gateway_id = %q
%surls = [%q]
`, s.gatewayID, s.as("bootstrap"), s.url()))
	out, err := program.Command(s.b, daemon, append(words, "--config", config)...).CombinedOutput()
	if err != nil {
		s.b.Fatalf("%s %v: %v\n%s", daemon, words, err, out)
	}
}

// connect is a connection that does not run yet.
func (s *broker) connect(who string) *natsconn.Conn {
	s.b.Helper()
	cfg := natsconn.DefaultConfig()
	cfg.URLs, cfg.Name, cfg.CAFile, cfg.NKeySeedFile, cfg.JSAPIPrefix = []string{s.url()}, who, s.authority(), s.seed(who), "portcullis.js"
	conn, err := natsconn.New(cfg, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		s.b.Fatal(err)
	}
	return conn
}

// background runs tasks until it is told to stop.
func (s *broker) background(tasks ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.b.Context()))
	var running sync.WaitGroup
	for _, task := range tasks {
		running.Go(func() {
			if err := task(ctx); err != nil {
				s.b.Error(err)
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

// taken looks at the server for some time.
func (s *broker) taken(what string, long time.Duration) natsRow {
	s.b.Helper()
	pid := s.cmd.Process.Pid
	stop := s.watchResident(pid)
	cpu, start := s.cpu(pid), time.Now()
	time.Sleep(long)
	row := natsRow{what: what, rest: time.Duration(float64(s.cpu(pid)-cpu) / time.Since(start).Seconds()), most: stop()}
	row.now = s.resident(resident(pid))
	return row
}

// reloader says what the container beside the server has.
func (s *broker) reloader() string {
	s.b.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(s.b.Context()), program.Path(s.b, "nswatch"), "nats", "reload", "--pid-file", s.pidFile(), "--watch", filepath.Join(s.dir, "tls"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.b.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	time.Sleep(10 * time.Second)
	return fmt.Sprintf("nswatch nats reload beside it, resident: %.1f MiB.", mib(s.resident(resident(cmd.Process.Pid))))
}

// listing is a writer with its readers on a server.
type listing struct {
	*field
	broker  *broker
	signer  *allowlist.Signer
	publics string
	clock   allowkv.Clock
	source  *allowkvtest.Source
	entries []allowlist.Entry
}

// newListing starts the writer, which ends with the benchmark.
func newListing(s *broker) *listing {
	s.b.Helper()
	signer, clock := allowkvtest.Signer(s.b), allowkv.NewClock()
	l := &listing{
		field: s.field, broker: s, signer: signer, publics: allowkvtest.KeysFile(s.b, signer), clock: clock,
		source: allowkvtest.NewSource(clock, allowlist.List{}),
	}
	conn := s.connect("nswatch")
	cfg := allowkv.PublisherConfig{GatewayID: s.gatewayID, Name: "nswatch-0", Settings: allowlist.DefaultSettings(), PublicKeysFile: l.publics}
	publisher, err := allowkv.NewPublisher(cfg, conn, l.signer, l.clock, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		s.b.Fatal(err)
	}
	stop := s.background(conn.Run, func(ctx context.Context) error {
		for ctx.Err() == nil { // each term that is over is followed by another
			_, _ = publisher.Lead(ctx, l.source, make(chan struct{}))
		}
		return nil
	})
	s.b.Cleanup(stop)
	return l
}

// set has the writer publish all namespaces, or all but the one at without.
func (l *listing) set(without int) {
	l.b.Helper()
	entries := slices.Clone(l.entries)
	if without >= 0 {
		entries = slices.Delete(entries, without, without+1)
	}
	list, err := allowlist.NewList(entries)
	if err != nil {
		l.b.Fatal(err)
	}
	l.source.Set(list)
}

// measure is what the server takes with a list of so many.
func (l *listing) measure(listed int) (rows []natsRow) {
	l.b.Helper()
	for n := len(l.entries); n < listed; n++ {
		l.entries = append(l.entries, allowlist.Entry{Name: fmt.Sprintf("team-%05d-workloads", n), UID: string(uuid.NewUUID())}) // as long as in life when compressed
	}
	l.set(-1)
	for _, count := range []int{1, natsReaders} {
		rest := natsRest
		if count == 1 {
			rest /= 4
		}
		readers, stop := l.read(count)
		l.await(readers, l.entries[listed-1].Name, true)
		row := l.broker.taken(fmt.Sprintf("%d namespaces, %d readers", listed, count), rest)
		row.each, row.most = l.change(readers, row)
		row.now = l.resident(resident(l.broker.cmd.Process.Pid))
		rows = append(rows, row)
		stop()
	}
	return rows
}

// change takes a namespace off the list and puts it on, over and over, each time until every reader answers differently. It says what a change took of a
// processor, without what the server takes at rest, and the most memory.
func (l *listing) change(readers []*allowkv.Reader, rest natsRow) (each time.Duration, most int64) {
	l.b.Helper()
	pid := l.broker.cmd.Process.Pid
	stop := l.watchResident(pid)
	cpu, start := l.cpu(pid), time.Now()
	for n := range natsChanges {
		at, back := n/2%len(l.entries), n%2 == 1
		if back {
			l.set(-1)
		} else {
			l.set(at)
		}
		l.await(readers, l.entries[at].Name, back)
	}
	each = l.cpu(pid) - cpu - time.Duration(float64(rest.rest)*time.Since(start).Seconds())
	return max(each, 0) / natsChanges, max(stop(), rest.most)
}

func (l *listing) await(readers []*allowkv.Reader, ns string, trusted bool) {
	l.b.Helper()
	end := time.After(natsLimit)
	for _, r := range readers {
		for changed := r.Changed(); r.Check(ns).Allowed() != trusted; changed = r.Changed() {
			select {
			case <-changed:
			case <-end:
				l.b.Fatalf("no reader answers %t to namespace %s: %s", trusted, ns, r.Check(ns).Reason)
			}
		}
	}
}

// read starts readers, half of them as tokenauth, half as lifecycle.
func (l *listing) read(count int) (readers []*allowkv.Reader, stop func()) {
	l.b.Helper()
	var tasks []func(context.Context) error
	for n := range count {
		conn := l.broker.connect([]string{"tokenauth", "lifecycle"}[n%2])
		cfg := allowkv.ReaderConfig{GatewayID: l.broker.gatewayID, Name: "reader", Config: allowkv.DefaultConfig()}
		cfg.Config.PublicKeysFile = l.publics
		r, err := allowkv.NewReader(cfg, conn, zerolog.Nop(), prometheus.NewRegistry())
		if err != nil {
			l.b.Fatal(err)
		}
		readers, tasks = append(readers, r), append(tasks, conn.Run, r.Run)
	}
	return readers, l.broker.background(tasks...)
}

func natsTable(rows []natsRow) string {
	var b strings.Builder
	b.WriteString("| NATS | resident / most | processor, a second at rest | for a change |\n| --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %.1f / %.1f MiB | %.2f ms | %.2f ms |\n", r.what, mib(r.now), mib(r.most), ms(r.rest), ms(r.each))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
