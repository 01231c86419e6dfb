package secret

import (
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
)

// Message renders one protobuf message with its secret fields replaced by
// [Marker]. Make one with [Redacted]; the zero Message renders as null.
type Message struct {
	// A function for the same reason as in Value: fmt must not reach the message.
	open func() proto.Message
}

var (
	_ fmt.Formatter              = Message{}
	_ fmt.GoStringer             = Message{}
	_ fmt.Stringer               = Message{}
	_ json.Marshaler             = Message{}
	_ encoding.TextMarshaler     = Message{}
	_ slog.LogValuer             = Message{}
	_ zerolog.LogObjectMarshaler = Message{}
)

// Redacted returns m in a form that is safe to log.
//
// Fields with the option openshell.options.v1.secret or debug_redact are replaced
// by [Marker] at any depth: in nested and repeated messages, map values, oneofs
// and in an Any whose type is linked into the program. Values of maps named
// environment, and texts named command or args, are replaced too, each of a list by
// itself. Of google.protobuf.Struct, Value and ListValue only keys are shown, with the
// kinds of values and the sizes of strings. Contents of bytes fields, of an Any that
// cannot be decoded and of unknown fields, where a newer peer may keep secrets that we
// do not know of, are given as sizes only.
//
// The rendering is at most [MaxRendered] bytes. Nothing is rendered before a
// formatter asks, so a disabled log line costs nothing; m must not change until
// then, and it is never modified.
func Redacted(m proto.Message) Message {
	if m == nil {
		return Message{}
	}
	return Message{open: func() proto.Message { return m }}
}

// String returns the full name of the message's type followed by its fields as
// JSON.
func (m Message) String() string {
	return m.typeName() + string(m.json())
}

// GoString returns the same as String.
func (m Message) GoString() string { return m.String() }

// Format writes String for every verb and flag.
func (m Message) Format(state fmt.State, _ rune) {
	// A fmt.State keeps write errors to itself; there is nothing to report to.
	_, _ = io.WriteString(state, m.String())
}

// MarshalJSON returns the fields as a JSON object.
func (m Message) MarshalJSON() ([]byte, error) { return m.json(), nil }

// MarshalText returns String.
func (m Message) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// LogValue returns String for log/slog.
func (m Message) LogValue() slog.Value { return slog.StringValue(m.String()) }

// MarshalZerologObject adds "type", the full name of the message's type, and
// "fields", its fields as a JSON object.
func (m Message) MarshalZerologObject(e *zerolog.Event) {
	e.Str("type", m.typeName()).RawJSON("fields", m.json())
}

func (m Message) typeName() string {
	if m.open == nil {
		return ""
	}
	return string(m.open().ProtoReflect().Descriptor().FullName())
}

func (m Message) json() []byte {
	if m.open == nil {
		return []byte("null")
	}
	return render(m.open().ProtoReflect())
}
