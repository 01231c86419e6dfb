// Package daemon is the skeleton that every daemon hangs its parts on: a task
// group, signals, exit codes, liveness and readiness checks, the admin HTTP
// listener, and serving gRPC with health, one log line per call and panic recovery.
//
// Invariants:
//
//   - Every goroutine has an owner that waits for it. Run and Serve functions block
//     until all they started has ended; only a task that ignores its context for
//     longer than the shutdown grace is left behind, and then the process must exit
//     with an error that names it.
//   - What wiring opened is closed by the task that it was opened for, also when the
//     stop is asked for before the group runs.
//   - The exit code is 0 only for a stop that was asked for and went well.
//   - Nothing is ready by default: no check, a check that does not answer in time, a
//     poll that has not run and a stop in progress all mean "not ready".
//
// A daemon wires itself in dependency order and stops in the reverse order:
//
//	ctx, release := daemon.SignalContext(context.Background(), os.Exit)
//	listener, err := daemon.Listen(ctx, cfg.HTTPAddress) // before anything starts
//	checks, err := daemon.NewChecks(daemon.DefaultProbing(), log, registry)
//	admin, err := daemon.NewAdmin(cfg, listener, checks, registry, log)
//	group, err := daemon.NewGroup(cfg.ShutdownGrace.Std(), checks, log)
//	group.Add("admin", admin.Run)     // started first, answers until the end
//	group.Add("tracing", tracing.Run) // exports the last spans
//	group.Add("checks", checks.Run)
//	group.Add("nats", conn.Run)
//	group.Add("grpc", ...)            // started last, drained first
//	err = group.Run(ctx)
//	code := daemon.Exit(os.Stderr, "nswatch", err)
//
// Callers: the wiring of each daemon. Components know nothing of this package;
// they have Run(ctx) error and a check func(ctx) error.
package daemon
