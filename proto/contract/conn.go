package contract

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
)

// conn calls the ComputeDriver service under another prefix.
type conn struct {
	grpc.ClientConnInterface
	prefix Prefix
}

// NewConn returns a connection over cc on which the generated client calls the ComputeDriver service
// under p. Other services keep their names. cc stays the caller's to close.
func NewConn(cc grpc.ClientConnInterface, p Prefix) (grpc.ClientConnInterface, error) {
	if _, err := ParsePrefix(string(p)); err != nil {
		return nil, fmt.Errorf("calling a compute driver: %w", err)
	}
	return conn{ClientConnInterface: cc, prefix: p}, nil
}

func (c conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(ctx, c.rename(method), args, reply, opts...)
}

func (c conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConnInterface.NewStream(ctx, desc, c.rename(method), opts...)
}

func (c conn) rename(fullMethod string) string {
	method, ok := strings.CutPrefix(fullMethod, OpenShell.FullMethod(""))
	if !ok {
		return fullMethod
	}
	return c.prefix.FullMethod(method)
}
