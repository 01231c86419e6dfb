package filesource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// base is a valid file. Each case breaks it in one way.
const base = `["team-a","team-b"]`

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, c := range []struct {
		name, content string
		want          result
		text          string
	}{
		{"no byte", "", resultEmpty, "an empty list is []"},
		{"white space", " \n\t\r\n", resultEmpty, "an empty list is []"},
		{"not JSON", "team-a\nteam-b\n", resultJSON, "not one whole JSON value"},
		{"cut short", base[:12], resultJSON, "(byte 12 of 12)"},
		{"trailing value", base + `[]`, resultJSON, "(byte 20 of 21)"},
		{"trailing text", base + "\n# mine", resultJSON, "invalid character '#'"},
		{"trailing comma", `["team-a",]`, resultJSON, "invalid character ']'"},
		{"comma left out", `["team-a" "team-b"]`, resultJSON, "after array element"},
		{"single quotes", `['team-a']`, resultJSON, "invalid character '\\''"},
		{"comment", "// mine\n" + base, resultJSON, "invalid character '/'"},
		{"byte order mark", bom + base, resultJSON, "byte order mark"},
		{"Latin-1", "[\"team-\xe9\"]", resultEncoding, "not valid UTF-8"},
		{"NUL bytes", base + "\x00", resultJSON, "invalid character"},
		{"too deep", strings.Repeat("[", 20_000), resultJSON, "exceeded max depth"},
		{"null", "null", resultShape, "it is null, not a JSON array"},
		{"string", `"team-a"`, resultShape, "it is a string, not"},
		{"number", ` 7`, resultShape, "it is a number, not"},
		{"boolean", `false`, resultShape, "it is a boolean, not"},
		{"object", `{"namespaces":["team-a"]}`, resultShape, "it is an object, not"},
		{"number among names", `["team-a",1e999,"team-b"]`, resultShape, "entry 2, counted from 1: it is a number"},
		{"null among names", `["team-a",null]`, resultShape, "entry 2, counted from 1: it is null"},
		{"boolean among names", `[true]`, resultShape, "entry 1, counted from 1: it is a boolean"},
		{"array among names", `["team-a",["team-b"]]`, resultShape, "entry 2, counted from 1: it is an array"},
		{"object among names", `["team-a","team-b",{}]`, resultShape, "entry 3, counted from 1: it is an object"},
		{"empty name", `["team-a",""]`, resultName, `entry 2, counted from 1: "" is not a namespace name: it is empty`},
		{"upper case", `["team-a","Team-B"]`, resultName, `entry 2, counted from 1: "Team-B" is not`},
		{"underscore", `["team_a"]`, resultName, "may hold only a-z, 0-9 and -"},
		{"dot", `["team.a"]`, resultName, "may hold only a-z, 0-9 and -"},
		{"white space in a name", `["team-a "]`, resultName, `"team-a " is not`},
		{"leading dash", `["-a"]`, resultName, "must begin and end with"},
		{"trailing dash", `["a-"]`, resultName, "must begin and end with"},
		{"one byte too long", `["` + long + `"]`, resultName, "has 64 bytes, at most 63"},
		{"very long", `["` + strings.Repeat("x", 1<<20) + `"]`, resultName, "... (1048576 bytes)"},
		{"escaped control character", `["a\u0000b"]`, resultName, `"a\x00b" is not`},
		{"lone surrogate", `["\ud800"]`, resultName, "is not a namespace name"},
		{"wildcard", `["*"]`, resultName, `"*" is not`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse([]byte(c.content))
			if err == nil {
				t.Fatalf("accepted as %v", got)
			}
			if r := resultOf(err); r != c.want {
				t.Errorf("result %s, want %s: %v", r, c.want, err)
			}
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %q does not contain %q", err, c.text)
			}
			if len(err.Error()) > 300 || strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("error of %d bytes is no short line: %.400q", len(err.Error()), err)
			}
		})
	}
}

func TestParseAccepts(t *testing.T) {
	for _, c := range []struct {
		name, content string
		want          []string
	}{
		{"base", base, []string{"team-a", "team-b"}},
		{"nothing", "[]", nil},
		{"nothing, spread", " [\n]\n", nil},
		{"unsorted", `["b","a"]`, []string{"a", "b"}},
		{"doubled", `["a","b","a","a"]`, []string{"a", "b"}},
		{"doubled by escape", `["a","\u0061"]`, []string{"a"}},
		{"white space", "\r\n[\t\"a\" ,\n\"b\"\n]\r\n", []string{"a", "b"}},
		{"63 bytes", `["` + strings.Repeat("x", 63) + `"]`, []string{strings.Repeat("x", 63)}},
		{"digits", `["0"]`, []string{"0"}},
		{"reserved, which is selection's", `["kube-system"]`, []string{"kube-system"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse([]byte(c.content))
			if err != nil {
				t.Fatal(err)
			}
			if names := candidateNames(got); !slices.Equal(names, c.want) {
				t.Errorf("got %q, want %q", names, c.want)
			}
		})
	}
}

