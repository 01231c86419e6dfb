package contract

import (
	"os"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// olderPeer is the contract as an older gateway has it.
type olderPeer struct{ file protoreflect.FileDescriptor }

func loadOlderPeer(t testing.TB) olderPeer {
	t.Helper()
	text, err := os.ReadFile("testdata/older_peer.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	p := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal(text, p); err != nil {
		t.Fatal(err)
	}
	file, err := protodesc.NewFile(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return olderPeer{file}
}

// message returns a message of the older peer, filled from text.
func (o olderPeer) message(t testing.TB, name protoreflect.Name, text string) *dynamicpb.Message {
	t.Helper()
	desc := o.file.Messages().ByName(name)
	if desc == nil {
		t.Fatalf("the older peer has no message %s", name)
	}
	m := dynamicpb.NewMessage(desc)
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

// receive decodes what we would send, the way the older peer does.
func (o olderPeer) receive(t testing.TB, sent proto.Message) *dynamicpb.Message {
	t.Helper()
	m := o.message(t, sent.ProtoReflect().Descriptor().Name(), "")
	if err := proto.Unmarshal(encode(t, sent), m); err != nil {
		t.Fatalf("the older peer cannot decode a %s: %v", m.Descriptor().Name(), err)
	}
	return m
}

// get follows field names; of a list it takes the first element.
func get(m protoreflect.Message, path ...protoreflect.Name) protoreflect.Value {
	v := protoreflect.ValueOfMessage(m)
	for _, name := range path {
		field := v.Message().Descriptor().Fields().ByName(name)
		v = v.Message().Get(field)
		if field.IsList() {
			v = v.List().Get(0)
		}
	}
	return v
}

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
