// Command gateway is the reference gateway as a program.
//
//	gateway run --config gateway.toml --records DIR/records.db --control DIR/control.sock --listen 127.0.0.1:8080
//	gateway create team-a box --image IMAGE -- /tool serve
//	gateway list
//	gateway exec ID -- /tool echo hi
//	gateway events
//
// The first runs it against the driver that the table [openshell.drivers.<name>] names; the others use a running one by its
// control socket.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit code: 0, 1 for what was refused or failed, or that of the command that exec ran.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	exit := 0
	root := commands(stdin, stdout, stderr, &exit)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(stderr, "gateway:", err)
		return 1
	}
	return exit
}
