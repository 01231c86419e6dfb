package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

func appendText(b []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

// raw is a codec for messages that are bytes already, which a client of Go's would refuse to make.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T is no bytes", v)
	}
	return *b, nil
}

func (raw) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is no bytes", v)
	}
	*b = bytes.Clone(data)
	return nil
}

// broken stands in a message for bytes that are no text; it has their length.
const broken = "\x01n0-text\x01"

var noText = []byte("\xff\xfe\x80\xc0\xaf\xed\xa0\x80\xff")

// sendBroken sends a message with bytes that are no UTF-8 wherever it has broken.
func (p *probe) sendBroken(ctx context.Context, method string, request proto.Message) error {
	text, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte(broken)) {
		return errors.New("the message has nothing to break")
	}
	return p.send(ctx, method, text)
}

// send sends a message that is bytes already, and breaks what is to be broken.
func (p *probe) send(ctx context.Context, method string, text []byte) error {
	text = bytes.ReplaceAll(text, []byte(broken), noText)
	return p.target.Conn().Invoke(ctx, "/"+computev1.ComputeDriver_ServiceDesc.ServiceName+"/"+method, &text, new([]byte), grpc.ForceCodec(raw{}))
}
