package broker_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// reloading runs nswatch nats reload beside a server until the test ends.
func (n *node) reloading() {
	n.t.Helper()
	cmd := exec.Command(program.Path(n.t, "nswatch"), "nats", "reload", "--pid-file", n.pidFile(), "--watch", n.dir, "--watch", filepath.Join(n.dir, "tls"), "--every", "100ms")
	log, err := os.Create(filepath.Join(n.t.TempDir(), "log"))
	if err != nil {
		n.t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait(), log.Close()); err != nil {
			text, _ := os.ReadFile(log.Name())
			n.t.Errorf("the reloader: %v\n%s", err, text)
		}
	})
}

// login is whether the server lets a seed in; nil when it does.
func (n *node) login(seedFile string) error {
	key, err := nats.NkeyOptionFromSeed(seedFile)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(n.url(), key, nats.RootCAs(authority(n.t)), nats.NoReconnect(), nats.Timeout(patience))
	if err == nil {
		nc.Close()
	}
	return err
}

// serial is the number of the certificate that the server shows.
func (n *node) serial(ctx context.Context) (*big.Int, error) {
	nc, err := nats.Connect(n.url(), nats.RootCAs(authority(n.t)), nats.NoReconnect(), nats.Timeout(patience), nats.Secure(&tls.Config{
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			return shown{state.PeerCertificates[0].SerialNumber}
		},
	}))
	if err == nil {
		nc.Close()
		return nil, errors.New("no certificate was shown")
	}
	var s shown
	if !errors.As(err, &s) {
		return nil, errors.Join(err, ctx.Err())
	}
	return s.serial, nil
}

type shown struct{ serial *big.Int }

func (s shown) Error() string { return "the certificate has the number " + s.serial.String() }

// TestReload: a server that runs takes up other identities and another certificate, and keeps what it has when the files are no good.
func TestReload(t *testing.T) {
	t.Parallel()
	n := newNode(t, "nats-0", single(t))
	n.start()
	n.ready()
	n.reloading()
	lifecycle := seed(t, "lifecycle")
	cluster.Eventually(t, "lifecycle is let in", func(context.Context) error { return n.login(lifecycle) })

	t.Log("lifecycle gets another key")
	other := seedsWithout(t, "lifecycle")
	said := fill(t, other, authority(t))
	if !strings.Contains(said, "made lifecycle") || strings.Count(said, "made ") != 1 || strings.Count(said, "kept ") != 5 {
		t.Errorf("it says:\n%s", said)
	}
	connected := connect(t, "lifecycle", n.url())
	session, err := connected.Await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(other, "identities.conf"))
	if err != nil {
		t.Fatal(err)
	}
	certtest.Replace(t, filepath.Join(n.dir, "identities.conf"), text)
	cluster.Eventually(t, "the new key is let in", func(context.Context) error { return n.login(filepath.Join(other, "lifecycle.seed")) })
	if err := n.login(lifecycle); err == nil || !strings.Contains(err.Error(), "Authorization Violation") {
		t.Errorf("the old key: %v", err)
	}
	cluster.Eventually(t, "who had the old key is sent away", func(ctx context.Context) error {
		if !session.NATS.IsClosed() {
			return errors.New("still connected")
		}
		return nil
	})
	if err := n.login(seed(t, "tokenauth")); err != nil {
		t.Errorf("tokenauth, which keeps its key: %v", err)
	}

	t.Log("the file of identities is cut short")
	certtest.Replace(t, filepath.Join(n.dir, "identities.conf"), text[:len(text)/2])
	cluster.Eventually(t, "the server says so", func(context.Context) error {
		if !strings.Contains(n.log(), "Failed to reload server configuration") {
			return errors.New("not yet")
		}
		return nil
	})
	if err := n.login(filepath.Join(other, "lifecycle.seed")); err != nil {
		t.Errorf("after a reload that failed: %v", err)
	}
	certtest.Replace(t, filepath.Join(n.dir, "identities.conf"), text)

	t.Log("the certificate is renewed")
	renewed := vouching(t).issue(t, filepath.Join(n.dir, "tls"), "localhost")
	cluster.Eventually(t, "the new certificate is shown", func(ctx context.Context) error {
		serial, err := n.serial(ctx)
		if err == nil && serial.Cmp(renewed.SerialNumber) != 0 {
			err = fmt.Errorf("it has the number %s", serial)
		}
		return err
	})
	if err := n.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the server, process %s, is gone: %v", strconv.Itoa(n.cmd.Process.Pid), err)
	}
}

// seedsWithout is a directory with the seeds of all identities but one, which so gets another.
func seedsWithout(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "identities")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, who := range table() {
		if who.name == name {
			continue
		}
		text, err := os.ReadFile(seed(t, who.name))
		if err != nil {
			t.Fatal(err)
		}
		certtest.Replace(t, filepath.Join(dir, who.name+".seed"), text)
	}
	return dir
}
