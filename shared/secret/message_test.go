package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	optionsv1 "github.com/portcullis-mesh/portcullis/proto/openshell/options/v1"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// secretOption is how a field is marked in the contract.
func secretOption() *descriptorpb.FieldOptions {
	o := &descriptorpb.FieldOptions{}
	proto.SetExtension(o, optionsv1.E_Secret, true)
	return o
}

// unresolvedOption is the same mark in a descriptor that was decoded without the
// option's type.
func unresolvedOption(raw []byte) *descriptorpb.FieldOptions {
	o := &descriptorpb.FieldOptions{}
	o.ProtoReflect().SetUnknown(raw)
	return o
}

func varintOption(value uint64) []byte {
	number := optionsv1.E_Secret.TypeDescriptor().Number()
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value)
}

type fieldSpec struct {
	name    string
	kind    descriptorpb.FieldDescriptorProto_Type
	message string
	options *descriptorpb.FieldOptions
	list    bool
	oneof   bool
}

// probe builds a message type test.Probe whose fields cover each kind and each
// place in which the contract, or a later one, could hold a secret.
func probe(t testing.TB) protoreflect.MessageDescriptor {
	t.Helper()
	const (
		str = descriptorpb.FieldDescriptorProto_TYPE_STRING
		raw = descriptorpb.FieldDescriptorProto_TYPE_BYTES
		msg = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	)
	debugRedact := &descriptorpb.FieldOptions{DebugRedact: proto.Bool(true)}
	broken := protowire.AppendTag(varintOption(0), 60000, protowire.BytesType)
	specs := []fieldSpec{
		{name: "plain", kind: str},
		{name: "secret_text", kind: str, options: secretOption()},
		{name: "secret_bytes", kind: raw, options: secretOption()},
		{name: "secret_list", kind: str, options: secretOption(), list: true},
		{name: "secret_message", kind: msg, message: ".test.Probe", options: secretOption()},
		{name: "secret_map", kind: msg, message: ".test.Probe.SecretMapEntry", options: secretOption(), list: true},
		{name: "secret_choice", kind: str, options: secretOption(), oneof: true},
		{name: "plain_choice", kind: str, oneof: true},
		{name: "redacted_text", kind: str, options: debugRedact},
		{name: "unresolved_text", kind: str, options: unresolvedOption(varintOption(1))},
		{name: "unresolved_false", kind: str, options: unresolvedOption(varintOption(0))},
		{name: "undecodable_text", kind: str, options: unresolvedOption(broken)},
		{name: "plain_bytes", kind: raw},
		{name: "child", kind: msg, message: ".test.Probe"},
		{name: "children", kind: msg, message: ".test.Probe", list: true},
		{name: "by_name", kind: msg, message: ".test.Probe.ByNameEntry", list: true},
		{name: "environment", kind: msg, message: ".test.Probe.EnvironmentEntry", list: true},
		{name: "command", kind: str, list: true},
		{name: "args", kind: str},
		{name: "wrapped", kind: msg, message: ".google.protobuf.Any"},
		{name: "number", kind: descriptorpb.FieldDescriptorProto_TYPE_INT64},
		{name: "ratio", kind: descriptorpb.FieldDescriptorProto_TYPE_DOUBLE},
		{name: "flag", kind: descriptorpb.FieldDescriptorProto_TYPE_BOOL},
		{name: "label", kind: descriptorpb.FieldDescriptorProto_TYPE_ENUM, message: ".google.protobuf.NullValue"},
		{name: "settings", kind: msg, message: ".google.protobuf.Struct"},
		{name: "setting", kind: msg, message: ".google.protobuf.Value"},
		{name: "settings_list", kind: msg, message: ".google.protobuf.ListValue"},
		{name: "settings_by_name", kind: msg, message: ".test.Probe.SettingsByNameEntry", list: true},
	}
	message := &descriptorpb.DescriptorProto{
		Name:      proto.String("Probe"),
		OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: proto.String("choice")}},
		NestedType: []*descriptorpb.DescriptorProto{
			mapEntry("SecretMapEntry", str, ""), mapEntry("ByNameEntry", msg, ".test.Probe"),
			mapEntry("EnvironmentEntry", str, ""), mapEntry("SettingsByNameEntry", msg, ".google.protobuf.Value"),
		},
	}
	for i, s := range specs {
		message.Field = append(message.Field, s.build(int32(i+1)))
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("probe.proto"), Package: proto.String("test"), Syntax: proto.String("proto3"),
		Dependency:  []string{"google/protobuf/any.proto", "google/protobuf/struct.proto"},
		MessageType: []*descriptorpb.DescriptorProto{message},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatalf("descriptor: %v", err)
	}
	return file.Messages().ByName("Probe")
}

