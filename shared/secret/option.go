package secret

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	optionsv1 "github.com/portcullis-mesh/portcullis/proto/openshell/options/v1"
)

// isSecret reports whether the whole value of the field must not be shown: the
// field has openshell.options.v1.secret (contract 1.7) or protobuf's own
// debug_redact. A field whose options cannot be read counts as secret.
func isSecret(field protoreflect.FieldDescriptor) bool {
	options, ok := field.Options().(*descriptorpb.FieldOptions)
	if !ok {
		return true
	}
	if options.GetDebugRedact() || proto.GetExtension(options, optionsv1.E_Secret).(bool) {
		return true
	}
	return hasUnknownSecret(options.ProtoReflect().GetUnknown())
}

// hasUnknownSecret finds the option in descriptors that were decoded before its
// type was known, as those received from a peer or read from a file may be.
func hasUnknownSecret(unknown protoreflect.RawFields) bool {
	want := optionsv1.E_Secret.TypeDescriptor().Number()
	for len(unknown) > 0 {
		number, kind, n := protowire.ConsumeTag(unknown)
		if n < 0 {
			return true
		}
		unknown = unknown[n:]
		if number == want {
			value, n := protowire.ConsumeVarint(unknown)
			if kind != protowire.VarintType || n < 0 || value != 0 {
				return true
			}
		}
		n = protowire.ConsumeFieldValue(number, kind, unknown)
		if n < 0 {
			return true
		}
		unknown = unknown[n:]
	}
	return false
}

// hidesContents reports whether a field may be shown but not what it holds: of a map the
// keys and no value, of a list how many elements there are. The contract marks neither
// the environment of a sandbox nor its command as secret (contract 1.3), yet values and
// arguments are where people put credentials.
func hidesContents(field protoreflect.FieldDescriptor) bool {
	switch field.Name() {
	case "environment":
		return field.IsMap()
	case "command", "args":
		return field.Kind() == protoreflect.StringKind
	}
	return false
}

// isFreeForm reports whether messages of this type hold whatever their maker likes, so
// that no option can mark what is secret in them: the configuration blocks of the
// contract are such (contract 11.3, 11.4), and an environment is one of the things they
// hold. The name decides, not the Go type, so that it holds for dynamic messages too.
func isFreeForm(message protoreflect.MessageDescriptor) bool {
	switch message.FullName() {
	case "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue":
		return true
	}
	return false
}
