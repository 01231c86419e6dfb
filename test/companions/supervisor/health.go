package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// healthLimit is how long one question about health may take.
const healthLimit = 2 * time.Second

// health is whether the supervisor is ready. The zero health is not.
type health struct {
	mu     sync.Mutex
	ready  bool
	reason string
}

func (h *health) set(ready bool, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready, h.reason = ready, reason
}

func (h *health) answer() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ready:
		return "ready\n"
	case h.reason == "":
		return "not ready: not yet confirmed\n"
	default:
		return "not ready: " + strings.ReplaceAll(h.reason, "\n", " ") + "\n"
	}
}

// listen opens the socket, in place of one that a former run left.
func listen(ctx context.Context, path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("health socket: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("health socket: %w", err)
	}
	return l, nil
}

// serve answers until l is closed.
func (h *health) serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("health socket: %w", err)
		}
		_ = conn.SetDeadline(time.Now().Add(healthLimit))
		_, _ = io.WriteString(conn, h.answer())
		_ = conn.Close()
	}
}

// CheckHealth asks the supervisor behind the socket. It returns nil only when that says it is ready.
func CheckHealth(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("ask about health: %w", err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(healthLimit))
	said, err := io.ReadAll(io.LimitReader(conn, 4<<10))
	if err != nil {
		return fmt.Errorf("ask about health: %w", err)
	}
	if text := strings.TrimSpace(string(said)); text != "ready" {
		return fmt.Errorf("health: %s", text)
	}
	return nil
}
