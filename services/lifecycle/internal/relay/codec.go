package relay

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// frame is one message in its encoded form.
type frame struct {
	data mem.BufferSlice
}

func (f *frame) free() {
	f.data.Free()
	f.data = nil
}

// passing is the codec that leaves frames as they are. Every other message is the protobuf codec's, so that a server can
// have services beside the relay.
type passing struct{}

// Name is protobuf's, which frames are in.
func (passing) Name() string { return proto.Name }

func (passing) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*frame); ok {
		// The transport frees what it is given, and the relay its own.
		f.data.Ref()
		return f.data, nil
	}
	return encoding.GetCodecV2(proto.Name).Marshal(v)
}

func (passing) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*frame); ok {
		data.Ref()
		f.data = data
		return nil
	}
	return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
}
