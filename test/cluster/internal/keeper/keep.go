package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/binary"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/filelock"
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
// if another keeper is in charge. Which of the two is the case, or why neither is, is written to
// starter, which is then closed.
func Keep(ctx context.Context, p Profile, log io.Writer, starter io.WriteCloser) error {
	pl, c, err := begin(p)
	answer := inCharge
	switch {
	case err != nil:
		answer = err.Error()
	case c == nil:
		answer = notInCharge
	}
	_, told := io.WriteString(starter, answer)
	if err = errors.Join(err, told, starter.Close()); err != nil || c == nil {
		return err
	}
	defer c.giveUp()
	if err := keep(ctx, pl, p, log); err != nil {
		return errors.Join(err, pl.writeState(State{PID: os.Getpid(), Error: err.Error()}))
	}
	return nil
}

// begin takes charge and wipes out what the last keeper said. The charge is nil if another keeper has
// it.
func begin(p Profile) (place, *charge, error) {
	pl, err := at(p)
	if err != nil {
		return place{}, nil, err
	}
	c, ours, err := takeCharge(pl, p)
	if err != nil || !ours {
		return place{}, nil, err
	}
	err = os.Truncate(pl.file("keeper.log"), 0) // it would grow for ever
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err = errors.Join(err, pl.writeState(State{PID: os.Getpid()})); err != nil {
		c.giveUp()
		return place{}, nil, err
	}
	return pl, c, nil
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
		users, unused, err := filelock.Try(pl.file("users"), filelock.Exclusive)
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
		cfg.Address, cfg.Port, cfg.PodCIDR = node.HostAddress, node.APIPort, node.PodCIDR
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
	cache, err := newCache(log)
	if err != nil {
		return nil, err
	}
	built, err := cache.Digest(ctx, wanted(p)...)
	if err != nil {
		return nil, err
	}
	state := State{PID: os.Getpid(), Built: built, Logs: filepath.Join(pl.run(), "*", "logs")}
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

// clean removes what is left of a cluster, running or crashed. The caller is in charge.
func clean(ctx context.Context, pl place, p Profile) error {
	if p == Node {
		if err := node.Clean(ctx, filepath.Join(pl.run(), "node")); err != nil {
			return err // with mounts left below it, removing the directory would reach into them
		}
	}
	err := os.Remove(pl.file("state.json"))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(pl.run()))
}

func newCache(log io.Writer) (*binary.Cache, error) {
	root, err := binary.Root()
	if err != nil {
		return nil, err
	}
	return binary.NewCache(root, log)
}

// wanted lists the pinned programs of a profile.
func wanted(p Profile) []binary.Binary {
	want := []binary.Binary{binary.Etcd, binary.APIServer, binary.ControllerManager, binary.Scheduler}
	if p == Node {
		want = append(want, binary.Kubelet, binary.Proxy, binary.Router)
	}
	return want
}

func binaries(ctx context.Context, p Profile, log io.Writer) (map[string]string, error) {
	cache, err := newCache(log)
	if err != nil {
		return nil, err
	}
	paths, err := cache.Paths(ctx, wanted(p)...)
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
