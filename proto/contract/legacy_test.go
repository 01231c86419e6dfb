package contract

import (
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

const (
	olderConditionTime = "2026-08-21T10:30:15Z"
	olderEventTime     = int64(1787308215250)
)

// askRequirements calls the removed method, for which there is no generated client.
func askRequirements(t *testing.T, cc grpc.ClientConnInterface, p Prefix, answer proto.Message) error {
	t.Helper()
	return cc.Invoke(deadline(t), "/"+string(p)+".compute.v1.ComputeDriver/GetGatewayListenerRequirements",
		&computev1.GetGatewayListenerRequirementsRequest{}, answer)
}

func TestStrictDriverDoesNotHaveTheRemovedMethod(t *testing.T) {
	cc := serve(t, &driver{}, nil, WithPrefixes(OpenShell, Ryno))
	for _, p := range Prefixes() {
		err := askRequirements(t, cc, p, new(computev1.GetGatewayListenerRequirementsResponse))
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v, want Unimplemented", p, err)
		}
	}
}

func TestLegacyDriverAnswersTheRemovedMethod(t *testing.T) {
	loopback := &computev1.GatewayListenerRequirement{
		Reason:   "test",
		Selector: &computev1.GatewayListenerRequirement_LoopbackInterface{LoopbackInterface: &computev1.GatewayLoopbackInterfaceRequirement{}},
	}
	cases := []struct {
		name string
		opt  Option
		want []*computev1.GatewayListenerRequirement
	}{
		{"none", WithLegacyGateways(), nil},
		{"one", WithLegacyGateways(loopback), []*computev1.GatewayListenerRequirement{loopback}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cc := serve(t, &driver{}, nil, WithPrefixes(OpenShell, Ryno), c.opt)
			for _, p := range Prefixes() {
				got := new(computev1.GetGatewayListenerRequirementsResponse)
				if err := askRequirements(t, cc, p, got); err != nil {
					t.Fatalf("%s: %v", p, err)
				}
				if want := (&computev1.GetGatewayListenerRequirementsResponse{Requirements: c.want}); !proto.Equal(got, want) {
					t.Errorf("%s: %v, want %v", p, got, want)
				}
			}
		})
	}
}

// An older gateway on a real connection: its own message types decode what the driver sends.
func TestOlderGatewaySeesTimes(t *testing.T) {
	older := loadOlderPeer(t)
	for _, c := range []struct {
		name          string
		opts          []Option
		conditionTime string
		eventTime     int64
	}{
		{"strict", nil, "", 0},
		{"legacy", []Option{WithLegacyGateways()}, olderConditionTime, olderEventTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			cc := serve(t, &driver{last: ready("s1")}, nil, c.opts...)

			got := older.message(t, "GetSandboxResponse", "")
			if err := cc.Invoke(deadline(t), OpenShell.FullMethod("GetSandbox"), &computev1.GetSandboxRequest{SandboxId: "s1"}, got); err != nil {
				t.Fatal(err)
			}
			wantConditionTime(t, get(got, "sandbox"), c.conditionTime)

			list := older.message(t, "ListSandboxesResponse", "")
			if err := cc.Invoke(deadline(t), OpenShell.FullMethod("ListSandboxes"), &computev1.ListSandboxesRequest{}, list); err != nil {
				t.Fatal(err)
			}
			wantConditionTime(t, get(list, "sandboxes"), c.conditionTime)

			snapshot, event := olderWatch(t, cc, older)
			wantConditionTime(t, get(snapshot, "sandbox", "sandbox"), c.conditionTime)
			if ms := get(event, "platform_event", "event", "timestamp_ms").Int(); ms != c.eventTime {
				t.Errorf("event time = %d, want %d", ms, c.eventTime)
			}
		})
	}
}

func wantConditionTime(t *testing.T, sandbox protoreflect.Value, want string) {
	t.Helper()
	if got := get(sandbox.Message(), "status", "conditions", "last_transition_time").String(); got != want {
		t.Errorf("condition time = %q, want %q", got, want)
	}
	if got := get(sandbox.Message(), "status", "sandbox_name").String(); got != "box" {
		t.Errorf("sandbox_name = %q", got)
	}
}

