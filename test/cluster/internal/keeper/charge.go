package keeper

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/filelock"
)

// machineLock is held while anything of a node is on the machine: its network and its control group
// have fixed names, so a second one, wherever its files are, would take the first one's away.
const machineLock = "/run/portcullis-node.lock"

// charge is the right to start and to remove a profile's cluster. At most one process has it.
type charge struct{ locks []*os.File }

// takeCharge returns false if another process is in charge of this place.
func takeCharge(pl place, p Profile) (*charge, bool, error) {
	c := &charge{}
	lock, ok, err := filelock.Try(pl.file("keeper.lock"), filelock.Exclusive)
	if err != nil || !ok {
		return nil, false, err
	}
	c.locks = append(c.locks, lock)
	if p != Node {
		return c, true, nil
	}
	machine, ok, err := filelock.Try(machineLock, filelock.Exclusive)
	if err == nil && !ok {
		holder, _ := os.ReadFile(machineLock)
		err = fmt.Errorf("a test node already runs on this machine, with its files in %s: take that one down first", strings.TrimSpace(string(holder)))
	}
	if err != nil {
		c.giveUp()
		return nil, false, err
	}
	c.locks = append(c.locks, machine)
	if err := os.WriteFile(machineLock, []byte(pl.dir+"\n"), 0o600); err != nil {
		c.giveUp()
		return nil, false, err
	}
	return c, true, nil
}

func (c *charge) giveUp() {
	for _, lock := range c.locks {
		_ = lock.Close()
	}
}

// vacant reports whether nobody is in charge of the place.
func vacant(pl place) (bool, error) {
	lock, free, err := filelock.Try(pl.file("keeper.lock"), filelock.Shared)
	if err == nil && free {
		_ = lock.Close()
	}
	return free, err
}

// use takes the lock of a user, waiting while a keeper is taking an unused cluster down.
func use(ctx context.Context, pl place) (*os.File, error) {
	return filelock.Take(ctx, pl.file("users"), filelock.Shared)
}
