package contract

import (
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	optionsv1 "github.com/portcullis-mesh/portcullis/proto/openshell/options/v1"
)

const contractTable = "testdata/contract.txt"

func TestContractIsTheTranscribedOne(t *testing.T) {
	want := table(t, contractTable)
	if doubled := len(want) - len(slices.Compact(slices.Clone(want))); doubled != 0 {
		t.Errorf("the table has %d lines twice", doubled)
	}
	if found := difference(want, describe(compiled(t, "openshell"))); len(found) > 0 {
		t.Errorf("the generated code is not the contract (- only in %s, + only in the code):\n%s",
			contractTable, strings.Join(found, "\n"))
	}
}

// TestGoldenBites changes one thing at a time in a copy of the descriptors and wants the comparison to
// name it.
func TestGoldenBites(t *testing.T) {
	const compute, sandbox = "openshell/compute/v1/compute_driver.proto", "openshell/compute/v1/driver_sandbox.proto"
	cases := []struct {
		name string
		file string
		edit func(*descriptorpb.FileDescriptorProto)
		want []string
	}{
		{
			"field renamed", sandbox,
			func(f *descriptorpb.FileDescriptorProto) {
				fieldOf(f, "DriverSandbox", "workspace").Name = proto.String("area")
			},
			[]string{
				"- message openshell.compute.v1.DriverSandbox: 6 workspace string",
				"+ message openshell.compute.v1.DriverSandbox: 6 area string",
			},
		},
		{
			"field renumbered", compute,
			func(f *descriptorpb.FileDescriptorProto) {
				fieldOf(f, "StartSandboxRequest", "generation_id").Number = proto.Int32(6)
			},
			[]string{
				"- message openshell.compute.v1.StartSandboxRequest: 4 generation_id string",
				"+ message openshell.compute.v1.StartSandboxRequest: 6 generation_id string",
			},
		},
		{
			"type changed", sandbox,
			func(f *descriptorpb.FileDescriptorProto) {
				fieldOf(f, "ResolvedWorkloadIdentity", "uid").Type = descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum()
			},
			[]string{
				"- message openshell.compute.v1.ResolvedWorkloadIdentity: 1 uid uint32",
				"+ message openshell.compute.v1.ResolvedWorkloadIdentity: 1 uid int32",
			},
		},
		{
			"label changed", sandbox,
			func(f *descriptorpb.FileDescriptorProto) {
				fieldOf(f, "DriverSandboxSpec", "command").Label = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
			},
			[]string{
				"- message openshell.compute.v1.DriverSandboxSpec: 12 command repeated string",
				"+ message openshell.compute.v1.DriverSandboxSpec: 12 command string",
			},
		},
		{
			"presence lost", sandbox,
			func(f *descriptorpb.FileDescriptorProto) {
				count := fieldOf(f, "GpuResourceRequirements", "count")
				count.Proto3Optional, count.OneofIndex = nil, nil
				messageOf(f, "GpuResourceRequirements").OneofDecl = nil
			},
			[]string{
				"- message openshell.compute.v1.GpuResourceRequirements: 1 count optional uint32",
				"+ message openshell.compute.v1.GpuResourceRequirements: 1 count uint32",
			},
		},
		{
			"secret mark lost", compute,
			func(f *descriptorpb.FileDescriptorProto) {
				proto.ClearExtension(fieldOf(f, "AuthenticateSandboxRequest", "credential").GetOptions(), optionsv1.E_Secret)
			},
			[]string{
				"- message openshell.compute.v1.AuthenticateSandboxRequest: 1 credential string secret",
				"+ message openshell.compute.v1.AuthenticateSandboxRequest: 1 credential string",
			},
		},
		{
			"oneof renamed", compute,
			func(f *descriptorpb.FileDescriptorProto) {
				messageOf(f, "WatchSandboxesEvent").OneofDecl[0].Name = proto.String("item")
			},
			[]string{"+ message openshell.compute.v1.WatchSandboxesEvent: 2 deleted WatchSandboxesDeletedEvent oneof=item"},
		},
		{
			"reserved number freed", sandbox,
			func(f *descriptorpb.FileDescriptorProto) { messageOf(f, "DriverCondition").ReservedRange = nil },
			[]string{"- message openshell.compute.v1.DriverCondition: reserved 5"},
		},
		{
			"reserved name freed", sandbox,
			func(f *descriptorpb.FileDescriptorProto) { messageOf(f, "DriverCondition").ReservedName = nil },
			[]string{"- message openshell.compute.v1.DriverCondition: reserved last_transition_time"},
		},
		{
			"field added", compute,
			func(f *descriptorpb.FileDescriptorProto) {
				m := messageOf(f, "GetSandboxRequest")
				extra := proto.CloneOf(m.GetField()[0])
				extra.Name, extra.JsonName, extra.Number = proto.String("extra"), nil, proto.Int32(3)
				m.Field = append(m.Field, extra)
			},
			[]string{"+ message openshell.compute.v1.GetSandboxRequest: 3 extra string"},
		},
		{
			"empty message added", compute,
			func(f *descriptorpb.FileDescriptorProto) {
				f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{Name: proto.String("Extra")})
			},
			[]string{"+ message openshell.compute.v1.Extra"},
		},
		{
			"method removed", compute,
			func(f *descriptorpb.FileDescriptorProto) { f.Service[0].Method = f.Service[0].Method[1:] },
			[]string{"- service openshell.compute.v1.ComputeDriver: rpc GetCapabilities GetCapabilitiesRequest GetCapabilitiesResponse"},
		},
		{
			"stream became unary", compute,
			func(f *descriptorpb.FileDescriptorProto) {
				for _, m := range f.GetService()[0].GetMethod() {
					m.ServerStreaming = nil
				}
			},
			[]string{
				"- service openshell.compute.v1.ComputeDriver: rpc WatchSandboxes WatchSandboxesRequest WatchSandboxesEvent stream",
				"+ service openshell.compute.v1.ComputeDriver: rpc WatchSandboxes WatchSandboxesRequest WatchSandboxesEvent",
			},
		},
		{
			"enum value renumbered", "openshell/sandbox/v1/sandbox.proto",
			func(f *descriptorpb.FileDescriptorProto) { f.EnumType[0].Value[1].Number = proto.Int32(9) },
			[]string{
				"- enum openshell.sandbox.v1.NetworkTlsMode: 1 NETWORK_TLS_MODE_SKIP",
				"+ enum openshell.sandbox.v1.NetworkTlsMode: 9 NETWORK_TLS_MODE_SKIP",
			},
		},
		{
			"extension renumbered", "openshell/options/v1/options.proto",
			func(f *descriptorpb.FileDescriptorProto) { f.Extension[1].Number = proto.Int32(50002) },
			[]string{
				"- openshell.options.v1 extend google.protobuf.FieldOptions: 50001 secret bool",
				"+ openshell.options.v1 extend google.protobuf.FieldOptions: 50002 secret bool",
			},
		},
	}
	want := table(t, contractTable)
	if found := difference(want, describe(edited(t, "", nil))); len(found) > 0 {
		t.Fatalf("the unedited copy differs:\n%s", strings.Join(found, "\n"))
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			found := difference(want, describe(edited(t, c.file, c.edit)))
			for _, line := range c.want {
				if !slices.Contains(found, line) {
					t.Errorf("the comparison does not say %q; it says:\n%s", line, strings.Join(found, "\n"))
				}
			}
		})
	}
}