// TestLongestList is the link between MaxFile, MaxNames and what the pure writer can hold.
func TestLongestList(t *testing.T) {
	names := make([]string, allowlist.MaxNames)
	for i := range names {
		names[i] = fmt.Sprintf("%063d", i)
	}
	content, err := json.MarshalIndent(names, "", "    ")
	must(t, err)
	if len(content) > MaxFile {
		t.Errorf("the longest list has %d bytes with indentation, more than MaxFile", len(content))
	}
	for i := range names {
		names[i] = strconv.Itoa(i) // quicker to read
	}
	content, err = json.Marshal(append(names, names[7]))
	must(t, err)
	if got, err := parse(content); err != nil || len(got) != len(names) {
		t.Errorf("%d names of %d, one of them twice: %v", len(got), len(names), err)
	}
	content, err = json.Marshal(append(names, "one-more"))
	must(t, err)
	if got, err := parse(content); resultOf(err) != resultTooMany {
		t.Errorf("%d names, one too many: %v", len(got), err)
	}
}

// reference is parse by encoding/json alone.
func reference(content []byte) (names []string, ok bool) {
	var values []any
	if !utf8.Valid(content) || json.Unmarshal(content, &values) != nil || values == nil {
		return nil, false
	}
	set := map[string]bool{}
	for _, v := range values {
		name, isString := v.(string)
		if !isString || allowlist.CheckNamespace(name) != nil {
			return nil, false
		}
		set[name] = true
	}
	return slices.Sorted(maps.Keys(set)), true
}

func compare(t *testing.T, content []byte) {
	t.Helper()
	kept := bytes.Clone(content)
	got, err := parse(content)
	want, ok := reference(content)
	if (err == nil) != ok {
		t.Fatalf("%.200q: %v, want accepted: %v", content, err, ok)
	}
	if !slices.Equal(candidateNames(got), want) {
		t.Fatalf("%.200q: got %q, want %q", content, candidateNames(got), want)
	}
	if !bytes.Equal(content, kept) {
		t.Fatalf("%.200q was changed", kept)
	}
	if err == nil {
		return
	}
	if len(got) != 0 {
		t.Fatalf("%.200q: candidates with an error", content)
	}
	if r := resultOf(err); !slices.Contains(results[:], r) || r == resultOK || r == resultOtherSystem {
		t.Fatalf("%.200q: result %q", content, r)
	}
	if len(err.Error()) > 400 {
		t.Fatalf("%.200q: an error of %d bytes", content, len(err.Error()))
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", base, "[]", "null", "{}", `["a",1]`, `["\u0061","a"]`, `["a"]x`, bom + "[]", "[\"\xff\"]", "[[]]", `["kube-system"]`, "  [ \"a\" ] "} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) { compare(t, content) })
}

// TestParseProperty compares files that are nearly right: a fuzzer without guidance rarely makes one.
func TestParseProperty(t *testing.T) {
	pieces := []string{"[", "]", "[", "]", ",", ",", ",", `"a"`, `"b"`, `"team-a"`, `"kube-x"`, `"A"`, `""`, `"a-"`, "null", "1", "{}", "true", " ", "\n", `"\u0062"`, "\xff", bom, "x"}
	random := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range 30_000 {
		var text strings.Builder
		if random.IntN(2) == 0 {
			for range random.IntN(9) {
				text.WriteString(pieces[random.IntN(len(pieces))])
			}
		} else {
			text.WriteString("[")
			for i := range random.IntN(5) {
				if i > 0 {
					text.WriteString(",")
				}
				text.WriteString(pieces[5+random.IntN(6)])
			}
			text.WriteString("]")
		}
		content := []byte(text.String())
		compare(t, content)
		if _, ok := reference(content); ok {
			accepted++
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d files were valid: the test compares little", accepted)
	}
}

func TestFingerprint(t *testing.T) {
	a, b := fingerprint([]byte("[]")), fingerprint([]byte("[] "))
	if a == b || a != fingerprint([]byte("[]")) {
		t.Errorf("%s and %s", a, b)
	}
	if len(a) != len("sha256-")+64 || strings.Trim(a, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		t.Errorf("%q is no version", a)
	}
}

func candidateNames(candidates []allowlist.Candidate) []string {
	var names []string
	for _, c := range candidates {
		names = append(names, c.Name)
	}
	return names
}
