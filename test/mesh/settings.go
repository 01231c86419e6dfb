package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// settings are those of one process: the stock table, which is the same for all but for the socket, and what is its own.
func (m *Mesh) settings(name string) (string, error) {
	daemon := programOf(name)
	if name == Relay {
		daemon = Relay // it has a table, and a certificate, of its own
	}
	var b strings.Builder
	m.stock(&b, name)
	fmt.Fprintf(&b, "\n[portcullis]\nlog_level = %q\n\n[portcullis.%s]\nhttp_address = \"127.0.0.1:0\"\n", cmp.Or(m.options.LogLevel, "info"), daemon)
	if err := m.own(&b, name, daemon); err != nil {
		return "", err
	}
	for _, line := range m.options.Extra[daemon] {
		fmt.Fprintln(&b, line)
	}
	if daemon != Nswatch {
		fmt.Fprintf(&b, "\n[portcullis.mesh]\ncert_file = %q\nkey_file = %q\nca_file = %q\n",
			filepath.Join(m.home(daemon), "tls.crt"), filepath.Join(m.home(daemon), "tls.key"), filepath.Join(m.home(daemon), "ca.crt"))
	}
	if daemon == Relay {
		return b.String(), nil
	}
	fmt.Fprintf(&b, "\n[portcullis.kubernetes]\nkubeconfig = %q\n", filepath.Join(m.home(daemon), "kubeconfig"))
	if m.operator() && daemon != Supervisorctl {
		fmt.Fprintf(&b, "\n[portcullis.nats]\nurls = [%q]\n\n[portcullis.allowlist]\npublic_keys_file = %q\n", m.natsURL, m.public)
		for _, line := range m.options.Allowlist {
			fmt.Fprintln(&b, line)
		}
	}
	return b.String(), nil
}

// own are the lines of a daemon's own table that are not options.
func (m *Mesh) own(b *strings.Builder, name, daemon string) error {
	switch daemon {
	case Nswatch:
		fmt.Fprintf(b, "signing_key_file = %q\nlease_namespace = %q\n", filepath.Join(m.home(Nswatch), "signing.key"), m.Namespace())
	case Tokenauth:
		fmt.Fprintf(b, "listen_address = %q\n", m.listen(name))
	case Supervisorctl:
		fmt.Fprintf(b, "listen_address = %q\nlease_namespace = %q\n", m.listen(name), m.Namespace())
	case Lifecycle:
		for _, other := range []string{Tokenauth, Supervisorctl} {
			if m.addresses[other] == "" {
				return fmt.Errorf("lifecycle needs %s, which has not been started", other)
			}
			fmt.Fprintf(b, "%s_address = %q\n", other, m.addresses[other])
		}
		if m.options.Relayed {
			fmt.Fprintf(b, "relay_listen_address = %q\n", m.listen(name))
		}
	case Relay:
		var before []string
		for _, one := range []string{Lifecycle, Replica} {
			if address := m.addresses[one]; address != "" {
				before = append(before, address)
			}
		}
		if len(before) == 0 {
			return errors.New("a relay needs a lifecycle that serves relays, and none has been started")
		}
		fmt.Fprintf(b, "lifecycle_address = %q\n", strings.Join(before, ","))
	}
	return nil
}

// listen keeps a daemon's address over a restart, since others know it.
func (m *Mesh) listen(daemon string) string {
	if address := m.addresses[daemon]; address != "" {
		return address
	}
	return "127.0.0.1:0"
}

// socketIn is the socket in the settings of a process: its own, or the gateway's.
func (m *Mesh) socketIn(name string) string {
	if programOf(name) == Lifecycle {
		return m.SocketOf(name)
	}
	return m.Socket()
}

func (m *Mesh) stock(b *strings.Builder, name string) {
	o := &m.options
	fmt.Fprintf(b, "[openshell.drivers.kubernetes]\nworkspace_mode = %q\ngateway_id = %q\nnamespace = %q\nsocket_path = %q\n",
		o.Mode, o.GatewayID, o.SandboxNamespace, m.socketIn(name))
	if m.operator() && o.Label != "" { // else Stock names a file
		fmt.Fprintf(b, "operator_namespace_label = %q\n", o.Label)
	}
	fmt.Fprintf(b, "supervisor_image = %q\nsandbox_runtime_image = %q\ndefault_image = %q\ngrpc_endpoint = %q\n",
		o.SupervisorImage, o.RuntimeImage, o.DefaultImage, o.Endpoint)
	fmt.Fprintln(b, "sandbox_runtime = { network_policy_enforced = true }")
	for _, line := range o.Stock {
		fmt.Fprintln(b, line)
	}
}

// startNATS runs a NATS server with JetStream on a port of its own, which it keeps, as its data, over a restart.
func (m *Mesh) startNATS(ctx context.Context) error {
	port, err := m.portOfNATS()
	if err != nil {
		return err
	}
	p, err := spawn(m.home(NATS), NATS, m.options.Programs[NATS], "--addr", "127.0.0.1", "--port", port, "--jetstream", "--store_dir", filepath.Join(m.home(NATS), "data"))
	if err != nil {
		return err
	}
	m.keep(p)
	address := net.JoinHostPort("127.0.0.1", port)
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			m.natsURL = "nats://" + address
			m.options.Log("NATS is up at %s (process %d)", m.natsURL, p.PID())
			return conn.Close()
		}
		select {
		case <-p.Ended():
			return errors.Join(errors.New("the NATS server ended"), p.failure())
		case <-ctx.Done():
			return fmt.Errorf("the NATS server does not listen at %s: %w", address, err)
		case <-time.After(lookAgain):
		}
	}
}

func (m *Mesh) portOfNATS() (string, error) {
	if m.natsURL == "" {
		return freePort()
	}
	at, err := url.Parse(m.natsURL)
	if err != nil {
		return "", fmt.Errorf("the address of NATS: %w", err)
	}
	return at.Port(), nil
}

// freePort is one that nobody listens on now.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, errors.Join(err, listener.Close())
}

// prepareAllowlist makes the signing key and the bucket, with the daemon's own commands.
func (m *Mesh) prepareAllowlist(ctx context.Context) error {
	m.public = filepath.Join(m.options.Dir, "allowlist.public")
	if err := m.command(ctx, Nswatch, "keys", "generate", "--private", filepath.Join(m.home(Nswatch), "signing.key"), "--public", m.public); err != nil {
		return err
	}
	text, err := m.settings(Nswatch)
	if err != nil {
		return err
	}
	if err := os.WriteFile(m.Settings(Nswatch), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the settings of nswatch: %w", err)
	}
	return m.command(ctx, Nswatch, "allowlist", "bootstrap", "--config", m.Settings(Nswatch), "--replicas", "1")
}

// command runs a command of a program to its end.
func (m *Mesh) command(ctx context.Context, program string, args ...string) error {
	_, err := m.Command(ctx, program, args...)
	return err
}

// Command runs a command of a program to its end and returns what it printed.
func (m *Mesh) Command(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	c := exec.CommandContext(ctx, m.options.Programs[program], args...)
	c.Env = []string{"HOME=" + m.options.Dir, "PATH=/usr/bin:/bin"}
	out, err := c.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