func (s fieldSpec) build(number int32) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{
		Name: proto.String(s.name), Number: proto.Int32(number), Type: s.kind.Enum(), Options: s.options,
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
	if s.list {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	if s.message != "" {
		f.TypeName = proto.String(s.message)
	}
	if s.oneof {
		f.OneofIndex = proto.Int32(0)
	}
	return f
}

func mapEntry(name string, kind descriptorpb.FieldDescriptorProto_Type, message string) *descriptorpb.DescriptorProto {
	key := fieldSpec{name: "key", kind: descriptorpb.FieldDescriptorProto_TYPE_STRING}
	value := fieldSpec{name: "value", kind: kind, message: message}
	return &descriptorpb.DescriptorProto{
		Name:    proto.String(name),
		Field:   []*descriptorpb.FieldDescriptorProto{key.build(1), value.build(2)},
		Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
	}
}

// editor sets fields of a Probe by name.
type editor struct{ *dynamicpb.Message }

func (e editor) field(name string) protoreflect.FieldDescriptor {
	return e.Descriptor().Fields().ByName(protoreflect.Name(name))
}

func (e editor) set(name string, value any) editor {
	e.Set(e.field(name), protoreflect.ValueOf(value))
	return e
}

func (e editor) push(name string, value any) editor {
	e.Mutable(e.field(name)).List().Append(protoreflect.ValueOf(value))
	return e
}

func (e editor) put(name, key string, value any) editor {
	e.Mutable(e.field(name)).Map().Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOf(value))
	return e
}

// leaf puts s wherever the type says that a secret lives.
func leaf(kind protoreflect.MessageDescriptor, s []byte) editor {
	text := strings.ToValidUTF8(string(s), "?")
	inner := editor{dynamicpb.NewMessage(kind)}.set("plain", text)
	return editor{dynamicpb.NewMessage(kind)}.
		set("plain", "visible").
		set("secret_text", text).set("secret_bytes", s).push("secret_list", text).
		set("secret_message", inner.ProtoReflect()).put("secret_map", text, text).
		set("secret_choice", text).set("redacted_text", text).
		set("unresolved_text", text).set("unresolved_false", "shown").set("undecodable_text", text).
		set("plain_bytes", s).put("environment", "API_KEY", text).push("command", text).push("command", text).set("args", text).
		set("settings", freeForm("api_key", text)).set("setting", structpb.NewStringValue(text).ProtoReflect()).
		set("settings_list", (&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue(text)}}).ProtoReflect()).
		put("settings_by_name", "first", structpb.NewStringValue(text).ProtoReflect())
}

// freeForm is a Struct that is not the generated Go type.
func freeForm(key, text string) protoreflect.Message {
	m := dynamicpb.NewMessage((&structpb.Struct{}).ProtoReflect().Descriptor())
	m.Mutable(m.Descriptor().Fields().ByName("fields")).Map().Set(
		protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfMessage(dynamicString(text)))
	return m
}

func dynamicString(text string) protoreflect.Message {
	m := dynamicpb.NewMessage((&structpb.Value{}).ProtoReflect().Descriptor())
	m.Set(m.Descriptor().Fields().ByName("string_value"), protoreflect.ValueOfString(text))
	return m
}

// tree puts leaves at every kind of depth.
func tree(kind protoreflect.MessageDescriptor, s []byte) proto.Message {
	e := leaf(kind, s).
		set("child", leaf(kind, s).set("child", leaf(kind, s).ProtoReflect()).ProtoReflect()).
		push("children", leaf(kind, s).ProtoReflect()).
		put("by_name", "first", leaf(kind, s).ProtoReflect())
	e.SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 999, protowire.BytesType), s))
	return e.Message
}

// outputs renders m in each way that a log line could.
func outputs(t testing.TB, m proto.Message) string {
	t.Helper()
	r := secret.Redacted(m)
	var out bytes.Buffer
	log := zerolog.New(&out)
	log.Info().Object("o", r).Interface("i", r).Stringer("s", r).Fields(map[string]any{"f": r}).Msgf("%v", r)
	slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: dropTime})).Info("m", "r", r)
	encoded, err := json.Marshal(map[string]any{"r": r, "p": &r})
	if err != nil {
		t.Fatalf("json: %v", err)
	}
	out.Write(encoded)
	fmt.Fprintf(&out, "%v %+v %#v %s %q %x %d %s", r, r, r, r, r, r, r, r.GoString())
	return out.String()
}

func dropTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func TestRedactedShowsOnlyWhatIsPlain(t *testing.T) {
	kind := probe(t)
	m := leaf(kind, []byte("hunter2")).set("number", int64(-7)).set("ratio", math.Inf(1)).set("flag", true)
	m.set("child", editor{dynamicpb.NewMessage(kind)}.set("plain_choice", "a\"b\n").set("ratio", 0.5).
		set("label", protoreflect.EnumNumber(7)).ProtoReflect())
	want := `test.Probe{"plain":"visible","secret_text":"[redacted]","secret_bytes":"[redacted]",` +
		`"secret_list":"[redacted]","secret_message":"[redacted]","secret_map":"[redacted]",` +
		`"secret_choice":"[redacted]","redacted_text":"[redacted]","unresolved_text":"[redacted]",` +
		`"unresolved_false":"shown","undecodable_text":"[redacted]","plain_bytes":"[7 bytes]",` +
		`"child":{"plain_choice":"a\"b\n","ratio":0.5,"label":7},` +
		`"environment":{"API_KEY":"[redacted]"},"command":["[redacted]","[redacted]"],"args":"[redacted]","number":-7,"ratio":"+Inf","flag":true,` +
		`"settings":{"fields":{"api_key":{"string_value":"[7 bytes]"}}},"setting":{"string_value":"[7 bytes]"},` +
		`"settings_list":{"values":[{"string_value":"[7 bytes]"}]},"settings_by_name":{"first":{"string_value":"[7 bytes]"}}}`
	if got := secret.Redacted(m.Message).String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRedactedAtAnyDepth(t *testing.T) {
	kind := probe(t)
	m := tree(kind, []byte(plain))
	before := proto.Clone(m)
	noLeak(t, "tree", outputs(t, m), []byte(plain))
	if !proto.Equal(before, m) {
		t.Error("rendering changed the message")
	}
}

// TestRedactedInUnexportedField: fmt cannot call methods there, and a message has
// no protection of its own.
func TestRedactedInUnexportedField(t *testing.T) {
	m := tree(probe(t), []byte(plain))
	outer := struct{ request secret.Message }{secret.Redacted(m)}
	for verb := 'A'; verb <= 'z'; verb++ {
		for _, flags := range []string{"", "+", "#"} {
			format := "%" + flags + string(verb)
			noLeak(t, format, fmt.Sprintf(format, outer), []byte(plain))
		}
	}
}

func TestRedactedAny(t *testing.T) {
	kind := probe(t)
	pack := func(m proto.Message) *anypb.Any {
		t.Helper()
		a, err := anypb.New(m)
		if err != nil {
			t.Fatalf("pack: %v", err)
		}
		return a
	}
	field := &descriptorpb.FieldDescriptorProto{Name: proto.String("linked")}
	for _, c := range []struct {
		name string
		any  *anypb.Any
		want string
	}{
		{
			"type is linked in", pack(field),
			`google.protobuf.Any{"@type":"type.googleapis.com/google.protobuf.FieldDescriptorProto","value":{"name":"linked"}}`,
		},
		{
			"any in any", pack(pack(field)),
			`google.protobuf.Any{"@type":"type.googleapis.com/google.protobuf.Any","value":` +
				`{"@type":"type.googleapis.com/google.protobuf.FieldDescriptorProto","value":{"name":"linked"}}}`,
		},
		{
			"free form", pack(block(t, map[string]any{"port": 5432.0})),
			`google.protobuf.Any{"@type":"type.googleapis.com/google.protobuf.Struct","value":` +
				`{"fields":{"port":{"number_value":"[double]"}}}}`,
		},
		{
			"type is unknown", pack(editor{dynamicpb.NewMessage(kind)}.set("secret_text", "hunter2").Message),
			`google.protobuf.Any{"@type":"type.googleapis.com/test.Probe","value":"[9 bytes]"}`,
		},
		{
			"content does not decode", &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.Struct", Value: []byte("\xffhunter2")},
			`google.protobuf.Any{"@type":"type.googleapis.com/google.protobuf.Struct","value":"[8 bytes]"}`,
		},
		{"empty", &anypb.Any{}, `google.protobuf.Any{"@type":"","value":"[0 bytes]"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := secret.Redacted(c.any).String(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestRedactedNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		m    secret.Message
		want string
	}{
		{"zero", secret.Message{}, "null"},
		{"nil interface", secret.Redacted(nil), "null"},
		{"nil pointer", secret.Redacted((*anypb.Any)(nil)), "google.protobuf.Anynull"},
		{"empty message", secret.Redacted(&structpb.Struct{}), "google.protobuf.Struct{}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.m.String(); got != c.want {
				t.Errorf("String = %q, want %q", got, c.want)
			}
			encoded, err := json.Marshal(c.m)
			if err != nil || !json.Valid(encoded) {
				t.Errorf("json = %s, %v", encoded, err)
			}
		})
	}
}

// TestRedactedIsBounded builds the messages that grow each way at once.
func TestRedactedIsBounded(t *testing.T) {
	kind := probe(t)
	long := strings.Repeat("\x01", 10_000)
	wide := editor{dynamicpb.NewMessage(kind)}
	for i := range 3000 {
		wide.put("by_name", fmt.Sprintf("%s%d", long[:70], i), editor{dynamicpb.NewMessage(kind)}.set("plain", long).ProtoReflect())
	}
	deep := editor{dynamicpb.NewMessage(kind)}.set("plain", long)
	for range 200 {
		deep = editor{dynamicpb.NewMessage(kind)}.set("plain", "x").push("children", deep.ProtoReflect())
	}
	list := editor{dynamicpb.NewMessage(kind)}
	for range 5000 {
		list.push("children", deep.ProtoReflect())
	}
	for name, c := range map[string]struct {
		m    proto.Message
		says string // how it tells what was left out
	}{
		"wide map":      {wide.Message, `"[truncated]":true`},
		"deep":          {deep.Message, `"[nested too deep]"`},
		"long list":     {list.Message, `"[truncated]"]`},
		"long type url": {&anypb.Any{TypeUrl: long, Value: []byte(long)}, `...[+9744 bytes]"`},
	} {
		t.Run(name, func(t *testing.T) {
			encoded, err := secret.Redacted(c.m).MarshalJSON()
			if err != nil || !json.Valid(encoded) {
				t.Fatalf("not JSON: %v: %s", err, encoded)
			}
			if len(encoded) > secret.MaxRendered {
				t.Errorf("rendered %d bytes, the limit is %d", len(encoded), secret.MaxRendered)
			}
			if !bytes.Contains(encoded, []byte(c.says)) {
				t.Errorf("lacks %s: %s", c.says, encoded)
			}
		})
	}
}

// TestRedactedIsBoundedAtTheEdge moves the largest possible member over the point
// at which no further one may begin, at several depths.
func TestRedactedIsBoundedAtTheEdge(t *testing.T) {
	kind := probe(t)
	blank := func() editor { return editor{dynamicpb.NewMessage(kind)} }
	worst := strings.Repeat("\x01", 10_000)
	largest := 0
	for _, depth := range []int{0, 1, 7, 14} {
		last := blank().put("by_name", worst, blank().set("plain", worst).ProtoReflect())
		for range depth {
			last = blank().set("child", last.ProtoReflect())
		}
		for fill := 3000; fill < secret.MaxRendered; fill += 11 {
			top := blank()
			for rest := fill; rest > 0; rest -= 200 {
				top.push("children", blank().set("plain", strings.Repeat("a", min(rest, 200))).ProtoReflect())
			}
			top.push("children", last.ProtoReflect()).push("children", last.ProtoReflect())
			encoded, err := secret.Redacted(top.Message).MarshalJSON()
			if err != nil || !json.Valid(encoded) {
				t.Fatalf("depth %d, fill %d: not JSON: %v", depth, fill, err)
			}
			largest = max(largest, len(encoded))
		}
	}
	if largest > secret.MaxRendered || largest < secret.MaxRendered*3/4 {
		t.Errorf("the largest rendering has %d bytes, want at most %d and near it", largest, secret.MaxRendered)
	}
}

// FuzzRedacted: no output depends on the secret bytes, whatever they are, and all
// of it is bounded JSON. Comparing with another secret of equal length is stronger
// than searching for encodings: it finds any form of them.
func FuzzRedacted(f *testing.F) {
	kind := probe(f)
	f.Add([]byte(plain))
	f.Add([]byte(`"},{"`))
	f.Add(bytes.Repeat([]byte{'s'}, 300))
	f.Fuzz(func(t *testing.T, s []byte) {
		s = []byte(strings.ToValidUTF8(string(s), "?"))
		if len(s) == 0 {
			return
		}
		other := bytes.Repeat([]byte{'~'}, len(s))
		if got, want := outputs(t, tree(kind, s)), outputs(t, tree(kind, other)); got != want {
			t.Errorf("output depends on the secret:\n%s\n%s", got, want)
		}
		visible := editor{dynamicpb.NewMessage(kind)}.set("plain", string(s)).put("by_name", string(s), tree(kind, s).ProtoReflect())
		encoded, err := secret.Redacted(visible.Message).MarshalJSON()
		if err != nil || !json.Valid(encoded) || len(encoded) > secret.MaxRendered {
			t.Errorf("bad JSON of %d bytes, %v: %s", len(encoded), err, encoded)
		}
	})
}

func ExampleRedacted() {
	m := &descriptorpb.FieldDescriptorProto{Name: proto.String("credential"), Number: proto.Int32(1)}
	fmt.Println(secret.Redacted(m))
	// Output:
	// google.protobuf.FieldDescriptorProto{"name":"credential","number":1}
}
