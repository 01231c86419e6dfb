package secret

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Marker is what stands in the place of a secret in every output, whether the
// secret is set or not.
const Marker = "[redacted]"

// Each of these is a way in which a library asks a value for its text.
var (
	_ fmt.Formatter            = Value{}
	_ fmt.GoStringer           = Value{}
	_ fmt.Stringer             = Value{}
	_ json.Marshaler           = Value{}
	_ encoding.TextMarshaler   = Value{}
	_ encoding.BinaryMarshaler = Value{}
	_ slog.LogValuer           = Value{}
)

// String returns [Marker].
func (Value) String() string { return Marker }

// GoString returns [Marker].
func (Value) GoString() string { return Marker }

// Format writes [Marker] for every verb and flag.
func (Value) Format(state fmt.State, _ rune) {
	// A fmt.State keeps write errors to itself; there is nothing to report to.
	_, _ = io.WriteString(state, Marker)
}

// MarshalJSON returns [Marker] as a JSON string. zerolog's Interface and Any use
// it too.
func (Value) MarshalJSON() ([]byte, error) { return []byte(`"` + Marker + `"`), nil }

// MarshalText returns [Marker]; TOML and XML encoders use it.
func (Value) MarshalText() ([]byte, error) { return []byte(Marker), nil }

// MarshalBinary returns [Marker]; encoding/gob uses it.
func (Value) MarshalBinary() ([]byte, error) { return []byte(Marker), nil }

// MarshalYAML returns [Marker]; YAML encoders find it by name.
func (Value) MarshalYAML() (any, error) { return Marker, nil }

// LogValue returns [Marker] for log/slog.
func (Value) LogValue() slog.Value { return slog.StringValue(Marker) }

// errMarker does not repeat its input, as no error of this package does.
var errMarker = errors.New("the value is " + Marker +
	", the text that stands for a hidden secret in printed settings: put the secret itself here")

// UnmarshalText sets the Value to a copy of text, byte for byte and without
// trimming, so that settings structs can hold Values. It refuses [Marker], which
// is what settings that were printed and loaded again contain.
func (v *Value) UnmarshalText(text []byte) error {
	if string(text) == Marker {
		return errMarker
	}
	*v = New(text)
	return nil
}
