package daemon_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Example is the whole life of a daemon: wiring in the order of dependency, serving,
// and a stop in the reverse order. In a daemon ctx comes from SignalContext.
func Example() {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	code := daemon.Exit(os.Stdout, "nswatch", run(ctx, stop))
	fmt.Println("exit code", code)
	// Output:
	// 200
	// [+] source: ok
	// readyz passed
	// exit code 0
}

func run(ctx context.Context, stop context.CancelCauseFunc) error {
	cfg := daemon.DefaultConfig()
	cfg.HTTPAddress = "127.0.0.1:0"
	log := telemetry.NewLogger(io.Discard, zerolog.InfoLevel, "nswatch")
	registry, err := telemetry.NewRegistry("nswatch", telemetry.ReadBuild())
	if err != nil {
		return err
	}
	// Addresses first: one that is taken must end the start.
	adminListener, err := daemon.Listen(ctx, cfg.HTTPAddress)
	if err != nil {
		return err
	}
	callListener, err := daemon.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	checks, err := daemon.NewChecks(daemon.DefaultProbing(), telemetry.Component(log, "checks"), registry)
	if err != nil {
		return err
	}
	if err := checks.AddReadiness("source", func(context.Context) error { return nil }); err != nil {
		return err
	}
	admin, err := daemon.NewAdmin(cfg, adminListener, checks, registry, telemetry.Component(log, "admin"))
	if err != nil {
		return err
	}
	calls := telemetry.Component(log, "grpc")
	server := grpc.NewServer(daemon.ServerOptions(calls, checks)...)
	daemon.RegisterHealth(server, checks)

	group, err := daemon.NewGroup(cfg.ShutdownGrace.Std(), checks, log)
	if err != nil {
		return err
	}
	group.Add("admin", admin.Run)
	group.Add("checks", checks.Run)
	group.Add("grpc", func(ctx context.Context) error {
		return daemon.ServeGRPC(ctx, server, callListener, cfg.ShutdownGrace.Std()/2, calls)
	})
	group.Add("probe", func(ctx context.Context) error {
		if err := probe(ctx, "http://"+adminListener.Addr().String()+"/readyz?verbose"); err != nil {
			return err
		}
		stop(daemon.StopRequest{Signal: 15})
		<-ctx.Done()
		return nil
	})
	return group.Run(ctx)
}

// probe asks as the kubelet does.
func probe(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	fmt.Printf("%d\n%s", response.StatusCode, body)
	return err
}
