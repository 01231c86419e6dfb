package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/binary"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/node"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/plane"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/process"
)

// linger is how long an unused cluster stays up. It bridges the gaps between the packages of one
// test run, and saves the start when a developer repeats a test.
const linger = 60 * time.Second

// What a keeper tells the process that started it.
const (
	inCharge    = "in charge"
	notInCharge = "not in charge"
)

// Keep is the keeper: it starts the profile's cluster and blocks until it has been unused for a
// while, a program of it ends, or ctx is cancelled; then it removes everything. It returns at once
// if another keeper is in charge. Which of the two is the case is written to starter.
func Keep(ctx context.Context, p Profile, log io.Writer, starter io.WriteCloser) error {
	defer func() { _ = starter.Close() }()
	pl, err := at(p)
	if err != nil {
		return err
	}
	lock, mine, err := flock(pl.file("keeper.lock"), unix.LOCK_EX, false)
	if err != nil {
		return err
	}
	if !mine {
		_, err := io.WriteString(starter, notInCharge)
		return err
	}
	defer func() { _ = lock.Close() }()
	// What the last keeper said is history now, and the file would grow for ever.
	if err := os.Truncate(pl.file("keeper.log"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := pl.writeState(State{PID: os.Getpid()}); err != nil {
		return err
	}
	if _, err := io.WriteString(starter, inCharge); err != nil {
		return err
	}
	if err := starter.Close(); err != nil {
		return err
	}
	err = keep(ctx, pl, p, log)
	if err != nil {
		return errors.Join(err, pl.writeState(State{PID: os.Getpid(), Error: err.Error()}))
	}
	return nil
}

func keep(ctx context.Context, pl place, p Profile, log io.Writer) (err error) {
	if err := clean(ctx, pl, p); err != nil {
		return fmt.Errorf("remove what a former cluster left: %w", err)
	}
	c, err := start(ctx, pl, p, log)
	if err != nil {
		return errors.Join(err, clean(context.WithoutCancel(ctx), pl, p))
	}
	fmt.Fprintf(log, "%s cluster runs\n", p)
	users, err := watch(ctx, pl, c)
	// The users' lock is held until all is gone: who comes now waits, then starts afresh.
	if users != nil {
		defer func() { _ = users.Close() }()
	}
	c.stop()
	return errors.Join(err, clean(context.WithoutCancel(ctx), pl, p))
}

// watch returns when the cluster should stop: with the users' lock if it fell out of use, and with
// an error if one of its programs ended.
func watch(ctx context.Context, pl place, c *running) (*os.File, error) {
	ended := make(chan *process.Process, 1)
	for _, program := range c.programs() {
		go func() {
			<-program.Done()
			select {
			case ended <- program:
			default:
			}
		}()
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	idle := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case program := <-ended:
			return nil, fmt.Errorf("%s ended on its own; its log ends:\n%s", program.Name, program.Tail())
		case <-tick.C:
		}
		users, unused, err := flock(pl.file("users"), unix.LOCK_EX, false)
		if err != nil {
			return nil, err
		}
		if !unused || pl.pinned() {
			idle = time.Now()
		} else if time.Since(idle) > linger {
			return users, nil
		}
		if users != nil {
			_ = users.Close()
		}
	}
}

// running is a started cluster.
type running struct {
	plane *plane.Plane
	node  *node.Node // nil in the controlplane profile
}

func start(ctx context.Context, pl place, p Profile, log io.Writer) (_ *running, err error) {
	bins, err := binaries(ctx, p, log)
	if err != nil {
		return nil, err
	}
	cfg := plane.Config{Dir: filepath.Join(pl.run(), "plane"), Binaries: bins}
	if p == Node {
		if err := node.NetworkUp(ctx); err != nil {
			return nil, err
		}
		cfg.Address, cfg.PodCIDR = node.HostAddress, node.PodCIDR
	}
	c := &running{}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	if c.plane, err = plane.Start(ctx, cfg); err != nil {
		return nil, err
	}
	state := State{PID: os.Getpid(), Logs: filepath.Join(pl.run(), "*", "logs")}
	if p == Node {
		c.node, err = node.Start(ctx, node.Config{Dir: filepath.Join(pl.run(), "node"), Binaries: bins, Plane: c.plane})
		if err != nil {
			return nil, err
		}
		state.Socket = c.node.Socket()
	}
	if state.Kubeconfig, err = c.plane.AdminKubeconfig(); err != nil {
		return nil, err
	}
	return c, pl.writeState(state)
}

func (c *running) stop() {
	if c.node != nil {
		c.node.Stop()
	}
	if c.plane != nil {
		c.plane.Stop()
	}
}

func (c *running) programs() []*process.Process {
	all := c.plane.Programs()
	if c.node != nil {
		all = append(all, c.node.Programs()...)
	}
	return all
}

// clean removes what is left of a cluster, running or crashed.
func clean(ctx context.Context, pl place, p Profile) error {
	var err error
	if p == Node {
		err = node.Clean(ctx, filepath.Join(pl.run(), "node"))
	}
	stale := os.Remove(pl.file("state.json"))
	if errors.Is(stale, os.ErrNotExist) {
		stale = nil
	}
	return errors.Join(err, stale, os.RemoveAll(pl.run()))
}

func binaries(ctx context.Context, p Profile, log io.Writer) (map[string]string, error) {
	root, err := binary.Root()
	if err != nil {
		return nil, err
	}
	cache, err := binary.NewCache(root, log)
	if err != nil {
		return nil, err
	}
	want := []binary.Binary{binary.Etcd, binary.APIServer, binary.ControllerManager, binary.Scheduler}
	if p == Node {
		want = append(want, binary.Kubelet, binary.Proxy, binary.Router)
	}
	paths, err := cache.Paths(ctx, want...)
	if err != nil || p != Node {
		return paths, err
	}
	for _, own := range []string{"pause", "probe"} {
		if paths[own], err = cache.Own(ctx, own, "test", "./cluster/images/"+own); err != nil {
			return nil, err
		}
	}
	return paths, nil
}
