package request

import (
	"maps"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"
)

// Limits of a structure. Contract 11.4 needs a depth of six.
const (
	maxDepth  = 8
	maxValues = 4096
	maxText   = 64 << 10
)

// fields are the members of an object.
type fields map[string]*structpb.Value

// measured reports whether a structure may be read. It walks no deeper than the limit, and ends at the first one passed.
func (c *reading) measured(path string, s *structpb.Struct) bool {
	m := measure{}
	for _, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		m.text(name)
		m.walk(s.GetFields()[name], 2)
	}
	if m.problem != "" {
		c.invalid(path, "%s", m.problem)
		return false
	}
	return true
}

type measure struct {
	values, bytes int
	problem       string
}

func (m *measure) text(s string) {
	if m.bytes += len(s); m.bytes > maxText {
		m.problem = "has more text than the 64 KiB allowed"
	}
	if !utf8.ValidString(s) {
		m.problem = "holds text that is not UTF-8"
	}
}

func (m *measure) walk(v *structpb.Value, depth int) {
	m.values++
	switch {
	case m.problem != "":
		return
	case depth > maxDepth:
		m.problem = "is nested deeper than the 8 levels allowed"
		return
	case m.values > maxValues:
		m.problem = "has more values than the 4096 allowed"
		return
	}
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		m.text(kind.StringValue)
	case *structpb.Value_StructValue:
		for name, member := range kind.StructValue.GetFields() {
			m.text(name)
			m.walk(member, depth+1)
			if m.problem != "" {
				return
			}
		}
	case *structpb.Value_ListValue:
		for _, element := range kind.ListValue.GetValues() {
			m.walk(element, depth+1)
			if m.problem != "" {
				return
			}
		}
	}
}

// Each of the readers below takes an absent value for absent, and tells what is there instead of what must be. No value is shown.

func (c *reading) object(path string, v *structpb.Value) fields {
	if v == nil {
		return nil
	}
	s, ok := v.GetKind().(*structpb.Value_StructValue)
	if !ok {
		c.invalid(path, "must be an object and is %s", kindOf(v))
		return nil
	}
	return s.StructValue.GetFields()
}

func (c *reading) list(path string, v *structpb.Value, most int) []*structpb.Value {
	if v == nil {
		return nil
	}
	l, ok := v.GetKind().(*structpb.Value_ListValue)
	if !ok {
		c.invalid(path, "must be a list and is %s", kindOf(v))
		return nil
	}
	if n := len(l.ListValue.GetValues()); n > most {
		c.invalid(path, "has %d elements, and at most %d are allowed", n, most)
		return nil
	}
	return l.ListValue.GetValues()
}

// text takes null for absent, as the stock driver does with what may be left out.
func (c *reading) text(path string, v *structpb.Value) string {
	if v == nil || isNull(v) {
		return ""
	}
	s, ok := v.GetKind().(*structpb.Value_StringValue)
	if !ok {
		c.invalid(path, "must be a string and is %s", kindOf(v))
		return ""
	}
	return s.StringValue
}

func (c *reading) flag(path string, v *structpb.Value, otherwise bool) bool {
	if v == nil {
		return otherwise
	}
	b, ok := v.GetKind().(*structpb.Value_BoolValue)
	if !ok {
		c.invalid(path, "must be true or false and is %s", kindOf(v))
		return otherwise
	}
	return b.BoolValue
}

func (c *reading) texts(path string, v *structpb.Value) map[string]string {
	members := c.object(path, v)
	out := make(map[string]string, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		s, ok := members[name].GetKind().(*structpb.Value_StringValue)
		if !ok {
			c.invalid(at(path, name), "must be a string and is %s", kindOf(members[name]))
			continue
		}
		out[name] = s.StringValue
	}
	return out
}

// known refuses every member that the schema does not have.
func (c *reading) known(path string, members fields, names ...string) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(names, name) {
			c.invalid(at(path, name), "is not known; known are %q", names)
		}
	}
}

func isNull(v *structpb.Value) bool {
	_, null := v.GetKind().(*structpb.Value_NullValue)
	return null || v.GetKind() == nil
}

func kindOf(v *structpb.Value) string {
	switch v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return "a number"
	case *structpb.Value_StringValue:
		return "a string"
	case *structpb.Value_BoolValue:
		return "true or false"
	case *structpb.Value_StructValue:
		return "an object"
	case *structpb.Value_ListValue:
		return "a list"
	default:
		return "null"
	}
}
