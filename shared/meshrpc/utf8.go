package meshrpc

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// deepest is how many messages deep a string is looked for. The contract's messages are
// far from it, but for driver_config, which may hold anything.
const deepest = 100

// notUTF8 finds the first string in an encoded message that is not UTF-8, and its path in
// the message, such as "sandbox.spec.sidecars[2].name". protobuf-go says that there is one
// and not which. An entry of a map has the map's path: its key is the caller's.
func notUTF8(in protoreflect.MessageDescriptor, encoded []byte, depth int) (path string, found bool) {
	items := map[protowire.Number]int{}
	for depth < deepest && len(encoded) > 0 {
		number, kind, n := protowire.ConsumeTag(encoded)
		if n < 0 {
			return "", false
		}
		encoded = encoded[n:]
		length := protowire.ConsumeFieldValue(number, kind, encoded)
		if length < 0 {
			return "", false
		}
		field := in.Fields().ByNumber(number)
		if field != nil && kind == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(encoded)
			if rest, found := notUTF8In(field, content, depth); found {
				return strings.TrimSuffix(named(field, items[number])+"."+rest, "."), true
			}
			items[number]++
		}
		encoded = encoded[length:]
	}
	return "", false
}

// notUTF8In is notUTF8 for one value of a field, with the path below the field.
func notUTF8In(field protoreflect.FieldDescriptor, content []byte, depth int) (rest string, found bool) {
	switch {
	case field.Kind() == protoreflect.StringKind:
		return "", !utf8.Valid(content)
	case field.Message() == nil:
		return "", false
	}
	rest, found = notUTF8(field.Message(), content, depth+1)
	if field.IsMap() { // its "key" and "value" are no names of the request's
		_, rest, _ = strings.Cut(rest, ".")
	}
	return rest, found
}

func named(field protoreflect.FieldDescriptor, item int) string {
	if field.IsList() {
		return fmt.Sprintf("%s[%d]", field.Name(), item)
	}
	return string(field.Name())
}
