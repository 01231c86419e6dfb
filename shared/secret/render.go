package secret

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

// MaxRendered is the greatest number of bytes of JSON that one message renders to.
// A log line must stay below what log shippers split (16 KiB is the lowest common
// limit) with room for its other keys.
const MaxRendered = 8 << 10

const (
	// maxString and maxKey cut single strings, in bytes before escaping.
	maxString = 256
	maxKey    = 64
	// maxDepth bounds recursion; contract messages nest six deep.
	maxDepth = 16
	// reserve is the room kept for the last member that may begin below the limit:
	// JSON escaping turns a byte into six at most, each open level needs two bytes
	// for its end and a truncation mark.
	reserve = 6*(maxString+maxKey) + 40*(maxDepth+2)
	// mark stands where members were left out.
	truncationMark = "[truncated]"
)

// renderer writes one message as JSON. It is our own because protojson has no
// size limit and prints bytes, and because a copy of the message with fields
// blanked would first copy the secrets.
type renderer struct {
	out []byte
	// freeForm counts the free-form messages that are open: within one, keys are shown
	// and values are not.
	freeForm int
}

func render(m protoreflect.Message) []byte {
	var r renderer
	r.message(m, 0)
	return r.out
}

// full reports that no further member may begin.
func (r *renderer) full() bool { return len(r.out) >= MaxRendered-reserve }

func (r *renderer) message(m protoreflect.Message, depth int) {
	switch {
	case !m.IsValid():
		r.raw("null")
		return
	case depth > maxDepth:
		r.text("[nested too deep]")
		return
	}
	if wrapped, ok := m.Interface().(*anypb.Any); ok {
		r.any(wrapped, depth)
		return
	}
	if isFreeForm(m.Descriptor()) {
		r.freeForm++
		defer func() { r.freeForm-- }()
	}
	r.raw("{")
	defer r.raw("}")
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !m.Has(field) {
			continue
		}
		if !r.key(string(field.Name())) {
			return
		}
		if isSecret(field) {
			r.text(Marker)
			continue
		}
		r.field(field, m.Get(field), depth)
	}
	if n := len(m.GetUnknown()); n > 0 && r.key("[unknown fields]") {
		r.size(n)
	}
}

// any shows the content of an Any when its type is linked in. An undecodable one
// is not an error here: the size is all that can be said safely.
func (r *renderer) any(wrapped *anypb.Any, depth int) {
	r.raw("{")
	defer r.raw("}")
	if !r.key("@type") {
		return
	}
	r.text(wrapped.GetTypeUrl())
	if !r.key("value") {
		return
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByURL(wrapped.GetTypeUrl())
	if err != nil {
		r.size(len(wrapped.GetValue()))
		return
	}
	content := kind.New()
	if err := proto.Unmarshal(wrapped.GetValue(), content.Interface()); err != nil {
		r.size(len(wrapped.GetValue()))
		return
	}
	r.message(content, depth+1)
}

func (r *renderer) field(field protoreflect.FieldDescriptor, value protoreflect.Value, depth int) {
	switch {
	case field.IsMap():
		r.entries(field, value.Map(), depth)
	case field.IsList():
		r.elements(field, value.List(), depth)
	default:
		r.single(field, value, depth)
	}
}

// entries writes a map with its keys sorted, so that equal messages give equal
// lines.
func (r *renderer) entries(field protoreflect.FieldDescriptor, entries protoreflect.Map, depth int) {
	keys := make([]protoreflect.MapKey, 0, entries.Len())
	entries.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int {
		return strings.Compare(a.String(), b.String())
	})
	r.raw("{")
	defer r.raw("}")
	for _, key := range keys {
		if !r.key(key.String()) {
			return
		}
		if hidesContents(field) || isSecret(field.MapValue()) {
			r.text(Marker)
			continue
		}
		r.single(field.MapValue(), entries.Get(key), depth)
	}
}

func (r *renderer) elements(field protoreflect.FieldDescriptor, list protoreflect.List, depth int) {
	r.raw("[")
	defer r.raw("]")
	for i := range list.Len() {
		r.comma()
		if r.full() {
			r.text(truncationMark)
			return
		}
		r.single(field, list.Get(i), depth)
	}
}

func (r *renderer) single(field protoreflect.FieldDescriptor, value protoreflect.Value, depth int) {
	switch kind := field.Kind(); {
	case hidesContents(field):
		r.text(Marker)
	case kind == protoreflect.MessageKind, kind == protoreflect.GroupKind:
		r.message(value.Message(), depth+1)
	case kind == protoreflect.BytesKind:
		r.size(len(value.Bytes()))
	case kind == protoreflect.StringKind && r.freeForm > 0:
		r.size(len(value.String()))
	case r.freeForm > 0:
		r.text("[" + kind.String() + "]")
	case kind == protoreflect.StringKind:
		r.text(value.String())
	case kind == protoreflect.EnumKind:
		r.enum(field.Enum(), value.Enum())
	case kind == protoreflect.FloatKind, kind == protoreflect.DoubleKind:
		r.float(value.Float())
	default:
		// What is left is bool and the integers, whose text is JSON.
		r.raw(value.String())
	}
}

func (r *renderer) enum(enum protoreflect.EnumDescriptor, number protoreflect.EnumNumber) {
	if value := enum.Values().ByNumber(number); value != nil {
		r.text(string(value.Name()))
		return
	}
	r.raw(strconv.Itoa(int(number)))
}

func (r *renderer) float(f float64) {
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		r.text(text)
		return
	}
	r.raw(text)
}

// key begins an object member and reports whether its value may follow; when the
// limit is reached it writes the truncation mark instead.
func (r *renderer) key(name string) bool {
	r.comma()
	if r.full() {
		r.text(truncationMark)
		r.raw(":true")
		return false
	}
	r.quote(name, maxKey)
	r.raw(":")
	return true
}

// comma separates from the previous member, if there is one.
func (r *renderer) comma() {
	switch r.out[len(r.out)-1] {
	case '{', '[':
	default:
		r.raw(",")
	}
}

func (r *renderer) size(n int) { r.text(fmt.Sprintf("[%d bytes]", n)) }

func (r *renderer) text(s string) { r.quote(s, maxString) }

// quote writes s as a JSON string, cut to limit bytes at a character boundary.
func (r *renderer) quote(s string, limit int) {
	if rest := len(s) - limit; rest > 0 {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit] + "...[+" + strconv.Itoa(len(s)-limit) + " bytes]"
	}
	// A string always encodes; invalid UTF-8 becomes the replacement character.
	quoted, _ := json.Marshal(s)
	r.out = append(r.out, quoted...)
}

func (r *renderer) raw(s string) { r.out = append(r.out, s...) }
