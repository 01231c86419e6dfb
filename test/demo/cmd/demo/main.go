// Command demo shows Portcullis at work: see package demo. `make demo`, `make up` and `make down` run it.
//
//	demo run    play the story, and remove everything
//	demo up     leave it running in the background
//	demo down   end that, and remove what a demo that was killed left
//
// KUBE chooses the cluster: node (what root gets without it), controlplane (what others get), or current, the current kubeconfig; with
// that, IMAGES is a registry for the images, and GATEWAY_HOST the address at which Pods reach this machine. DEMO_PREFIX is another name for
// everything in the cluster and on this machine, for who shares a cluster: demos with different ones do not meet.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/portcullis-mesh/portcullis/test/demo"
)

// Exit codes beside 0: a check did not hold or something failed; the user ended it.
const (
	exitFailed      = 1
	exitInterrupted = 130
)

var errInterrupted = errors.New("interrupted")

func main() { os.Exit(run()) }

func run() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// One signal ends the demo, and more do not end it sooner: what it made is to be removed.
	go func() {
		<-signals
		cancel(errInterrupted)
	}()
	err := command().ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted) || errors.Is(context.Cause(ctx), errInterrupted):
		return exitInterrupted
	}
	text := err.Error()
	if demo.Told(err) {
		text, _, _ = strings.Cut(text, "\n")
	}
	fmt.Fprintln(os.Stderr, "demo:", text)
	return exitFailed
}

func command() *cobra.Command {
	root := &cobra.Command{Use: "demo", Short: "show Portcullis at work", SilenceUsage: true, SilenceErrors: true}
	var recording string
	run := &cobra.Command{Use: "run", Short: "play the story, and remove everything", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		return play(c.Context(), recording)
	}}
	run.Flags().StringVar(&recording, "record", "", "file for the moments of the run, as JSON")
	root.AddCommand(run,
		&cobra.Command{Use: "up", Short: "leave it running in the background", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			return up(c.Context())
		}},
		&cobra.Command{Use: "down", Short: "end what up has started", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			return down(c.Context())
		}},
		&cobra.Command{Use: "keep", Short: "be the demo in the background (internal)", Hidden: true, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			return keep(c.Context())
		}},
	)
	return root
}

// screen is the timeline on standard output.
func screen() *demo.Timeline {
	info, err := os.Stdout.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	style := demo.Style{Colour: terminal && os.Getenv("NO_COLOR") == ""}
	return demo.NewTimeline(os.Stdout, style, terminal, time.Now)
}
