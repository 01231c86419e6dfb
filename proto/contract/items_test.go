package contract

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	optionsv1 "github.com/portcullis-mesh/portcullis/proto/openshell/options/v1"

	_ "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	_ "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	_ "github.com/portcullis-mesh/portcullis/proto/portcullis/verdict/v1"
)

// compiled returns the files of the generated code whose package starts with prefix.
func compiled(t *testing.T, prefix string) []protoreflect.FileDescriptor {
	t.Helper()
	return below(t, protoregistry.GlobalFiles, prefix)
}

func below(t *testing.T, files *protoregistry.Files, prefix string) []protoreflect.FileDescriptor {
	t.Helper()
	var found []protoreflect.FileDescriptor
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(string(f.Package()), prefix+".") {
			found = append(found, f)
		}
		return true
	})
	if len(found) == 0 {
		t.Fatalf("found no file of package %s", prefix)
	}
	return found
}

// describe returns one line for every item of the files, sorted: what a table in testdata says, with
// the full name of the item in front.
func describe(files []protoreflect.FileDescriptor) []string {
	var w walk
	for _, f := range files {
		w.messages(f.Messages())
		w.enums(f.Enums())
		w.services(f.Services())
		for i := range f.Extensions().Len() {
			x := f.Extensions().Get(i)
			w.add(string(f.Package())+" extend "+string(x.ContainingMessage().FullName()), "%s", field(x))
		}
	}
	slices.Sort(w.lines)
	return w.lines
}

type walk struct{ lines []string }

func (w *walk) add(owner, format string, args ...any) {
	w.lines = append(w.lines, owner+": "+fmt.Sprintf(format, args...))
}

func (w *walk) messages(all protoreflect.MessageDescriptors) {
	for i := range all.Len() {
		m := all.Get(i)
		if m.IsMapEntry() {
			continue
		}
		owner := "message " + string(m.FullName())
		w.lines = append(w.lines, owner)
		for j := range m.Fields().Len() {
			w.add(owner, "%s", field(m.Fields().Get(j)))
		}
		for j := range m.ReservedRanges().Len() {
			for r := m.ReservedRanges().Get(j); r[0] < r[1]; r[0]++ {
				w.add(owner, "reserved %d", r[0])
			}
		}
		for j := range m.ReservedNames().Len() {
			w.add(owner, "reserved %s", m.ReservedNames().Get(j))
		}
		for j := range m.ExtensionRanges().Len() {
			w.add(owner, "extensions %v", m.ExtensionRanges().Get(j))
		}
		w.messages(m.Messages())
		w.enums(m.Enums())
	}
}

func (w *walk) enums(all protoreflect.EnumDescriptors) {
	for i := range all.Len() {
		e := all.Get(i)
		owner := "enum " + string(e.FullName())
		w.lines = append(w.lines, owner)
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			line := fmt.Sprintf("%d %s", v.Number(), v.Name())
			if v.Options().(*descriptorpb.EnumValueOptions).GetDeprecated() {
				line += " deprecated"
			}
			w.add(owner, "%s", line)
		}
	}
}

func (w *walk) services(all protoreflect.ServiceDescriptors) {
	for i := range all.Len() {
		s := all.Get(i)
		owner := "service " + string(s.FullName())
		w.lines = append(w.lines, owner)
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			line := fmt.Sprintf("rpc %s %s %s", m.Name(), relative(s, m.Input()), relative(s, m.Output()))
			if m.IsStreamingClient() {
				line += " clientstream"
			}
			if m.IsStreamingServer() {
				line += " stream"
			}
			w.add(owner, "%s", line)
		}
	}
}

// field is "NUMBER NAME TYPE [oneof=O] [secret]".
func field(f protoreflect.FieldDescriptor) string {
	line := fmt.Sprintf("%d %s ", f.Number(), f.Name())
	switch {
	case f.IsMap():
		line += fmt.Sprintf("map<%s,%s>", kind(f.MapKey()), kind(f.MapValue()))
	case f.IsList():
		line += "repeated " + kind(f)
	case f.HasOptionalKeyword():
		line += "optional " + kind(f)
	default:
		line += kind(f)
	}
	if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
		line += " oneof=" + string(o.Name())
	}
	if proto.GetExtension(f.Options(), optionsv1.E_Secret).(bool) {
		line += " secret"
	}
	return line
}

func kind(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return relative(f, f.Message())
	case f.Enum() != nil:
		return relative(f, f.Enum())
	default:
		return f.Kind().String()
	}
}

// relative is the name of a type as seen from another item: short in the same package.
func relative(from, to protoreflect.Descriptor) string {
	pkg := string(from.ParentFile().Package()) + "."
	return strings.TrimPrefix(string(to.FullName()), pkg)
}

// table reads a file of testdata into the form of describe.
func table(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var lines []string
	var pkg, owner string
	for scan, n := bufio.NewScanner(f), 1; scan.Scan(); n++ {
		text, _, _ := strings.Cut(scan.Text(), "#")
		words := slices.DeleteFunc(strings.Fields(text), func(w string) bool { return w == "(inferred)" })
		switch {
		case len(words) == 0:
		case strings.HasPrefix(text, " ") && owner != "":
			lines = append(lines, owner+": "+strings.Join(words, " "))
		case len(words) != 2 || strings.HasPrefix(text, " "):
			t.Fatalf("%s:%d: cannot read %q", path, n, scan.Text())
		case words[0] == "package":
			pkg, owner = words[1], ""
		case words[0] == "extend":
			owner = pkg + " extend " + words[1]
		case words[0] == "message", words[0] == "enum", words[0] == "service":
			owner = words[0] + " " + pkg + "." + words[1]
			lines = append(lines, owner)
		default:
			t.Fatalf("%s:%d: cannot read %q", path, n, scan.Text())
		}
	}
	slices.Sort(lines)
	return lines
}

// difference returns the lines that only one side has: "-" is wanted and absent, "+" is extra.
func difference(want, got []string) []string {
	var found []string
	for _, line := range want {
		if _, ok := slices.BinarySearch(got, line); !ok {
			found = append(found, "- "+line)
		}
	}
	for _, line := range got {
		if _, ok := slices.BinarySearch(want, line); !ok {
			found = append(found, "+ "+line)
		}
	}
	return found
}
