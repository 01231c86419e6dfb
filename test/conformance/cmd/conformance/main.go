// Command conformance judges a running compute driver by its socket, and prints what it does otherwise than the contract says.
//
//	conformance --socket /run/openshell/driver.sock --workspace team-a
//	conformance --socket ... --workspace team-a --forbidden kube-system --only create.,delete.
//
// It makes sandboxes in the workspace and deletes them again: point it at a driver whose sandboxes nobody uses. What only the
// platform's own tools can show (a crash of the driver, a supervisor's credential) is reported as not made. That nothing is left of a sandbox,
// it takes from the driver's own answers.
//
// The exit code is 0 when no required check failed, 1 when one did, and 2 when the driver could not be judged.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/conformance"
	"github.com/portcullis-mesh/portcullis/test/gateway/credentials"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// errFailed is a driver that fails a required check.
var errFailed = errors.New("the driver does not conform")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := root(stdout)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return 0
	case errors.Is(err, errFailed):
		return 1
	default:
		_, _ = fmt.Fprintln(stderr, "conformance:", err)
		return 2
	}
}

type options struct {
	socket, prefix, gatewayID, forbidden string
	workspaces, only                     []string
	patience                             time.Duration
	together                             int
}

func root(stdout io.Writer) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "conformance --socket PATH --workspace NAME", Short: "Judge a compute driver by the contract", Args: cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error { return judge(c.Context(), o, stdout) },
	}
	flags := c.Flags()
	flags.StringVar(&o.socket, "socket", "", "the driver's Unix socket; it must belong to the user that runs this")
	flags.StringSliceVar(&o.workspaces, "workspace", nil, "a workspace that sandboxes may be created in; may be repeated")
	flags.StringVar(&o.forbidden, "forbidden", "", "a workspace that may not be used, for a driver that has such")
	flags.StringVar(&o.prefix, "prefix", string(contract.OpenShell), "the service's prefix")
	flags.StringVar(&o.gatewayID, "gateway-id", "conformance", "the gateway that the driver works for")
	flags.StringSliceVar(&o.only, "only", nil, "beginnings of the ids of the checks to make")
	flags.DurationVar(&o.patience, "patience", conformance.DefaultPatience, "how long to wait for what has to happen")
	flags.IntVar(&o.together, "together", conformance.DefaultTogether, "how many checks to make at once")
	return c
}

func judge(ctx context.Context, o options, stdout io.Writer) error {
	if o.socket == "" || len(o.workspaces) == 0 {
		return errors.New("--socket and --workspace are needed")
	}
	conn, err := udsock.NewClient(o.socket, grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(maxMessage), grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second, Backoff: backoff.Config{BaseDelay: retry, Multiplier: 1, MaxDelay: retry}}))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	target, err := newTarget(conn, o)
	if err != nil {
		return err
	}
	results, err := conformance.Judge(ctx, target, conformance.How{Only: o.only, Together: o.together})
	if err != nil {
		return err
	}
	conforms, err := conformance.Report(stdout, results)
	if err == nil && !conforms {
		err = errFailed
	}
	return err
}

// retry is how soon a driver that went away is looked for again (contract 2.1).
const retry = 250 * time.Millisecond

// maxMessage lets what is too large for the driver through to it.
const maxMessage = 64 << 20

var _ conformance.Target = (*target)(nil)

func newAuthority(gatewayID string) (*credentials.Authority, error) {
	ring, err := new(credentials.Ring).Rotated()
	if err != nil {
		return nil, err
	}
	return credentials.New(gatewayID, ring, time.Now)
}
