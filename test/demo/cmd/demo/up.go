package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/portcullis-mesh/portcullis/test/demo"
)

const lookAgain = 50 * time.Millisecond

// up starts a keeper in the background, shows what it says until it is ready, and leaves it. When one is up it says what is there.
func up(ctx context.Context) error {
	place, _, err := setting()
	if err != nil {
		return err
	}
	switch holder, err := place.Holder(); {
	case err != nil:
		return err
	case holder != 0:
		return standing(place, holder)
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

// standing shows what the keeper that runs has said.
func standing(place *demo.Place, holder int) error {
	guide, err := os.ReadFile(place.Guide())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; process %d is not up yet, or it only shows the demo", demo.ErrRunning, holder)
	}
	if err != nil {
		return fmt.Errorf("read what is up: %w", err)
	}
	fmt.Printf("It is up already: process %d keeps it.\n%s", holder, guide)
	return nil
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
	place, prefix, err := setting()
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
	err = stage(ctx, t, place, prefix, func(w *demo.World) error {
		t.Step("1  A workspace with a sandbox", "")
		if err := w.Furnish(ctx, t); err != nil {
			return err
		}
		return remain(ctx, w, place, starter)
	})
	if i := slices.IndexFunc(t.Moments(), func(m demo.Moment) bool { return m.What == cleaning && m.Kind == demo.Broken }); i >= 0 {
		m := t.Moments()[i]
		err = errors.Join(err, os.WriteFile(place.Failure(), []byte(m.Detail), 0o600))
	}
	return err
}

// remain tells the starter that all is up, and serves until ctx ends.
func remain(ctx context.Context, w *demo.World, place *demo.Place, starter *os.File) error {
	served := make(chan error, 1)
	go func() {
		served <- w.Serve(ctx, place.Control(), func(err error) { fmt.Println("tokens of the daemons:", err) })
	}()
	guide := w.Guide(place.Control()) + fmt.Sprintf("\nIt is up. '%s' removes it; what it says meanwhile is in %s\n", downCommand(), place.Log())
	err := os.WriteFile(place.Guide(), []byte(guide), 0o600)
	if err == nil {
		fmt.Print(guide)
		_, err = io.WriteString(starter, isUp)
	}
	if err != nil {
		return err
	}
	_ = starter.Close()
	err = <-served
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// downCommand is what ends this demo and no other, from a shell that has none of our variables: after a demo that was killed, down looks for
// what is left in the cluster that it is told of, which is one of ours if it is told of none.
func downCommand() string {
	words := []string{"make down"}
	names := []string{"DEMO_PREFIX"}
	if os.Getenv("KUBE") == demo.Current {
		names = []string{"KUBE", "KUBECONFIG", "DEMO_PREFIX"}
	}
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			words = append(words, name+"="+quoted(value))
		}
	}
	return strings.Join(words, " ")
}

// quoted is a text as one word of a shell's, and of make's, which takes a dollar for itself.
func quoted(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,@%+="
	if strings.Trim(text, plain) == "" {
		return text
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", "$", `\$\$`).Replace(text) + `"`
}

// down ends the keeper and waits until all is gone. When none runs it removes what one that was killed has left in a cluster that is there.
func down(ctx context.Context) error {
	place, prefix, err := setting()
	if err != nil {
		return err
	}
	t := screen()
	defer t.Close()
	holder, err := place.Holder()
	if err != nil {
		return err
	}
	if holder == 0 {
		return sweep(ctx, t, place, prefix)
	}
	return t.Check("the demo ends and removes what it made", func() (string, error) {
		if err := end(ctx, place, holder); err != nil {
			return "", err
		}
		if failure, err := os.ReadFile(place.Failure()); err == nil {
			return "", fmt.Errorf("it could not: %s\n'%s' once more removes what is left", failure, downCommand())
		}
		err := place.Take()
		if errors.Is(err, demo.ErrRunning) { // somebody is quick
			err = nil
		} else if err == nil {
			err = place.Remove()
		}
		return fmt.Sprintf("process %d has ended", holder), err
	})
}

// end asks the keeper to end and waits until it has.
func end(ctx context.Context, place *demo.Place, holder int) error {
	if err := syscall.Kill(holder, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ask process %d to end: %w", holder, err)
	}
	for {
		left, err := place.Holder()
		if err != nil || left != holder {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookAgain):
		}
	}
}
