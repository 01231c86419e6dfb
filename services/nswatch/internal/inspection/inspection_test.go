package inspection_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/inspection"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

var update = flag.Bool("update", false, "write the golden files")

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const epoch = 1_790_000_000_000

func list(t *testing.T, entries ...allowlist.Entry) allowlist.List {
	t.Helper()
	l, err := allowlist.NewList(entries)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// digest is a digest that is told apart by its first digit.
func digest(t *testing.T, n string) allowlist.Digest {
	t.Helper()
	d, err := allowlist.ParseDigest("sha256:" + n + strings.Repeat("0", 63))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func snapshot(t *testing.T, sequence, revision uint64, age time.Duration, entries ...allowlist.Entry) allowkv.KeptRecord {
	t.Helper()
	return allowkv.KeptRecord{
		Key: "blue.snapshot", Sequence: sequence, Stored: now.Add(-age), Operation: allowlist.OperationPut, Size: 612,
		Snapshot: &allowlist.Snapshot{
			GatewayID: "blue", Epoch: epoch, Revision: revision, Writer: "nswatch-0-a1b2c3d4e5", PublishedAt: now.Add(-age),
			Source:     allowlist.Source{Kind: allowlist.SourceLabel, Selector: "openshell.ai/workspace=true", Version: "4711"},
			Namespaces: list(t, entries...),
		},
		Digest: digest(t, "7"),
	}
}

// sound is what the bucket holds when all is well: three revisions and two beats.
func sound(t *testing.T) *allowkv.Inspection {
	t.Helper()
	team := allowlist.Entry{Name: "team", UID: "0f4a"}
	third := snapshot(t, 40, 7, 90*time.Second, team, allowlist.Entry{Name: "build", UID: "77aa"})
	third.Snapshot.Previous = digest(t, "6")
	third.Snapshot.Changes = allowlist.Changes{Added: []string{"build"}, Removed: []string{"a", "b", "c", "d", "e", "f"}, RemovedMore: 2}
	second := snapshot(t, 22, 6, 10*time.Minute, team)
	second.Snapshot.Changes = allowlist.Changes{Added: []string{"team"}}
	second.Digest = digest(t, "6")
	first := snapshot(t, 1, 1, time.Hour)
	first.Digest = digest(t, "5")
	beat := func(sequence, number uint64, age time.Duration) allowkv.KeptRecord {
		return allowkv.KeptRecord{
			Key: "blue.heartbeat", Sequence: sequence, Stored: now.Add(-age), Operation: allowlist.OperationPut, Size: 480,
			Heartbeat: &allowlist.Heartbeat{
				GatewayID: "blue", Epoch: epoch, Revision: 7, Digest: digest(t, "7"), Beat: number, Issued: time.Hour, PublishedAt: now.Add(-age),
				Writer: "nswatch-0-a1b2c3d4e5", Proof: allowlist.Proof{Kind: allowlist.ProofList, Age: 350 * time.Millisecond}, TTL: 5 * time.Second,
			},
		}
	}
	return &allowkv.Inspection{
		GatewayID: "blue", Snapshots: []allowkv.KeptRecord{third, second, first},
		Heartbeats: []allowkv.KeptRecord{beat(131, 91, 400*time.Millisecond), beat(130, 90, 1400*time.Millisecond)},
		ServerTime: now, LocalTime: now,
	}
}

// cases break a sound inspection in one way each. want is a part of the only problem; none: it is usable.
func cases(t *testing.T) map[string]struct {
	change func(*allowkv.Inspection)
	want   string
} {
	beat := func(change func(*allowlist.Heartbeat)) func(*allowkv.Inspection) {
		return func(i *allowkv.Inspection) { change(i.Heartbeats[0].Heartbeat) }
	}
	bounds := allowlist.DefaultSettings()
	return map[string]struct {
		change func(*allowkv.Inspection)
		want   string
	}{
		"sound":             {func(*allowkv.Inspection) {}, ""},
		"almost stale":      {beat(func(h *allowlist.Heartbeat) { h.PublishedAt = now.Add(-bounds.MaxStaleness.Std() + time.Millisecond) }), ""},
		"a little skewed":   {beat(func(h *allowlist.Heartbeat) { h.PublishedAt = now.Add(bounds.MaxClockSkew.Std()) }), ""},
		"stale":             {beat(func(h *allowlist.Heartbeat) { h.PublishedAt = now.Add(-bounds.MaxStaleness.Std()) }), "the heartbeat is 15s old"},
		"from the future":   {beat(func(h *allowlist.Heartbeat) { h.PublishedAt = now.Add(bounds.MaxClockSkew.Std() + time.Second) }), "31s in the future"},
		"withdrawn":         {beat(func(h *allowlist.Heartbeat) { h.Reason = "the file is gone" }), "withdrawn: the file is gone"},
		"not vouched for":   {beat(func(h *allowlist.Heartbeat) { h.Revision = 6 }), "vouches for revision 6"},
		"behind":            {beat(func(h *allowlist.Heartbeat) { h.Revision = 8 }), "vouches for revision 8"},
		"of another epoch":  {beat(func(h *allowlist.Heartbeat) { h.Epoch++ }), "epoch 1790000000001"},
		"forked":            {beat(func(h *allowlist.Heartbeat) { h.Digest = digest(t, "9") }), "another list of revision 7"},
		"heartbeat expired": {func(i *allowkv.Inspection) { i.Heartbeats = nil }, "there is no heartbeat"},
		"heartbeat marker": {func(i *allowkv.Inspection) {
			i.Heartbeats[0] = allowkv.KeptRecord{Key: "blue.heartbeat", Sequence: 140, Stored: now, Operation: allowlist.OperationExpire}
		}, "the newest message of its key is a"},
		"snapshot deleted": {func(i *allowkv.Inspection) {
			i.Snapshots[0] = allowkv.KeptRecord{Key: "blue.snapshot", Sequence: 140, Stored: now, Operation: allowlist.OperationDelete}
		}, "there is no snapshot"},
		"snapshot absent": {func(i *allowkv.Inspection) { i.Snapshots = nil }, "there is no snapshot"},
		"snapshot forged": {func(i *allowkv.Inspection) { i.Snapshots[0] = forged("blue.snapshot") }, "the snapshot does not count: the signature\\x1b[2J"},
		"heartbeat forged": {
			func(i *allowkv.Inspection) { i.Heartbeats[0] = forged("blue.heartbeat") }, "the heartbeat does not count",
		},
	}
}

// forged is a record that does not verify, whose error holds what came from outside.
func forged(key string) allowkv.KeptRecord {
	return allowkv.KeptRecord{
		Key: key, Sequence: 150, Stored: now, Operation: allowlist.OperationPut, Size: 99,
		Err: errors.New("the signature\x1b[2J\nis \u202eforged\xff"),
	}
}

func TestProblems(t *testing.T) {
	bounds := allowlist.DefaultSettings()
	for name, tc := range cases(t) {
		t.Run(name, func(t *testing.T) {
			found := sound(t)
			tc.change(found)
			report := inspection.NewReport(found, &bounds)
			err := report.Err()
			want := strings.ReplaceAll(tc.want, `\x1b`, "?")
			switch {
			case want == "" && (err != nil || !report.Usable || !strings.HasPrefix(report.Summary(), "usable: revision 7 of epoch 1790000000000, 2 namespaces")):
				t.Errorf("got %v, %q", err, report.Summary())
			case want != "" && (err == nil || report.Usable || len(report.Problems) != 1 || !strings.Contains(err.Error(), want)):
				t.Errorf("got %q, want only %q", report.Problems, want)
			}
		})
	}
}

// TestUnvouched: only a list that is newer than the one that is vouched for, and nothing else that is wrong, is worth
// another look.
func TestUnvouched(t *testing.T) {
	bounds := allowlist.DefaultSettings()
	for name, tc := range cases(t) {
		found := sound(t)
		tc.change(found)
		if got, want := inspection.NewReport(found, &bounds).Unvouched(), name == "not vouched for"; got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for name, change := range map[string]func(*allowlist.Heartbeat){
		"an epoch before":     func(h *allowlist.Heartbeat) { h.Epoch, h.Revision = epoch-1, 9 },
		"and withdrawn":       func(h *allowlist.Heartbeat) { h.Revision, h.Reason = 6, "the file is gone" },
		"and stale":           func(h *allowlist.Heartbeat) { h.Revision, h.PublishedAt = 6, now.Add(-time.Minute) },
		"an epoch after":      func(h *allowlist.Heartbeat) { h.Epoch, h.Revision = epoch+1, 6 },
		"and from the future": func(h *allowlist.Heartbeat) { h.Revision, h.PublishedAt = 6, now.Add(time.Minute) },
	} {
		found := sound(t)
		change(found.Heartbeats[0].Heartbeat)
		if got, want := inspection.NewReport(found, &bounds).Unvouched(), name == "an epoch before"; got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestNothingIsTrustedInAnEmptyBucket(t *testing.T) {
	bounds := allowlist.DefaultSettings()
	report := inspection.NewReport(&allowkv.Inspection{GatewayID: "blue", LocalTime: now, ServerTime: now}, &bounds)
	if report.Usable || len(report.Problems) != 2 || report.Summary() != "not usable" {
		t.Errorf("got %+v", report)
	}
}

// TestGolden shows what people see, as a table and as JSON.
func TestGolden(t *testing.T) {
	bounds := allowlist.DefaultSettings()
	withdrawn := sound(t)
	withdrawn.Heartbeats[0].Heartbeat.Reason = "the file cannot be read: permission denied"
	forgery := sound(t)
	forgery.Snapshots = append([]allowkv.KeptRecord{forged("blue.snapshot")}, forgery.Snapshots...)
	file := sound(t)
	file.Snapshots = file.Snapshots[:1]
	s := file.Snapshots[0].Snapshot
	s.Source = allowlist.Source{Kind: allowlist.SourceFile, Path: "/etc/portcullis/namespaces.json", Version: "9c1d"}
	s.Namespaces, s.Changes = list(t), allowlist.Changes{}
	for name, found := range map[string]*allowkv.Inspection{
		"sound": sound(t), "withdrawn": withdrawn, "forged": forgery, "file": file,
		"empty": {GatewayID: "blue", ServerTime: now, LocalTime: now},
	} {
		report := inspection.NewReport(found, &bounds)
		var table, object bytes.Buffer
		if err := errors.Join(inspection.WriteTable(&table, report), inspection.WriteJSON(&object, report)); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", table.Bytes())
		golden(t, name+".json", object.Bytes())
	}
}

func TestGoldenStream(t *testing.T) {
	found := sound(t)
	bad := forged("blue.snapshot")
	gone := allowkv.KeptRecord{Key: "blue.heartbeat", Sequence: 151, Stored: now, Operation: allowlist.OperationExpire}
	withdrawn := found.Heartbeats[1]
	beat := *withdrawn.Heartbeat
	beat.Reason = "no successor"
	withdrawn.Heartbeat = &beat
	var lines, objects bytes.Buffer
	for _, c := range []allowkv.Change{
		{Record: &found.Snapshots[0]},
		{Record: &found.Heartbeats[0]},
		{Record: &withdrawn},
		{Record: &bad},
		{Record: &gone},
		{Interrupted: errors.New("no connection\x07 now")},
		{},
	} {
		if err := errors.Join(inspection.WriteLine(&lines, c), inspection.WriteJSONLine(&objects, c)); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "stream.txt", lines.Bytes())
	golden(t, "stream.jsonl", objects.Bytes())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", name, diff)
	}
	wellBehaved(t, name, string(got))
}

// wellBehaved demands text that cannot drive a terminal.
func wellBehaved(t *testing.T, name, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsGraphic(r) {
			t.Errorf("%s holds %q", name, r)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriteErrorsAreReturned(t *testing.T) {
	bounds := allowlist.DefaultSettings()
	found := sound(t)
	report := inspection.NewReport(found, &bounds)
	change := allowkv.Change{Record: &found.Snapshots[0]}
	for name, err := range map[string]error{
		"table": inspection.WriteTable(brokenPipe{}, report), "JSON": inspection.WriteJSON(brokenPipe{}, report),
		"line": inspection.WriteLine(brokenPipe{}, change), "JSON line": inspection.WriteJSONLine(brokenPipe{}, change),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzUnverified: whatever an error says, no output holds what a terminal acts on, and every line of JSON is JSON.
func FuzzUnverified(f *testing.F) {
	f.Add("plain")
	f.Add("\x1b]0;title\x07\r\n\u009b31m\xff\u2028\u202e\t")
	var noise [64]byte
	_, _ = rand.Read(noise[:])
	f.Add(string(noise[:]))
	bounds := allowlist.DefaultSettings()
	f.Fuzz(func(t *testing.T, text string) {
		bad := allowkv.KeptRecord{Key: "blue." + text, Stored: now, Operation: allowlist.OperationPut, Err: errors.New(text)}
		report := inspection.NewReport(&allowkv.Inspection{GatewayID: text, Snapshots: []allowkv.KeptRecord{bad}, LocalTime: now, ServerTime: now}, &bounds)
		if report.Usable || report.Err() == nil {
			t.Error("it is usable")
		}
		var out, object bytes.Buffer
		change := allowkv.Change{Record: &bad}
		if err := errors.Join(inspection.WriteTable(&out, report), inspection.WriteLine(&out, change), inspection.WriteJSON(&object, report)); err != nil {
			t.Fatal(err)
		}
		wellBehaved(t, "the output", out.String()+object.String()+report.Err().Error())
		if !json.Valid(object.Bytes()) {
			t.Errorf("no JSON: %s", object.String())
		}
	})
}
