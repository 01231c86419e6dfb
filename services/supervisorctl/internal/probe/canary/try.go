package canary

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// tryLimit bounds one try: a connection within a cluster opens in milliseconds, and a lost packet is sent again after a second.
	tryLimit = 1500 * time.Millisecond
	// pause is between two tries at the same way.
	pause = 300 * time.Millisecond
)

// Network is how a canary reaches the world.
type Network struct {
	// Dial opens a TCP connection.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Listen takes a TCP port of every address of the Pod.
	Listen func(ctx context.Context, port uint16) (net.Listener, error)
	// LookupEnv reads the environment of the process.
	LookupEnv func(string) (string, bool)
}

// PodNetwork is that of the Pod.
func PodNetwork() Network {
	return Network{
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
		Listen: func(ctx context.Context, port uint16) (net.Listener, error) {
			return new(net.ListenConfig).Listen(ctx, "tcp", (&net.TCPAddr{Port: int(port)}).String())
		},
		LookupEnv: os.LookupEnv,
	}
}

// try opens a connection and closes it.
func (n Network) try(ctx context.Context, address string) Outcome {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	conn, err := n.Dial(ctx, address)
	if err == nil {
		_ = conn.Close()
	}
	return outcomeOf(err)
}

// outcomeOf tells what the network did from what failed in the Pod itself.
func outcomeOf(err error) Outcome {
	is := func(numbers ...syscall.Errno) bool {
		for _, number := range numbers {
			if errors.Is(err, number) {
				return true
			}
		}
		return false
	}
	var timeout net.Error
	switch {
	case err == nil:
		return Opened
	case errors.Is(err, context.Canceled):
		return Failed
	case is(syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED):
		return Refused
	case is(syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN):
		return Unreachable
	case is(syscall.EPERM, syscall.EACCES):
		return Prohibited
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return TimedOut
	default:
		return Failed
	}
}

// tryAll tries every address at once and returns the outcomes in their order.
func (n Network) tryAll(ctx context.Context, addresses []string) []Outcome {
	outcomes := make([]Outcome, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { outcomes[i] = n.try(ctx, address) })
	}
	all.Wait()
	return outcomes
}

// rest waits between two tries; false when ctx ends.
func rest(ctx context.Context) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
