package progress

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

var epoch = time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)

// event is the valid base.
func event() *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "team", Name: "box.17", UID: "event-uid"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "team", Name: "box", UID: "pod-uid"},
		Type:           "Normal", Reason: "Pulled", Message: `Successfully pulled image "i" in 2s. Image size: 5242880 bytes.`, Count: 2,
		FirstTimestamp: metav1.NewTime(epoch), LastTimestamp: metav1.NewTime(epoch.Add(time.Minute)),
	}
}

func read(t *testing.T, e *corev1.Event) *Event {
	t.Helper()
	got, err := Read(e)
	if err != nil {
		t.Fatal(err)
	}
	return &got
}

func TestRender(t *testing.T) {
	want := &computev1.DriverPlatformEvent{
		Source: "kubernetes", Type: "Normal", Reason: "Pulled", Message: `Successfully pulled image "i" in 2s. Image size: 5242880 bytes.`,
		Metadata: map[string]string{
			"involved_kind": "Pod", "involved_name": "box", "namespace": "team", "count": "2",
			"openshell.progress.complete_step": "pulling_image", "openshell.progress.complete_label": "Image pulled (5 MB)", "openshell.progress.active_step": "starting_sandbox",
		},
		EventTime: timestamppb.New(epoch.Add(time.Minute)),
	}
	if diff := cmp.Diff(want, read(t, event()).Render(Workload), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// TestSteps is the table of contract 10.
func TestSteps(t *testing.T) {
	for name, c := range map[string]struct {
		reason, message string
		role            Role
		want            [4]string // complete_step, complete_label, active_step, active_detail
	}{
		"scheduled":               {"Scheduled", "Successfully assigned", Workload, [4]string{"requesting_sandbox", "Sandbox allocated", "pulling_image", ""}},
		"pulling":                 {"Pulling", `Pulling image "registry.example/a:1"`, Workload, [4]string{"", "", "pulling_image", "registry.example/a:1"}},
		"pulling, no quotes":      {"Pulling", "Pulling image a", Workload, [4]string{"", "", "pulling_image", ""}},
		"pulling, one quote":      {"Pulling", `Pulling image "a`, Workload, [4]string{"", "", "pulling_image", ""}},
		"pulled":                  {"Pulled", "done. Image size: 1024 bytes.", Workload, [4]string{"pulling_image", "Image pulled (1 KB)", "starting_sandbox", ""}},
		"pulled, was there":       {"Pulled", `Container image "a" already present on machine`, Workload, [4]string{"pulling_image", "Image pulled", "starting_sandbox", ""}},
		"pulled, size in words":   {"Pulled", "Image size: many bytes", Workload, [4]string{"pulling_image", "Image pulled", "starting_sandbox", ""}},
		"pulled, size below zero": {"Pulled", "Image size: -1 bytes", Workload, [4]string{"pulling_image", "Image pulled", "starting_sandbox", ""}},
		"pulled, size too large":  {"Pulled", "Image size: 99999999999999999999 bytes", Workload, [4]string{"pulling_image", "Image pulled", "starting_sandbox", ""}},
		"pulled, size cut off":    {"Pulled", "Image size: 10", Workload, [4]string{"pulling_image", "Image pulled", "starting_sandbox", ""}},
		"other":                   {"Started", "Started container", Workload, [4]string{}},
		"no reason":               {"", "", Workload, [4]string{}},
		"of the supervisor":       {"Pulled", "Image size: 1024 bytes", Other, [4]string{}},
	} {
		e := event()
		e.Reason, e.Message = c.reason, c.message
		m := read(t, e).Render(c.role).GetMetadata()
		p := "openshell.progress."
		if got := [4]string{m[p+"complete_step"], m[p+"complete_label"], m[p+"active_step"], m[p+"active_detail"]}; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		for key, value := range m {
			if value == "" {
				t.Errorf("%s: %s is empty", name, key)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KB", 1<<20 - 1: "1023 KB", 1 << 20: "1 MB", 1<<30 - 1: "1023 MB", 1 << 30: "1.0 GB", 1610612736: "1.5 GB",
	} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestTimes(t *testing.T) {
	micro := func(s int) metav1.MicroTime { return metav1.NewMicroTime(epoch.Add(time.Duration(s) * time.Second)) }
	for name, c := range map[string]struct {
		edit func(e *corev1.Event)
		want *timestamppb.Timestamp
	}{
		"last":  {func(*corev1.Event) {}, timestamppb.New(epoch.Add(time.Minute))},
		"first": {func(e *corev1.Event) { e.LastTimestamp = metav1.Time{} }, timestamppb.New(epoch)},
		"of a series": {func(e *corev1.Event) {
			e.LastTimestamp = metav1.Time{}
			e.Series = &corev1.EventSeries{LastObservedTime: micro(3)}
		}, timestamppb.New(epoch.Add(3 * time.Second))},
		"event time": {func(e *corev1.Event) {
			e.LastTimestamp, e.FirstTimestamp, e.EventTime = metav1.Time{}, metav1.Time{}, micro(4)
		}, timestamppb.New(epoch.Add(4 * time.Second))},
		"none":           {func(e *corev1.Event) { e.LastTimestamp, e.FirstTimestamp = metav1.Time{}, metav1.Time{} }, &timestamppb.Timestamp{}},
		"one that is no": {func(e *corev1.Event) { e.LastTimestamp = metav1.NewTime(time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)) }, &timestamppb.Timestamp{}},
	} {
		e := event()
		c.edit(e)
		if diff := cmp.Diff(c.want, read(t, e).Render(Other).GetEventTime(), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for name, spoil := range map[string]func(e *corev1.Event){
		"no uid": func(e *corev1.Event) { e.UID = "" }, "no kind": func(e *corev1.Event) { e.InvolvedObject.Kind = "" }, "no name": func(e *corev1.Event) { e.InvolvedObject.Name = "" },
	} {
		e := event()
		spoil(e)
		if got, err := Read(e); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestReadFillsIn(t *testing.T) {
	e := event()
	e.InvolvedObject.Namespace, e.Count, e.Series = "", 0, &corev1.EventSeries{Count: 7}
	if got := read(t, e); got.About.Namespace != "team" || got.Count != 7 {
		t.Errorf("%+v", got)
	}
	e.Series = nil
	if got := read(t, e); got.Count != 1 {
		t.Errorf("%+v", got)
	}
}

func TestSeen(t *testing.T) {
	s := NewSeen(8)
	at := func(uid string, count int32, seconds int) *Event {
		return &Event{UID: uid, Count: count, At: epoch.Add(time.Duration(seconds) * time.Second)}
	}
	for i, c := range []struct {
		event *Event
		first bool
	}{
		{at("a", 1, 0), true},
		{at("a", 1, 0), false}, // told again after a list
		{at("b", 1, 0), true},
		{at("a", 2, 5), true}, // it happened again
		{at("a", 1, 0), false},
		{at("a", 2, 5), false},
		{at("a", 2, 6), true}, // a series that is counted elsewhere
	} {
		if got := s.First(c.event); got != c.first {
			t.Errorf("%d: %t", i, got)
		}
	}
}

// TestSeenAgainstAMapOfAll: as long as nothing was forgotten, each occurrence is first once; and it never holds more than it may.
func TestSeenAgainstAMapOfAll(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const most = 64
	s, all := NewSeen(most), map[string]int32{}
	for range 20000 {
		e := &Event{UID: fmt.Sprint("u", r.IntN(most)), Count: r.Int32N(50)}
		last, known := all[e.UID]
		want := !known || e.Count > last
		if got := s.First(e); got != want {
			t.Fatalf("%+v: %t, and the last count is %d", e, got, last)
		}
		if want {
			all[e.UID] = e.Count
		}
	}
	for i := range 1000 {
		s.First(&Event{UID: fmt.Sprint("v", i)})
		if s.Len() > most || len(s.order) > most {
			t.Fatalf("%d of %d", s.Len(), most)
		}
	}
	if s.First(&Event{UID: "v999"}) || !s.First(&Event{UID: "v0"}) {
		t.Error("not the first one is forgotten first")
	}
}

func FuzzRender(f *testing.F) {
	f.Add("Pulled", `Pulling image "x" Image size: 1 bytes`, "name")
	f.Add("Pulling", "\"\xff\"", "\x00")
	f.Add("Pulled", "Image size: 18446744073709551615 bytes", "n")
	f.Fuzz(func(t *testing.T, reason, message, name string) {
		e := event()
		e.Reason, e.Message, e.InvolvedObject.Name = reason, message, name
		got, err := Read(e)
		if err != nil {
			return
		}
		d := got.Render(Workload)
		texts := []string{d.GetType(), d.GetReason(), d.GetMessage()}
		for _, value := range d.GetMetadata() {
			texts = append(texts, value)
		}
		for _, s := range texts {
			if !utf8.ValidString(s) || len(s) > longestMessage || strings.ContainsAny(s, "\x00\n") {
				t.Errorf("%q", s)
			}
		}
	})
}
