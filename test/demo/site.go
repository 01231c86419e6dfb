package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The choices of where to run.
const (
	Node         = "node"
	ControlPlane = "controlplane"
	Current      = "current"
)

// Site is a cluster to run on.
type Site struct {
	// Name is for people.
	Name string
	// Kubeconfig is the path of the administrator's, empty when there are several; REST is what it says.
	Kubeconfig string
	REST       *rest.Config
	// Real says that a kubelet runs Pods. Socket is then the node's containerd when it is on this machine, else empty.
	Real   bool
	Socket string
	// Address is where Pods reach this machine.
	Address string
	// Own says that the cluster is one of ours and goes when it is not used.
	Own bool

	release func()
}

// Release lets go of the cluster.
func (s *Site) Release() {
	if s.release != nil {
		s.release()
	}
}

// Attach starts one of our clusters, or uses the one that runs, and holds it until Release. Told gets what is built and installed.
func Attach(ctx context.Context, profile, root, kube string, told func(line string)) (*Site, error) {
	hold, kubeconfig, err := holdCluster(ctx, profile, root, kube, told)
	if err != nil {
		return nil, err
	}
	s, err := Use(ctx, "our own "+profile+" cluster", kubeconfig)
	if err != nil {
		hold()
		return nil, err
	}
	s.release = hold
	return s, nil
}

// Use takes one of our clusters that runs and is held by the caller.
func Use(ctx context.Context, name, kubeconfig string) (*Site, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &Site{Name: name, Kubeconfig: kubeconfig, REST: config, Own: true}
	return s, s.look(ctx)
}

// holdCluster has a process hold the cluster. It is in a group of its own, so that what ends us at the terminal does not take the
// cluster away before we have cleaned up.
func holdCluster(ctx context.Context, profile, root, kube string, told func(string)) (release func(), kubeconfig string, err error) {
	c := exec.Command(kube, "run", profile, "--", "/bin/sh", "-c", `echo "$KUBECONFIG"; exec cat >/dev/null`)
	c.Dir, c.SysProcAttr = root, &syscall.SysProcAttr{Setpgid: true}
	input, err1 := c.StdinPipe()
	output, err2 := c.StdoutPipe()
	said, err3 := c.StderrPipe()
	if err := errors.Join(err1, err2, err3, c.Start()); err != nil {
		return nil, "", fmt.Errorf("start the %s cluster: %w", profile, err)
	}
	var last []string
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			last = append(last, lines.Text())
			told(lines.Text())
		}
	}()
	end := func() {
		_ = input.Close()
		<-read
		_ = c.Wait()
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Signal(syscall.SIGTERM) })
	line, err := bufio.NewReader(output).ReadString('\n')
	stop()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		end()
		if errors.Is(err, io.EOF) {
			err = errors.New(strings.Join(last[max(0, len(last)-5):], "\n"))
		}
		return nil, "", fmt.Errorf("start the %s cluster: %w", profile, err)
	}
	return end, strings.TrimSpace(line), nil
}

// UseCurrent takes the cluster of the current kubeconfig. Address, if not empty, is where its Pods reach this machine.
func UseCurrent(ctx context.Context, address string) (*Site, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the current kubeconfig: %w", err)
	}
	raw, err := loaded.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("read the current kubeconfig: %w", err)
	}
	s := &Site{Name: fmt.Sprintf("current context %q", raw.CurrentContext), REST: config, Address: address}
	if files := rules.GetLoadingPrecedence(); len(files) == 1 {
		s.Kubeconfig = files[0]
	}
	return s, s.look(ctx)
}

// look finds out what the cluster can do.
func (s *Site) look(ctx context.Context) error {
	s.REST.QPS, s.REST.Burst = 200, 400
	client, err := kubernetes.NewForConfig(s.REST)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("%s at %s cannot be used: %w", s.Name, s.REST.Host, err)
	}
	for _, node := range nodes.Items {
		s.Real = s.Real || node.Status.NodeInfo.KubeletVersion != "" // a stand-in has none
	}
	if s.Address == "" {
		if s.Address, err = routeTo(s.REST.Host); err != nil {
			return fmt.Errorf("%s: find the address at which Pods reach this machine (set GATEWAY_HOST): %w", s.Name, err)
		}
	}
	if s.Real {
		s.Socket = socketBeside(s.Kubeconfig)
	}
	return nil
}

// socketBeside is the containerd of our own node, whose keeper writes where it is beside the kubeconfig.
func socketBeside(kubeconfig string) string {
	var state struct{ Kubeconfig, Socket string }
	text, err := os.ReadFile(filepath.Join(filepath.Dir(kubeconfig), "..", "..", "state.json"))
	if err != nil || json.Unmarshal(text, &state) != nil || state.Kubeconfig != kubeconfig || !exists(state.Socket) {
		return ""
	}
	return state.Socket
}

// routeTo is our address on the way to the API server. Nothing is sent.
func routeTo(host string) (string, error) {
	u, err := url.Parse(host)
	if err != nil {
		return "", err
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	conn, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return "", err
	}
	address, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return address, errors.Join(err, conn.Close())
}