// TestGoldenBitesOnTheTable takes every single line out of the table in turn.
func TestGoldenBitesOnTheTable(t *testing.T) {
	want, got := table(t, contractTable), describe(compiled(t, "openshell"))
	for i, line := range want {
		short := slices.Delete(slices.Clone(want), i, i+1)
		if found := difference(short, got); !slices.Equal(found, []string{"+ " + line}) {
			t.Errorf("without %q the comparison says %q", line, found)
		}
	}
}

// TestImageCoversTheCode keeps testdata/contract.binpb, which buf compares with, from falling behind:
// an item that is not in the image could be changed without anyone noticing. An item that is only in
// the image is buf's to report.
func TestImageCoversTheCode(t *testing.T) {
	raw, err := os.ReadFile("../testdata/contract.binpb")
	if err != nil {
		t.Fatal(err)
	}
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(raw, set); err != nil {
		t.Fatalf("testdata/contract.binpb is not a descriptor set: %v", err)
	}
	image, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatalf("testdata/contract.binpb: %v", err)
	}
	for _, prefix := range []string{"openshell", "portcullis"} {
		inImage := describe(below(t, image, prefix))
		for _, line := range describe(compiled(t, prefix)) {
			if _, ok := slices.BinarySearch(inImage, line); !ok {
				t.Errorf("not in testdata/contract.binpb: %s (proto/README.md says how to refresh it)", line)
			}
		}
	}
}

// TestSecretsOfTheMeshAreMarked holds what the redaction of log lines rests on.
func TestSecretsOfTheMeshAreMarked(t *testing.T) {
	want := []string{
		"message portcullis.supervisor.v1.ProvisionRequest: 3 launch_authentication bytes secret",
		"message portcullis.supervisor.v1.RestartRequest: 3 launch_authentication bytes secret",
		"message portcullis.tokenauth.v1.AuthenticateRequest: 1 credential string secret",
	}
	got := slices.DeleteFunc(describe(compiled(t, "portcullis")), func(line string) bool {
		return !strings.HasSuffix(line, " secret") && !strings.Contains(line, " bytes")
	})
	if found := difference(want, got); len(found) > 0 {
		t.Errorf("secret or opaque fields:\n%s", strings.Join(found, "\n"))
	}
}

// edited returns the openshell files of the generated code after edit changed one of them.
func edited(t *testing.T, path string, edit func(*descriptorpb.FileDescriptorProto)) []protoreflect.FileDescriptor {
	t.Helper()
	set := new(descriptorpb.FileDescriptorSet)
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		p := protodesc.ToFileDescriptorProto(f)
		if f.Path() == path {
			edit(p)
			path = ""
		}
		set.File = append(set.File, p)
		return true
	})
	if path != "" {
		t.Fatalf("there is no file %s", path)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatalf("the edited files do not build: %v", err)
	}
	return below(t, files, "openshell")
}

func messageOf(f *descriptorpb.FileDescriptorProto, name string) *descriptorpb.DescriptorProto {
	for _, m := range f.GetMessageType() {
		if m.GetName() == name {
			return m
		}
	}
	panic("no message " + name)
}

func fieldOf(f *descriptorpb.FileDescriptorProto, message, name string) *descriptorpb.FieldDescriptorProto {
	for _, field := range messageOf(f, message).GetField() {
		if field.GetName() == name {
			return field
		}
	}
	panic("no field " + name)
}
