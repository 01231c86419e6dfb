package scenario

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// broker is a NATS server in the place of the mesh's first one: at its address, on its data.
type broker struct {
	command *exec.Cmd
	ended   chan struct{}
}

func (b *broker) runs() bool {
	if b.command == nil {
		return false
	}
	select {
	case <-b.ended:
		return false
	default:
		return true
	}
}

func (b *broker) kill() {
	if b.command == nil {
		return
	}
	_ = b.command.Process.Kill()
	<-b.ended
	b.command = nil
}

// run starts the server and waits until it listens.
func (b *broker) run(ctx context.Context, o *mesh.Options, at string) error {
	b.kill()
	u, err := url.Parse(at)
	if err != nil {
		return fmt.Errorf("the address of NATS: %w", err)
	}
	c := exec.Command(o.Programs[mesh.NATS], "--addr", u.Hostname(), "--port", u.Port(), "--jetstream", "--store_dir", filepath.Join(o.Dir, mesh.NATS, "data"))
	c.Env = []string{"HOME=" + o.Dir}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	ended, started := make(chan struct{}), make(chan error, 1)
	go func() {
		// The kernel means the thread that started it when it says parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start NATS: %w", err)
	}
	b.command, b.ended = c, ended
	return b.listens(ctx, u.Host)
}

func (b *broker) listens(ctx context.Context, address string) error {
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-b.ended:
			return fmt.Errorf("NATS ended before it listened at %s", address)
		case <-ctx.Done():
			return fmt.Errorf("NATS does not listen at %s: %w", address, err)
		case <-time.After(lookAgain):
		}
	}
}

// lookAgain is the time between two looks.
const lookAgain = 50 * time.Millisecond
