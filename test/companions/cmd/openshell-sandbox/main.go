// Command openshell-sandbox is the stand-in runtime that runs in workload Pods (contract 7.5).
//
//	openshell-sandbox bootstrap             in the bootstrap init container
//	openshell-sandbox seed-workspace        in the workspace init container
//	openshell-sandbox --bootstrap FILE      in the agent container
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/test/companions/runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "openshell-sandbox:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "bootstrap":
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return runtime.Prepare(runtime.PodPlaces(), self)
	case len(args) == 1 && args[0] == "seed-workspace":
		return runtime.Seed(runtime.PodPlaces())
	case len(args) == 2 && args[0] == "--bootstrap":
		r, err := runtime.New(runtime.Config{
			BoundaryFile: args[1], Now: time.Now, Output: os.Stdout, Log: zerolog.New(os.Stderr).With().Timestamp().Logger(),
		})
		if err != nil {
			return err
		}
		return r.Run(ctx)
	}
	return errors.New("usage: openshell-sandbox bootstrap | seed-workspace | --bootstrap FILE")
}
