// Command openshell-supervisor is the stand-in supervisor that runs in supervisor Pods (contract 7.6).
//
//	openshell-supervisor [flags of contract 7.6]       supervise, settings also from the environment
//	openshell-supervisor health --socket PATH          exit 0 when the supervisor is ready
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

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/test/companions/supervisor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Args[1:], os.Environ())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "openshell-supervisor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args, environ []string) error {
	if len(args) > 0 && args[0] == "health" {
		if len(args) != 3 || args[1] != "--socket" {
			return errors.New("usage: openshell-supervisor health --socket PATH")
		}
		return supervisor.CheckHealth(ctx, args[2])
	}
	env := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	settings, err := supervisor.Parse(args, env)
	if err != nil {
		return err
	}
	s, err := supervisor.New(settings, supervisor.DefaultPatience(), time.Now, zerolog.New(os.Stderr).With().Timestamp().Logger())
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
