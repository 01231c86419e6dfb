package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
)

// MaxAnswerBytes bounds one answer of the driver, over the relay and over lifecycle's own socket alike: they must not differ in what a
// gateway can be told. Some 80 000 sandboxes fit into a list.
const MaxAnswerBytes = 64 << 20

// Relay passes calls on. Make it with New.
type Relay struct {
	backend grpc.ClientConnInterface
	target  string
	tracing trace.TracerProvider
}

// New returns a relay to the driver that backend reaches; target names it in errors. The provider is that of backend's own spans; nil
// for none. It starts nothing.
func New(backend grpc.ClientConnInterface, target string, tracing trace.TracerProvider) (*Relay, error) {
	if backend == nil {
		return nil, errors.New("relay calls of the driver: there is no connection to pass them to")
	}
	if tracing == nil {
		tracing = noop.NewTracerProvider()
	}
	return &Relay{backend: backend, target: target, tracing: tracing}, nil
}

// ServerOptions make a grpc.Server pass on every call that no registered service takes. They set the server's codec, which
// leaves registered services as they are, bound its answers by MaxAnswerBytes, and give each call a span in its caller's trace.
func (r *Relay) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(passing{}), grpc.UnknownServiceHandler(r.handle), grpc.MaxSendMsgSize(MaxAnswerBytes), meshrpc.Tracing(r.tracing),
	}
}

// answers describes every method of the contract as the relay sees it: a unary call is a stream of one answer.
var answers = grpc.StreamDesc{ServerStreams: true}

func (r *Relay) handle(_ any, down grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(down)
	if !ok || !relayed(method) {
		return status.Errorf(codes.Unimplemented, "the relay passes on calls of the compute driver alone, and %.200q is none", method)
	}
	request, err := single(down)
	if err != nil {
		return err
	}
	defer request.free()
	// The call above ends when this one does, however it does.
	ctx, cancel := context.WithCancel(forwarded(down.Context()))
	defer cancel()
	up, err := r.backend.NewStream(ctx, &answers, method, grpc.ForceCodecV2(passing{}), grpc.MaxCallRecvMsgSize(MaxAnswerBytes))
	if err != nil {
		return r.unreached(err)
	}
	return passAnswers(up, down, request)
}

// relayed reports whether the method is one of the driver's, under any prefix, known to this release or not.
func relayed(method string) bool {
	service, _, ok := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return ok && slices.ContainsFunc(contract.Prefixes(), func(p contract.Prefix) bool { return p.ServiceName() == service })
}

// single reads the one request of a call.
func single(down grpc.ServerStream) (*frame, error) {
	request := new(frame)
	if err := down.RecvMsg(request); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, status.Error(codes.InvalidArgument, "the call ended without a request")
		}
		return nil, err
	}
	more := new(frame)
	switch err := down.RecvMsg(more); {
	case errors.Is(err, io.EOF):
		return request, nil
	case err == nil:
		more.free()
		request.free()
		return nil, status.Error(codes.InvalidArgument, "the call has more than one request; no method of the compute driver takes that")
	default:
		request.free()
		return nil, err
	}
}

// passAnswers sends the request and passes back what comes until the call ends, and how it ended.
func passAnswers(up grpc.ClientStream, down grpc.ServerStream, request *frame) error {
	// io.EOF says that the stream has ended already; RecvMsg knows how.
	if err := up.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := up.CloseSend(); err != nil {
		return err
	}
	header, err := up.Header()
	if err == nil && header.Len() > 0 {
		if err := down.SendHeader(own(header)); err != nil {
			return err
		}
	}
	for {
		answer := new(frame)
		if err := up.RecvMsg(answer); err != nil {
			down.SetTrailer(own(up.Trailer()))
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		err := down.SendMsg(answer)
		answer.free()
		if err != nil {
			return err
		}
	}
}

// unreached says of a call that was never sent where it should have gone. Its code is kept.
func (r *Relay) unreached(err error) error {
	s := status.Convert(err)
	return status.Error(s.Code(), fmt.Sprintf("relay the call to lifecycle at %s: %s (is it running, and do both ends have certificates of one mesh?)",
		r.target, s.Message()))
}

// forwarded is ctx with the caller's metadata on the way out.
func forwarded(ctx context.Context) context.Context {
	in, _ := metadata.FromIncomingContext(ctx)
	return metadata.NewOutgoingContext(ctx, own(in))
}

// own are the keys that belong to the call. The rest belong to one connection, and grpc sets them for each.
func own(md metadata.MD) metadata.MD {
	out := make(metadata.MD, md.Len())
	for key, values := range md {
		if strings.HasPrefix(key, ":") || strings.HasPrefix(key, "grpc-") || connectionKeys[key] {
			continue
		}
		out[key] = values
	}
	return out
}

var connectionKeys = map[string]bool{"content-type": true, "user-agent": true, "te": true, "host": true, "connection": true}

// Unary reports whether the method has one answer, so that a call of it ends by itself: a stop waits for those, and for no
// others.
func Unary(fullMethod string) bool {
	_, method, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	return relayed(fullMethod) && slices.ContainsFunc(computev1.ComputeDriver_ServiceDesc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == method })
}
