package audit

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// TestEntryJSON is the format that readers of the stream rely on.
func TestEntryJSON(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*Event)
		want  string
	}{
		{"refusal", func(*Event) {}, `{"time":"2026-11-30T00:02:03.45Z","instance":"0123456789abcdef","seq":9,"daemon":"tokenauth",` +
			`"gateway":"gw-1","call":"authenticate","outcome":"denied","reason":"not_listed","step":"namespace.listed",` +
			`"grpc_code":"PermissionDenied","namespace":"team-a","pod_uid":"0c1d2e3f-0000-4000-8000-000000000001","sandbox_id":"sb-1",` +
			`"allowlist":"proven","epoch":7,"revision":42,"allowlist_age_ms":1250,"token_hash":"00112233445566778899aabbccddeeff",` +
			`"token_key":"01020304","request_id":"req-1","caller":"spiffe://portcullis/lifecycle","duration_ms":3.5}`},
		{
			"grant without list", func(e *Event) { e.Decision = verdict.Grant(verdict.Evidence{}) },
			`{"time":"2026-11-30T00:02:03.45Z","instance":"0123456789abcdef","seq":9,"daemon":"tokenauth",` +
				`"gateway":"gw-1","call":"authenticate","outcome":"granted",` +
				`"grpc_code":"OK","namespace":"team-a","pod_uid":"0c1d2e3f-0000-4000-8000-000000000001","sandbox_id":"sb-1",` +
				`"token_hash":"00112233445566778899aabbccddeeff",` +
				`"token_key":"01020304","request_id":"req-1","caller":"spiffe://portcullis/lifecycle","duration_ms":3.5}`,
		},
		{
			"nothing", func(e *Event) { *e = Event{Time: e.Time} },
			`{"time":"2026-11-30T00:02:03.45Z","instance":"0123456789abcdef","seq":9,"daemon":"tokenauth",` +
				`"gateway":"gw-1","call":"","outcome":"unknown","grpc_code":"Internal","duration_ms":0}`,
		},
		{
			"list without proof", func(e *Event) {
				*e = Event{Time: e.Time, Decision: verdict.Decision{Allowlist: verdict.Evidence{Namespace: "a"}}}
			},
			`{"time":"2026-11-30T00:02:03.45Z","instance":"0123456789abcdef","seq":9,"daemon":"tokenauth",` +
				`"gateway":"gw-1","call":"","outcome":"unknown","grpc_code":"Internal","allowlist":"unproven","duration_ms":0}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			event := sample(t)
			test.spoil(&event)
			e := complete(entry(&event, time.Now()))
			if got := string(e.encode()); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			var back Entry
			if err := json.Unmarshal([]byte(test.want), &back); err != nil || back != e {
				t.Errorf("read back: %v\n%s", err, cmp.Diff(e, back))
			}
			sameKeys(t, &e)
		})
	}
}

func complete(e Entry) Entry {
	e.Instance, e.Seq, e.Daemon, e.Gateway = "0123456789abcdef", 9, origin.Daemon, origin.GatewayID
	return e
}

// sameKeys holds the log line against the JSON.
func sameKeys(t testing.TB, e *Entry) {
	t.Helper()
	log := &logged{}
	logger := zerolog.New(log)
	e.write(logger.Info())
	line, kept := map[string]any{}, map[string]any{}
	if err := json.Unmarshal([]byte(log.String()), &line); err != nil {
		t.Fatalf("%s: %v", log, err)
	}
	if err := json.Unmarshal(e.encode(), &kept); err != nil {
		t.Fatal(err)
	}
	if line["level"] != "info" || line["message"] != "decision" {
		t.Errorf("line %s", log)
	}
	delete(line, "level")
	delete(line, "message")
	delete(kept, "time")
	delete(kept, "daemon")
	if diff := cmp.Diff(kept, line); diff != "" {
		t.Errorf("the log line is not the entry:\n%s", diff)
	}
}

func TestIdentifier(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, test := range []struct{ name, text, want string }{
		{"plain", "spiffe://portcullis/a-b_c.d@e", "spiffe://portcullis/a-b_c.d@e"},
		{"empty", "", ""},
		{"longest", long[:maxWord], long[:maxWord]},
		{"one more", long[:maxWord+1], long[:maxWord-3] + "..."},
		{"line feed", "a\nb\x00\x7f", "a?b??"},
		{"quotes", "a\"b\\c<d>e&f", "a?b?c?d?e?f"},
		{"not ASCII", "é\xff", "???"},
		{"token", "Bearer eyJhbGciOiJSUzI1NiJ9.eyJhIjoxfQ.c2ln", withheld},
		{"token behind the cut", long + "eyJhbGciOiJSUzI1NiJ9.", withheld},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := identifier(test.text, maxWord); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestCutTextsAreCopied: a queue of cut texts must not hold what was cut off.
func TestCutTextsAreCopied(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	cut := identifier(text, maxWord)
	if unsafe.StringData(cut) == unsafe.StringData(text) {
		t.Error("the cut text shares the memory of the whole one")
	}
}

func TestInstant(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, at := range map[string]time.Time{
		"zero": {}, "too late": time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "too early": time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
		"too late in UTC only": time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -2*3600)),
	} {
		if got := instant(at, now); got != now {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// FuzzEntry holds every encoding to its bounds, whatever the texts are.
func FuzzEntry(f *testing.F) {
	f.Add("a", "b", "c", int64(1), uint64(2), true)
	f.Add(strings.Repeat("\x00", 5000), strings.Repeat("é", 500), "eyJhbGciOiJSUzI1NiJ9.e30.x", int64(-1<<63), ^uint64(0), false)
	f.Add("\u2028\"<>&", strings.Repeat("~", 5000), strings.Repeat("z", 5000), int64(1<<63-1), uint64(0), true)
	f.Fuzz(func(t *testing.T, a, b, c string, n int64, u uint64, proven bool) {
		event := Event{
			Time: time.Unix(n, 0), Call: a, Namespace: b, PodUID: c, SandboxID: a, RequestID: b, Caller: c, Duration: time.Duration(n),
			Decision: verdict.Refuse(verdict.Reason(a), b, c).
				WithAllowlist(verdict.Evidence{Namespace: a, Epoch: u, Revision: u, Proven: proven, Age: time.Duration(n)}),
		}
		e := complete(entry(&event, time.Now()))
		e.Seq = u
		text := e.encode()
		if len(text) > MaxEntryBytes {
			t.Errorf("%d bytes", len(text))
		}
		var back Entry
		if err := json.Unmarshal(text, &back); err != nil || back != e {
			t.Errorf("%s: %v\n%s", text, err, cmp.Diff(e, back))
		}
		if strings.Contains(string(text), jwtStart) {
			t.Errorf("may hold a token: %s", text)
		}
		sameKeys(t, &e)
	})
}

// TestLongestEntry has every text at its limit and every number at its longest.
func TestLongestEntry(t *testing.T) {
	long := strings.Repeat("~", 1000)
	event := Event{
		Time: time.Date(9999, 12, 31, 0, 0, 0, 123456789, time.UTC), Call: long, Namespace: long, PodUID: long, SandboxID: long,
		RequestID: long, Caller: long, Duration: -1 << 63, Token: sample(t).Token,
		Decision: verdict.Refuse(verdict.Reason(long), long, long).
			WithAllowlist(verdict.Evidence{Epoch: ^uint64(0), Revision: ^uint64(0), Proven: true, Age: -1 << 63}),
	}
	e := complete(entry(&event, time.Now()))
	e.Seq, e.Gateway, e.Daemon = ^uint64(0), long[:maxName], long[:maxWord]
	if text := e.encode(); len(text) > MaxEntryBytes {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}
