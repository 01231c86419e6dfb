package boundary

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc"
)

// Service is the gRPC service, Exchange its stream (contract 13.5).
const (
	Service  = "openshell.isolation.v1.IsolationBoundary"
	Exchange = "Exchange"
)

// MaxChunk is the greatest number of bytes in one gRPC message.
const MaxChunk = MaxFrame + 64

// chunk is the message BoundaryChunk { bytes data = 1; }.
type chunk struct{ data []byte }

// Codec encodes BoundaryChunk messages, the only ones of the service, without generated code.
type Codec struct{}

// chunkTag is field 1, length-delimited.
const chunkTag = 1<<3 | 2

// Marshal encodes a chunk.
func (Codec) Marshal(v any) ([]byte, error) {
	c, ok := v.(*chunk)
	if !ok {
		return nil, fmt.Errorf("encode %T: not a boundary chunk", v)
	}
	return append(binary.AppendUvarint([]byte{chunkTag}, uint64(len(c.data))), c.data...), nil
}

// Unmarshal decodes a chunk. The empty message is an empty chunk; anything but field 1 is refused.
func (Codec) Unmarshal(b []byte, v any) error {
	c, ok := v.(*chunk)
	if !ok {
		return fmt.Errorf("decode %T: not a boundary chunk", v)
	}
	c.data = nil
	if len(b) == 0 {
		return nil
	}
	n, width := binary.Uvarint(b[1:])
	if b[0] != chunkTag || width <= 0 || n != uint64(len(b)-1-width) {
		return errors.New("boundary chunk: not one field 1 of bytes")
	}
	c.data = slices.Clone(b[1+width:]) // gRPC may use b again
	return nil
}

// Name is the content subtype: the bytes are those of protobuf.
func (Codec) Name() string { return "proto" }

// messages is what both ends of a gRPC stream can do.
type messages interface {
	SendMsg(any) error
	RecvMsg(any) error
}

// Stream is the byte stream that chunks make. One goroutine may read while another writes.
type Stream struct {
	messages messages
	rest     []byte
}

// Read reads what is left of the last chunk, or the next one.
func (s *Stream) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		var c chunk
		if err := s.messages.RecvMsg(&c); err != nil {
			return 0, err
		}
		s.rest = c.data
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Write sends b as chunks of at most MaxChunk.
func (s *Stream) Write(b []byte) (int, error) {
	for part := range slices.Chunk(b, MaxChunk-16) {
		if err := s.messages.SendMsg(&chunk{data: part}); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// Register makes s answer Exchange streams by serve, whose error becomes the stream's status.
func Register(s *grpc.Server, serve func(context.Context, *Stream) error) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: Service,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: Exchange, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error {
				return serve(stream.Context(), &Stream{messages: stream})
			},
		}},
	}, nil)
}

// Dial opens an Exchange stream, which ends with ctx.
func Dial(ctx context.Context, cc grpc.ClientConnInterface) (*Stream, error) {
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{StreamName: Exchange, ServerStreams: true, ClientStreams: true},
		"/"+Service+"/"+Exchange, grpc.ForceCodec(Codec{}), grpc.MaxCallRecvMsgSize(MaxChunk), grpc.MaxCallSendMsgSize(MaxChunk))
	if err != nil {
		return nil, err
	}
	return &Stream{messages: stream}, nil
}

// Ask sends a request on a new stream and reads the reply into body. Stream frames may follow on the
// stream that it returns. The error is a *Failure.
func Ask(ctx context.Context, cc grpc.ClientConnInterface, request, body any) (*Stream, error) {
	frame, id, err := Seal(request)
	if err != nil {
		return nil, Failed(Invalid, "request: %v", err)
	}
	stream, err := Dial(ctx, cc)
	if err != nil {
		return nil, AsFailure(err)
	}
	// A server that has refused already ends the stream, and says why when it is read.
	if err := WriteFrame(stream, frame); err != nil && !errors.Is(err, io.EOF) {
		return nil, AsFailure(err)
	}
	answer, err := ReadFrame(stream)
	if err != nil {
		return nil, AsFailure(err)
	}
	if err := OpenReply(answer, id, body); err != nil {
		return nil, err
	}
	return stream, nil
}
