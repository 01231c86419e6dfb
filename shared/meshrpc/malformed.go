package meshrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Registrar takes services, as a *grpc.Server does.
type Registrar interface {
	grpc.ServiceRegistrar
	GetServiceInfo() map[string]grpc.ServiceInfo
}

// RefuseMalformed returns a registrar that passes services on to a server which has the
// option KeepMalformed, such that a request that is no message of its method is answered
// with INVALID_ARGUMENT and the reason request_invalid. gRPC itself says INTERNAL, as if
// the server were at fault. A string that is not UTF-8 is named by its path; nothing else
// of the request is repeated.
//
// The interceptors of the server run first, with an empty request, so that a caller who
// may not call hears of that alone. answer makes the error of the verdict: Decision.Err
// inside the mesh, Decision.SafeErr for a gateway. Of two RefuseMalformed the later one
// answers.
func RefuseMalformed(to Registrar, answer func(verdict.Decision) error) Registrar {
	if earlier, ok := to.(strict); ok {
		to = earlier.Registrar
	}
	return strict{Registrar: to, answer: answer}
}

// KeepMalformed is the option of servers whose services RefuseMalformed has registered:
// a codec, since gRPC answers by itself what a codec cannot read. It changes nothing for
// other services. Servers of NewServer have it.
func KeepMalformed() grpc.ServerOption { return grpc.ForceServerCodecV2(keeping{}) }

type strict struct {
	Registrar
	answer func(verdict.Decision) error
}

// RegisterService implements grpc.ServiceRegistrar. The description is the generated
// code's, and stays as it is.
func (s strict) RegisterService(generated *grpc.ServiceDesc, service any) {
	desc := *generated
	desc.Methods = make([]grpc.MethodDesc, 0, len(generated.Methods))
	for _, m := range generated.Methods {
		m.Handler = s.unary(m.Handler)
		desc.Methods = append(desc.Methods, m)
	}
	desc.Streams = make([]grpc.StreamDesc, 0, len(generated.Streams))
	for _, m := range generated.Streams {
		handler := m.Handler
		m.Handler = func(service any, stream grpc.ServerStream) error {
			return handler(service, strictStream{ServerStream: stream, strict: s})
		}
		desc.Streams = append(desc.Streams, m)
	}
	s.Registrar.RegisterService(&desc, service)
}

// unary is handler with the refusal kept from it until the interceptors have run.
func (s strict) unary(handler grpc.MethodHandler) grpc.MethodHandler {
	return func(service any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		var malformed error
		keep := func(request any) (err error) {
			malformed, err = s.read(request, decode)
			return err
		}
		return handler(service, ctx, keep, func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if malformed != nil {
				next = func(context.Context, any) (any, error) { return nil, malformed }
			}
			if interceptor == nil {
				return next(ctx, request)
			}
			return interceptor(ctx, request, info, next)
		})
	}
}

// read has the request decoded. err is the transport's.
func (s strict) read(request any, decode func(any) error) (malformed, err error) {
	m, ok := request.(proto.Message)
	if !ok {
		return nil, decode(request)
	}
	l := &letter{Message: m}
	if err := decode(l); err != nil || l.malformed == "" {
		return nil, err
	}
	return s.answer(verdict.Refuse(verdict.RequestInvalid, "request.decode", l.malformed).WithMessage(l.malformed)), nil
}

type strictStream struct {
	grpc.ServerStream
	strict strict
}

func (s strictStream) RecvMsg(request any) error {
	malformed, err := s.strict.read(request, s.ServerStream.RecvMsg)
	if err != nil {
		return err
	}
	return malformed
}

// letter is a message together with what is wrong with its bytes. It is the message to
// whoever sees it on the way, such as the log of calls.
type letter struct {
	proto.Message
	malformed string
}

// keeping is protobuf's codec, which does not fail for a letter.
type keeping struct{}

func (keeping) Name() string { return protocodec.Name }

func (keeping) Marshal(v any) (mem.BufferSlice, error) {
	return encoding.GetCodecV2(protocodec.Name).Marshal(v)
}

func (keeping) Unmarshal(data mem.BufferSlice, v any) error {
	l, ok := v.(*letter)
	if !ok {
		return encoding.GetCodecV2(protocodec.Name).Unmarshal(data, v)
	}
	if encoding.GetCodecV2(protocodec.Name).Unmarshal(data, l.Message) != nil {
		proto.Reset(l.Message)
		l.malformed = "the request is not a message that this method takes"
		if path, found := notUTF8(l.ProtoReflect().Descriptor(), data.Materialize(), 0); found {
			l.malformed = path + ": is not valid UTF-8"
		}
	}
	return nil
}
