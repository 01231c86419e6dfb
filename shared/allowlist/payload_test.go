package allowlist

import (
	"strings"
	"testing"
)

// payloadCase breaks a valid payload in one place.
type payloadCase struct {
	name, old, with string
	want            string // part of the reason
}

// rejected runs cases against a decoder of signed payloads: each base is accepted, each broken one is refused with a
// reason, and the cause is that the record is malformed.
func rejected(t *testing.T, base string, cases []payloadCase, open func(payload string) error) {
	t.Helper()
	if err := open(base); err != nil {
		t.Fatalf("the valid base is refused: %v", err)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := open(replaceOnce(t, base, c.old, c.with))
			if CauseOf(err) != Malformed || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want cause malformed and %q", err, c.want)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\n\r\x00") {
				t.Errorf("the error has more than one line: %q", err)
			}
		})
	}
}

func TestSnapshotPayloads(t *testing.T) {
	s := validSnapshot(t)
	base, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 64)
	cases := []payloadCase{
		{"empty object", string(base), `{}`, `field "schema" is missing`},
		{"nothing", string(base), ``, `ends where "{" is due`},
		{"cut", `"team-c"]}}`, `"team-c"]`, "ends where the end of the object is due"},
		{"trailing space", `["team-c"]}}`, `["team-c"]}} `, "1 bytes follow"},
		{"second object", `["team-c"]}}`, `["team-c"]}}{}`, "2 bytes follow"},
		{"white space", `"epoch":`, ` "epoch":`, "white space"},
		{"space before value", `"epoch":`, `"epoch": `, "whole number is due"},
		{"unknown field", `,"epoch"`, `,"colour":"red","epoch"`, `unknown field "colour" where field "epoch" is due`},
		{"unknown last field", `["team-c"]}}`, `["team-c"]},"x":1}`, `unknown field "x"`},
		{"missing field", `"revision":42,`, ``, `field "previous" where field "revision" is due: a field is missing`},
		{"field twice", `"revision":42,`, `"revision":42,"revision":42,`, `field "revision" where field "previous" is due`},
		{"other order", `"epoch":1796000000000,"revision":42`, `"revision":42,"epoch":1796000000000`, "out of order"},
		{"field in capitals", `"epoch"`, `"Epoch"`, `unknown field "Epoch"`},
		{"other schema", `"schema":1`, `"schema":2`, "schema 2 is unknown"},
		{"schema as text", `"schema":1`, `"schema":"1"`, "whole number"},
		{"gateway empty", `"team-gateway"`, `""`, "the gateway id is empty"},
		{"gateway with two dots", `"team-gateway"`, `"a..b"`, "two dots"},
		{"gateway with a star", `"team-gateway"`, `"a*b"`, "may hold only"},
		{"epoch zero", `1796000000000`, `0`, "not between 1 and"},
		{"epoch too large", `1796000000000`, `9007199254740992`, "not between 1 and 9007199254740991"},
		{"epoch beyond 64 bits", `1796000000000`, `99999999999999999999999`, "not between"},
		{"number with zero in front", `"revision":42`, `"revision":042`, "whole number"},
		{"number with exponent", `"revision":42`, `"revision":4e1`, "found"},
		{"number with fraction", `"revision":42`, `"revision":42.0`, "found"},
		{"number with sign", `"revision":42`, `"revision":+42`, "whole number"},
		{"negative number", `"revision":42`, `"revision":-42`, "whole number"},
		{"null", `"revision":42`, `"revision":null`, "whole number"},
		{"digest in capitals", `"sha256:6d`, `"sha256:6D`, "not a digest"},
		{"digest of another kind", `"sha256:6d`, `"sha512:6d`, "not a digest"},
		{"digest too short", `"sha256:6d`, `"sha256:6`, "not a digest"},
		{"writer empty", `"nswatch-0.x7k2"`, `""`, "is empty"},
		{"writer too long", `"nswatch-0.x7k2"`, `"` + long + long + `a"`, "at most 128"},
		{"writer with space", `"nswatch-0.x7k2"`, `"nswatch 0"`, "may hold only"},
		{"time without milliseconds", `12:00:00.000Z`, `12:00:00Z`, "not a time"},
		{"time with offset", `12:00:00.000Z`, `12:00:00.000+00:00`, "not a time"},
		{"time with comma", `12:00:00.000Z`, `12:00:00,000Z`, "not a time"},
		{"time on no day", `2026-11-29T`, `2026-02-30T`, "not a time"},
		{"time before 1970", `2026-11-29T`, `1969-11-29T`, "from 1970"},
		{"source of no kind", `"kind":"label"`, `"kind":"hearsay"`, "not one of label, file"},
		{"file with selector", `"kind":"label"`, `"kind":"file"`, `where field "path" is due`},
		{"selector empty", `"openshell.ai/sandboxes=allowed"`, `""`, "is empty"},
		{"selector with control character", `"openshell.ai/sandboxes=allowed"`, "\"a\x01b\"", "control character"},
		{"selector with line separator", `"openshell.ai/sandboxes=allowed"`, "\"a\u2028b\"", "line break"},
		{"selector not UTF-8", `"openshell.ai/sandboxes=allowed"`, "\"a\xffb\"", "UTF-8"},
		{"selector too long", `"openshell.ai/sandboxes=allowed"`, `"` + strings.Repeat("a", 4097) + `"`, "at most 4096"},
		{"escape of an ASCII letter", `"openshell.ai/sandboxes=allowed"`, `"\u0061"`, "escape"},
		{"escape of a slash", `openshell.ai/sandboxes`, `openshell.ai\/sandboxes`, "escape"},
		{"string without end", `"openshell.ai/sandboxes=allowed","version":"8812"},"namespaces":[{"name":"team-a","uid":"uid-team-a"},{"name":"team-b","uid":"uid-team-b"}],"changes":{"added":["team-b"],"removed":["team-c"]}}`, `"open`, "does not end"},
		{"version empty", `"8812"`, `""`, "is empty"},
		{"namespaces as object", `"namespaces":[{"name":"team-a","uid":"uid-team-a"},{"name":"team-b","uid":"uid-team-b"}]`, `"namespaces":{}`, `where "[" is due`},
		{"namespaces null", `"namespaces":[{"name":"team-a","uid":"uid-team-a"},{"name":"team-b","uid":"uid-team-b"}]`, `"namespaces":null`, `where "[" is due`},
		{"namespace as text", `{"name":"team-a","uid":"uid-team-a"}`, `"team-a"`, `where "{" is due`},
		{"comma at the end", `"uid":"uid-team-b"}]`, `"uid":"uid-team-b"},]`, `where "{" is due`},
		{"name empty", `{"name":"team-a"`, `{"name":""`, "is empty"},
		{"name in capitals", `{"name":"team-a"`, `{"name":"Team-a"`, "a-z, 0-9"},
		{"name with dot", `{"name":"team-a"`, `{"name":"team.a"`, "a-z, 0-9"},
		{"name begins with dash", `{"name":"team-a"`, `{"name":"-team-a"`, "begin and end"},
		{"name too long", `{"name":"team-a"`, `{"name":"` + long + `"`, "at most 63"},
		{"name twice", `{"name":"team-a","uid":"uid-team-a"}`, `{"name":"team-b","uid":"uid-team-b"}`, "does not follow"},
		{"names out of order", `{"name":"team-a","uid":"uid-team-a"}`, `{"name":"zzz","uid":"uid-team-a"}`, "does not follow"},
		{"uid missing", `,"uid":"uid-team-a"`, ``, `field "uid" is missing`},
		{"uid empty for a label", `"uid":"uid-team-a"`, `"uid":""`, "have one"},
		{"uid too long", `"uid-team-a"`, `"` + long + `a"`, "at most 64"},
		{"uid with space", `"uid-team-a"`, `"uid a"`, "may hold only"},
		{"extra in entry", `"uid":"uid-team-a"}`, `"uid":"uid-team-a","x":1}`, `unknown field "x"`},
		{"added not in the list", `"added":["team-b"]`, `"added":["team-x"]`, "not in the list"},
		{"added null", `"added":["team-b"]`, `"added":null`, `where "[" is due`},
		{"removed out of order", `["team-c"]`, `["team-c","team-a"]`, "does not follow"},
		{"more without names", `"added":["team-b"]`, `"added":["team-b"],"added_more":3`, "at most 100 are named"},
		{"more of zero", `["team-c"]}`, `["team-c"],"removed_more":0}`, "not between 1"},
		{"too many changes", `["team-c"]`, `["` + strings.Join(manyNames(101), `","`) + `"]`, "more than 100"},
	}
	keys := testKeys(t, testSigner(t, 1))
	rejected(t, string(base), cases, func(payload string) error {
		_, _, err := OpenSnapshot(signed(t, kindSnapshot, payload), keys, gateway)
		return err
	})
}