// olderWatch returns the snapshot and the platform event of a watch.
func olderWatch(t *testing.T, cc grpc.ClientConnInterface, older olderPeer) (snapshot, event protoreflect.Message) {
	t.Helper()
	desc := &grpc.StreamDesc{StreamName: "WatchSandboxes", ServerStreams: true}
	stream, err := cc.NewStream(deadline(t), desc, OpenShell.FullMethod("WatchSandboxes"))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(&computev1.WatchSandboxesRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var events []protoreflect.Message
	for {
		m := older.message(t, "WatchSandboxesEvent", "")
		if err := stream.RecvMsg(m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		events = append(events, m)
	}
	if len(events) != 3 {
		t.Fatalf("received %d events, want 3", len(events))
	}
	return events[0], events[1]
}

func TestErrorsPassThroughALegacyDriver(t *testing.T) {
	cc := serve(t, &driver{}, nil, WithLegacyGateways())
	_, err := under(t, cc, OpenShell).GetSandbox(deadline(t), &computev1.GetSandboxRequest{SandboxId: "s1"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("error = %v, want NotFound", err)
	}
}

func TestWithLegacyTimes(t *testing.T) {
	older := loadOlderPeer(t)
	t.Run("condition", func(t *testing.T) {
		for name, c := range map[string]struct {
			time *timestamppb.Timestamp
			want string
		}{
			"present":      {timestamppb.New(instant), olderConditionTime},
			"the epoch":    {&timestamppb.Timestamp{}, "1970-01-01T00:00:00Z"},
			"absent":       {nil, ""},
			"out of range": {&timestamppb.Timestamp{Seconds: 1 << 60}, ""},
		} {
			sent := WithLegacyTimes(&computev1.DriverCondition{Type: "Ready", TransitionTime: c.time})
			if got := get(older.receive(t, sent), "last_transition_time").String(); got != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	})
	t.Run("event", func(t *testing.T) {
		for name, c := range map[string]struct {
			time *timestamppb.Timestamp
			want int64
		}{
			"present":      {timestamppb.New(instant), olderEventTime},
			"before 1970":  {timestamppb.New(time.UnixMilli(-1500)), -1500},
			"absent":       {nil, 0},
			"out of range": {&timestamppb.Timestamp{Nanos: -1}, 0},
		} {
			sent := WithLegacyTimes(&computev1.DriverPlatformEvent{Source: "kubelet", EventTime: c.time})
			if got := get(older.receive(t, sent), "timestamp_ms").Int(); got != c.want {
				t.Errorf("%s: %d, want %d", name, got, c.want)
			}
		}
	})
}

func TestWithLegacyTimesLeavesTheRestAlone(t *testing.T) {
	for _, event := range watched() {
		before := proto.CloneOf(event)
		once := WithLegacyTimes(event)
		if !proto.Equal(event, before) {
			t.Errorf("the argument was changed: %v", event)
		}
		if twice := WithLegacyTimes(once); !proto.Equal(once, twice) {
			t.Errorf("twice is not once:\n%v\n%v", once, twice)
		}
		// A newer gateway reads the same message, but for the reserved numbers.
		newer := new(computev1.WatchSandboxesEvent)
		if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(encode(t, once), newer); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(newer, before) {
			t.Errorf("a newer gateway reads %v, want %v", newer, before)
		}
	}
	if got := WithLegacyTimes[*computev1.DriverSandbox](nil); got != nil {
		t.Errorf("nil became %v", got)
	}
}

func TestWithLegacyTimesKeepsUnknownFields(t *testing.T) {
	later := protowire.AppendString(protowire.AppendTag(nil, 900, protowire.BytesType), "later")
	stale := protowire.AppendString(protowire.AppendTag(nil, lastTransitionTime, protowire.BytesType), "2001-01-01T00:00:00Z")
	condition := &computev1.DriverCondition{TransitionTime: timestamppb.New(instant)}
	condition.ProtoReflect().SetUnknown(append(stale, later...))
	want := append([]byte(nil), later...)
	want = protowire.AppendString(protowire.AppendTag(want, lastTransitionTime, protowire.BytesType), olderConditionTime)
	if got := WithLegacyTimes(condition).ProtoReflect().GetUnknown(); string(got) != string(want) {
		t.Errorf("unknown fields = %q, want %q", got, want)
	}
}
