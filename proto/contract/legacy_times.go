package contract

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// The removed time fields (contract 1.3).
const (
	lastTransitionTime protowire.Number = 5 // DriverCondition, string
	timestampMS        protowire.Number = 1 // DriverPlatformEvent, int64
)

// WithLegacyTimes returns a copy of m in which every DriverCondition and DriverPlatformEvent, however
// deep, carries its time in the removed encoding as well: a condition as RFC 3339 text in UTC with
// whole seconds, the way Kubernetes writes it, an event in milliseconds since 1970. Newer gateways
// skip the reserved numbers; older ones would otherwise see no time at all (contract 1.6). A message
// without a valid time is copied as it is. Applying it twice gives the same as once.
func WithLegacyTimes[M proto.Message](m M) M {
	if !m.ProtoReflect().IsValid() {
		return m
	}
	c := proto.CloneOf(m)
	addLegacyTimes(c.ProtoReflect())
	return c
}

func addLegacyTimes(m protoreflect.Message) {
	switch v := m.Interface().(type) {
	case *computev1.DriverCondition:
		if t := v.GetTransitionTime(); t.CheckValid() == nil {
			old := protowire.AppendTag(nil, lastTransitionTime, protowire.BytesType)
			old = protowire.AppendString(old, t.AsTime().Format(time.RFC3339))
			setUnknown(m, lastTransitionTime, old)
		}
	case *computev1.DriverPlatformEvent:
		if t := v.GetEventTime(); t.CheckValid() == nil {
			old := protowire.AppendTag(nil, timestampMS, protowire.VarintType)
			old = protowire.AppendVarint(old, uint64(t.AsTime().UnixMilli()))
			setUnknown(m, timestampMS, old)
		}
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil || field.IsMap():
			// No map of the contract holds a time.
		case field.IsList():
			for i := range value.List().Len() {
				addLegacyTimes(value.List().Get(i).Message())
			}
		default:
			addLegacyTimes(value.Message())
		}
		return true
	})
}

// setUnknown replaces what m has under a number that its type does not know.
func setUnknown(m protoreflect.Message, number protowire.Number, encoded []byte) {
	var kept []byte
	for rest := []byte(m.GetUnknown()); len(rest) > 0; {
		n, _, size := protowire.ConsumeField(rest)
		if size < 0 {
			// Unreachable for what was decoded; the bytes are not ours to drop.
			kept = append(kept, rest...)
			break
		}
		if n != number {
			kept = append(kept, rest[:size]...)
		}
		rest = rest[size:]
	}
	m.SetUnknown(append(kept, encoded...))
}