func TestHeartbeatPayloads(t *testing.T) {
	h := validHeartbeat(t)
	live, err := h.encode()
	if err != nil {
		t.Fatal(err)
	}
	h.Reason = "gone"
	withdrawn, err := h.encode()
	if err != nil {
		t.Fatal(err)
	}
	keys := testKeys(t, testSigner(t, 1))
	open := func(payload string) error {
		_, err := OpenHeartbeat(signed(t, kindHeartbeat, payload), keys, gateway)
		return err
	}
	rejected(t, string(live), []payloadCase{
		{"missing field", `"beat":7,`, ``, `where field "beat" is due`},
		{"unknown field", `"ttl_ms"`, `"x":1,"ttl_ms"`, `unknown field "x"`},
		{"field twice", `"beat":7,`, `"beat":7,"beat":7,`, "repeated"},
		{"trailing byte", `"ttl_ms":5000}`, `"ttl_ms":5000}x`, "1 bytes follow"},
		{"other schema", `"schema":1`, `"schema":9`, "schema 9 is unknown"},
		{"revision zero", `"revision":42`, `"revision":0`, "not between"},
		{"digest empty", h.Digest.String(), ``, "no digest"},
		{"digest of zeros", h.Digest.String(), "sha256:" + strings.Repeat("0", 64), "not a digest"},
		{"beat zero", `"beat":7`, `"beat":0`, "not between"},
		{"issue beyond a century", `"issued_mono_ms":6100`, `"issued_mono_ms":3162240000001`, "not between"},
		{"unknown state", `"state":"live"`, `"state":"fine"`, "not one of live, withdrawn"},
		{"state empty", `"state":"live"`, `"state":""`, "not one of"},
		{"live with reason", `"state":"live"`, `"state":"live","reason":"x"`, "out of order"},
		{"withdrawn without reason", `"state":"live"`, `"state":"withdrawn"`, `where field "reason" is due`},
		{"proof of no kind", `"kind":"watch"`, `"kind":"timer"`, "not one of list, watch, file"},
		{"proof without age", `,"age_ms":250`, ``, `field "age_ms" is missing`},
		{"proof too old", `"age_ms":250`, `"age_ms":600001`, "more than 10m"},
		{"ttl zero", `"ttl_ms":5000`, `"ttl_ms":0`, "whole seconds"},
		{"ttl with fraction", `"ttl_ms":5000`, `"ttl_ms":1500`, "whole seconds"},
		{"ttl beyond an hour", `"ttl_ms":5000`, `"ttl_ms":3601000`, "whole seconds"},
	}, open)
	rejected(t, string(withdrawn), []payloadCase{
		{"reason empty", `"reason":"gone"`, `"reason":""`, "is empty"},
		{"reason too long", `"reason":"gone"`, `"reason":"` + strings.Repeat("r", 257) + `"`, "at most 256"},
		{"reason with line break", `"reason":"gone"`, "\"reason\":\"a\nb\"", "control character"},
	}, open)
}
