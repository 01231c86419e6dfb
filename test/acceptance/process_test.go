package acceptance_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/freeport"
)

// serverConfig names the variable that makes the test binary a NATS server: the path of its configuration.
const serverConfig = "ACCEPTANCE_NATS_SERVER"

// serve is one NATS server, until the process is killed, or who started it has ended however that came.
func serve(file string) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	opts, err := server.ProcessConfigFile(file)
	if err == nil {
		opts.NoLog = true
		var s *server.Server
		if s, err = server.NewServer(opts); err == nil {
			s.Start()
			s.WaitForShutdown()
			return
		}
	}
	fmt.Fprintln(os.Stderr, "the NATS server does not start:", err)
	os.Exit(1)
}

// killable is a NATS server in a process of its own.
type killable struct {
	t          testing.TB
	name, file string
	url        string
	cmd        *exec.Cmd
}

// killables are a cluster of three, running.
func killables(t testing.TB) map[string]*killable {
	t.Helper()
	routes := make([]string, 3)
	clients, members := make([]string, 3), make([]string, 3)
	for i := range members {
		clients[i], members[i] = fmt.Sprintf("127.0.0.1:%d", freeport.Loopback(t)), fmt.Sprintf("127.0.0.1:%d", freeport.Loopback(t))
		routes[i] = strconv.Quote("nats://" + members[i])
	}
	all := map[string]*killable{}
	for i := range members {
		k := &killable{t: t, name: fmt.Sprintf("killable-%d", i), url: "nats://" + clients[i]}
		dir := t.TempDir()
		k.file = filepath.Join(dir, "nats.conf")
		text := fmt.Sprintf("server_name: %s\nlisten: %q\njetstream { store_dir: %q }\ncluster { name: killable, listen: %q, routes: [%s] }\n",
			k.name, clients[i], filepath.Join(dir, "store"), members[i], strings.Join(routes, ", "))
		if err := os.WriteFile(k.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k.start()
		t.Cleanup(k.kill)
		all[k.name] = k
	}
	for _, k := range all {
		until(t, "a server at "+k.url, func() bool {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", k.url[len("nats://"):])
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		})
	}
	return all
}

func (k *killable) start() {
	k.t.Helper()
	self, err := os.Executable()
	if err != nil {
		k.t.Fatal(err)
	}
	k.cmd = exec.Command(self)
	k.cmd.Env, k.cmd.Stderr = append(os.Environ(), serverConfig+"="+k.file), os.Stderr
	if _, err := k.cmd.StdinPipe(); err != nil { // ends with this process
		k.t.Fatal(err)
	}
	if err := k.cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
}

// kill is SIGKILL.
func (k *killable) kill() {
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
}

// leaderOf is the name of the server that leads the stream; empty when nobody says.
func leaderOf(t testing.TB, js jetstream.JetStream) string {
	t.Helper()
	stream, err := js.Stream(t.Context(), allowkv.Stream)
	if err != nil || stream.CachedInfo().Cluster == nil {
		return ""
	}
	return stream.CachedInfo().Cluster.Leader
}

// The server that leads the stream is killed with SIGKILL.
func TestLeaderIsKilled(t *testing.T) {
	t.Parallel()
	servers := killables(t)
	urls := make([]string, 0, len(servers))
	for _, k := range servers {
		urls = append(urls, k.url)
	}
	_, js := operate(t, urls[0]+","+urls[1]+","+urls[2])
	until(t, "JetStream", func() bool { // a request that comes before there is a leader is lost
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := js.AccountInfo(ctx)
		return err == nil
	})
	bootstrap(t, js, 3)
	c := newChannel(t, "gw-1", stated)
	w, r := c.write(connect(t, urls), "team-a"), c.read(connect(t, urls))
	r.answers("team-a", "")
	var leader *killable
	until(t, "a leader of the stream", func() bool { leader = servers[leaderOf(t, js)]; return leader != nil })
	open := r.staysOpen("team-a")
	r.beats(2)
	leader.kill()
	moves(w, r, "team-b")
	until(t, "another leader of the stream", func() bool {
		next := leaderOf(t, js)
		return next != "" && next != leader.name
	})
	moves(w, r, "team-c")
	open()
}
