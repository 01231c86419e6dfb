package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/portcullis-mesh/portcullis/test/demo"
)

const lookAgain = 50 * time.Millisecond

// up starts a keeper in the background, shows what it says until it is ready, and leaves it.
func up(ctx context.Context) error {
	place, err := demo.Home()
	if err != nil {
		return err
	}
	if holder, err := place.Holder(); err != nil || holder != 0 {
		return errors.Join(err, demo.ErrRunning)
	}
	log, err := os.OpenFile(place.Log(), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open the demo's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	ready, told, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = ready.Close() }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	keeper := exec.Command(self, "keep")
	keeper.Stdout, keeper.Stderr, keeper.ExtraFiles = log, log, []*os.File{told}
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives us and the terminal
	err = keeper.Start()
	_ = told.Close()
	if err != nil {
		return fmt.Errorf("start the demo in the background: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = keeper.Process.Signal(syscall.SIGTERM) })
	defer stop()
	answer := make(chan string, 1)
	go func() {
		said, _ := io.ReadAll(ready) // it ends with the keeper, at the latest
		answer <- string(said)
	}()
	said := follow(place.Log(), answer)
	if said == isUp {
		return nil
	}
	if err := keeper.Wait(); ctx.Err() == nil {
		return fmt.Errorf("the demo in the background ended: %w", err)
	}
	return context.Cause(ctx)
}

// isUp is what a keeper tells who started it.
const isUp = "up"

// follow shows the log until the answer has come.
func follow(path string, answer <-chan string) string {
	log, err := os.Open(path)
	if err != nil {
		return <-answer
	}
	defer func() { _ = log.Close() }()
	for {
		_, _ = io.Copy(os.Stdout, log)
		select {
		case said := <-answer:
			_, _ = io.Copy(os.Stdout, log)
			return said
		case <-time.After(lookAgain):
		}
	}
}

// starterFD is where a keeper finds who started it.
const starterFD = 3

// keep is the demo in the background.
func keep(ctx context.Context) error {
	syscall.CloseOnExec(starterFD) // the daemons must not hold it open
	starter := os.NewFile(starterFD, "starter")
	if starter == nil {
		return errors.New("keep is for 'demo up'")
	}
	defer func() { _ = starter.Close() }()
	place, err := demo.Home()
	if err == nil {
		err = place.Take()
	}
	if err != nil {
		return err
	}
	defer place.Free()
	t := demo.NewTimeline(os.Stdout, demo.Style{}, false, time.Now)
	defer t.Close()
	t.Title(title, "It stays up in the background, with one sandbox, until 'make down'.")
	err = stage(ctx, t, place, func(w *demo.World) error {
		t.Step("1  A workspace with a sandbox", "")
		if err := w.Furnish(ctx, t); err != nil {
			return err
		}
		served := make(chan error, 1)
		go func() { served <- w.Serve(ctx, place.Control()) }()
		fmt.Print(w.Guide(place.Control()))
		fmt.Printf("\nIt is up. 'make down' removes it; what it says meanwhile is in %s\n", place.Log())
		if _, err := io.WriteString(starter, isUp); err != nil {
			return err
		}
		_ = starter.Close()
		err := <-served
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	})
	return err
}

// down ends the keeper and waits until all is gone. When none runs it removes what one that was killed has left in a cluster that is there.
func down(ctx context.Context) error {
	place, err := demo.Home()
	if err != nil {
		return err
	}
	t := screen()
	defer t.Close()
	holder, err := place.Holder()
	if err != nil {
		return err
	}
	if holder != 0 {
		return t.Check("the demo ends and removes what it made", func() (string, error) {
			if err := syscall.Kill(holder, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				return "", fmt.Errorf("ask process %d to end: %w", holder, err)
			}
			for {
				left, err := place.Holder()
				if err != nil || left != holder {
					return fmt.Sprintf("process %d has ended", holder), err
				}
				select {
				case <-ctx.Done():
					return "", context.Cause(ctx)
				case <-time.After(lookAgain):
				}
			}
		})
	}
	return sweep(ctx, t, place)
}
