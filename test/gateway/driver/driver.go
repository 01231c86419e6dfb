package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/gateway/clock"
)

// maxMessage is the greatest answer that is read; a list of all sandboxes is one message.
const maxMessage = 64 << 20

// Config says where the driver is and what is expected of it.
type Config struct {
	// Socket is the path that [openshell.drivers.<name>].socket_path names.
	Socket string
	// Prefix of the service (contract 0.2); empty is contract.OpenShell.
	Prefix contract.Prefix
	// Policy is the gateway's own (contract 2.4).
	Policy driverconf.AdmissionPolicy
	// Version is the gateway's, as it introduces itself; empty is "reference".
	Version string
	// Retry and Patience bound dialling and handshake: every Retry until Patience has passed (contract 2.1, 2.12: 250 ms, 30 s). Something
	// that takes the connection and does not answer is given up then too.
	Retry, Patience time.Duration
	Clock           clock.Clock
	// Options are added to the connection's, for example a test's interceptors.
	Options []grpc.DialOption
}

// Driver is a driver that the handshake was done with.
type Driver struct {
	computev1.ComputeDriverClient

	config       Config
	cc           *grpc.ClientConn
	capabilities *computev1.GetCapabilitiesResponse
}

// Connect dials, shakes hands and judges, all of it within Config.Patience. ctx bounds it too.
func Connect(ctx context.Context, c Config) (*Driver, error) {
	if c.Prefix == "" {
		c.Prefix = contract.OpenShell
	}
	if c.Version == "" {
		c.Version = "reference"
	}
	ctx, cancel := clock.Limit(ctx, c.Clock, c.Patience)
	defer cancel()
	if err := reach(ctx, c); err != nil {
		return nil, err
	}
	// Reconnects stay lazy and prompt: a driver that restarts is there again when the next call is made.
	cc, err := udsock.NewClient(c.Socket, append([]grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second, Backoff: backoff.Config{
			BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, MaxDelay: 500 * time.Millisecond, Jitter: 0.2,
		}}),
	}, c.Options...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to the driver: %w", err)
	}
	prefixed, err := contract.NewConn(cc, c.Prefix)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the driver: %w", err), cc.Close())
	}
	d := &Driver{ComputeDriverClient: computev1.NewComputeDriverClient(prefixed), config: c, cc: cc}
	if err := d.handshake(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("handshake with the driver at %s: %w", c.Socket, err), cc.Close())
	}
	return d, nil
}

// reach waits until something that may be the driver answers on the socket (contract 2.1).
func reach(ctx context.Context, c Config) error {
	for {
		conn, err := udsock.Dial(ctx, c.Socket)
		if err == nil {
			return conn.Close()
		}
		if clock.Sleep(ctx, c.Clock, c.Retry) != nil {
			return fmt.Errorf("the driver's socket %s could not be reached within %s: %w", c.Socket, c.Patience, err)
		}
	}
}

func (d *Driver) ask(ctx context.Context, opts ...grpc.CallOption) (*computev1.GetCapabilitiesResponse, error) {
	return d.GetCapabilities(ctx, &computev1.GetCapabilitiesRequest{Gateway: Gateway(d.config.Version)}, opts...)
}

func (d *Driver) handshake(ctx context.Context) error {
	answer, err := d.ask(ctx, grpc.WaitForReady(true))
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return fmt.Errorf("it did not answer within %s: %w", d.config.Patience, err)
	}
	if err != nil {
		return err
	}
	if answer.GetExtension() == nil {
		return errors.New("extension: the driver does not introduce itself; upgrade the extension")
	}
	if err := Compatible(Gateway(d.config.Version), answer.GetExtension()); err != nil {
		return err
	}
	if err := AgreedPolicy(answer.GetResourceAdmissionPolicy(), d.config.Policy); err != nil {
		return err
	}
	if answer.GetGatewayManagesLifecycle() {
		return errors.New("gateway_manages_lifecycle: this gateway does not start and stop a driver's sandboxes around its own life")
	}
	d.capabilities = answer
	return nil
}

// Capabilities returns a copy of what the handshake gave.
func (d *Driver) Capabilities() *computev1.GetCapabilitiesResponse {
	return proto.CloneOf(d.capabilities)
}

// Acknowledged asks the driver again for its policy and compares the bytes with those of the handshake (contract 2.4, before every
// launch). The error is a status: FAILED_PRECONDITION when they differ, and the driver's own when it could not be asked.
func (d *Driver) Acknowledged(ctx context.Context) error {
	answer, err := d.ask(ctx)
	if err != nil {
		return err
	}
	if answer.GetResourceAdmissionPolicy() != d.capabilities.GetResourceAdmissionPolicy() {
		return status.Error(codes.FailedPrecondition, "resource_admission_policy: the driver's policy changed since the gateway started; restart the gateway")
	}
	return nil
}

// Close ends the connection.
func (d *Driver) Close() error { return d.cc.Close() }
