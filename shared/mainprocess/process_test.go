package mainprocess_test

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/mainprocess"
)

func TestEncode(t *testing.T) {
	for _, c := range []struct {
		name string
		m    mainprocess.Process
		want string
	}{
		{"a command", mainprocess.Process{Command: []string{"/bin/run", "a b", ""}}, `{"version":1,"command":["/bin/run","a b",""],"tty":false}`},
		{"a terminal", mainprocess.Process{Command: []string{"sh"}, TTY: true}, `{"version":1,"command":["sh"],"tty":true}`},
		{"no command", mainprocess.Process{}, `{"version":1,"command":["/bin/bash","-l"],"tty":true}`},
		{"no command, but the rest", mainprocess.Process{Command: []string{}, AwaitAttachment: true}, `{"version":1,"command":["/bin/bash","-l"],"tty":true,"await_main_process_attachment":true}`},
		{"waiting", mainprocess.Process{Command: []string{"sh"}, AwaitAttachment: true}, `{"version":1,"command":["sh"],"tty":false,"await_main_process_attachment":true}`},
		{"signs of HTML", mainprocess.Process{Command: []string{"<&>"}}, `{"version":1,"command":["<&>"],"tty":false}`},
		{"another alphabet", mainprocess.Process{Command: []string{"größe"}}, `{"version":1,"command":["größe"],"tty":false}`},
	} {
		got, err := mainprocess.Encode(c.m)
		if err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
	for name, command := range map[string][]string{
		"an empty program": {""}, "a NUL": {"a", "b\x00c"}, "no UTF-8": {"a\xff"}, "too much": {strings.Repeat("a", mainprocess.MaxBytes)},
	} {
		if got, err := mainprocess.Encode(mainprocess.Process{Command: command}); err == nil || got != "" {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestDecode(t *testing.T) {
	const valid = `{"version":1,"command":["/bin/run"],"tty":true}`
	for _, c := range []struct{ name, spec, problem string }{
		{"valid", valid, ""},
		{"with spaces", ` { "tty" : true , "command" : [ "/bin/run" ] , "version" : 1 } `, ""},
		{"encoded", "base64url:" + base64.RawURLEncoding.EncodeToString([]byte(valid)), ""},
		{"not waiting", `{"version":1,"command":["/bin/run"],"tty":true,"await_main_process_attachment":false}`, ""},
		{"nothing", "", "missing"},
		{"no JSON", "{", "not a JSON object"},
		{"null", "null", "not a JSON object"},
		{"a list", "[]", "not a JSON object"},
		{"something behind it", valid + "x", "not a JSON object"},
		{"padded", "base64url:" + base64.URLEncoding.EncodeToString([]byte(valid+"  ")), "base64url"},
		{"with a line break in it", "base64url:" + "eyJ2ZXJzaW9uIjox\nLCJjb21tYW5kIjpbIi9iaW4vcnVuIl0sInR0eSI6dHJ1ZX0", "base64url"},
		{"nothing encoded", "base64url:", "not a JSON object"},
		{"encoded twice", "base64url:" + base64.RawURLEncoding.EncodeToString([]byte("base64url:e30")), "not a JSON object"},
		{"no version", `{"command":["a"],"tty":false}`, "has no version"},
		{"another version", `{"version":2,"command":["a"],"tty":false}`, "version 2"},
		{"a version that is text", `{"version":"1","command":["a"],"tty":false}`, "version of the wrong type"},
		{"half a version", `{"version":1.5,"command":["a"],"tty":false}`, "version of the wrong type"},
		{"no command", `{"version":1,"tty":false}`, "has no command"},
		{"a command that is text", `{"version":1,"command":"a","tty":false}`, "command of the wrong type"},
		{"a command of null", `{"version":1,"command":null,"tty":false}`, "command of the wrong type"},
		{"null in the command", `{"version":1,"command":["a",null],"tty":false}`, "command of the wrong type"},
		{"a number in the command", `{"version":1,"command":["a",1],"tty":false}`, "command of the wrong type"},
		{"an empty program", `{"version":1,"command":["","a"],"tty":false}`, "first element"},
		{"a NUL", `{"version":1,"command":["a","\u0000"],"tty":false}`, "element 1"},
		{"no terminal", `{"version":1,"command":["a"]}`, "has no tty"},
		{"a terminal of null", `{"version":1,"command":["a"],"tty":null}`, "tty of the wrong type"},
		{"another case", `{"version":1,"Command":["a"],"tty":false}`, "has no command"},
		{"another field", `{"version":1,"command":["a"],"tty":false,"user":"root"}`, `field "user"`},
		{"no UTF-8", "{\"version\":1,\"command\":[\"\xff\"],\"tty\":false}", "not a JSON object"},
		{"too long", `{"version":1,"command":["a"],"tty":false}` + strings.Repeat(" ", mainprocess.MaxBytes), "longer"},
		{"far too long", strings.Repeat(" ", 2*mainprocess.MaxBytes), "longer"},
	} {
		got, err := mainprocess.Decode(c.spec)
		switch {
		case c.problem == "" && (err != nil || !reflect.DeepEqual(got, mainprocess.Process{Command: []string{"/bin/run"}, TTY: true})):
			t.Errorf("%s: %+v, %v", c.name, got, err)
		case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%s: error %v, want %q", c.name, err, c.problem)
		}
	}
	got, err := mainprocess.Decode(`{"version":1,"command":[],"tty":false}`)
	if err != nil || !reflect.DeepEqual(got, mainprocess.Process{Command: []string{"/bin/bash", "-l"}, TTY: true}) {
		t.Errorf("no command: %+v, %v", got, err)
	}
}

// FuzzDecode: what is taken comes back the same, and is what encoding/json reads as well.
func FuzzDecode(f *testing.F) {
	f.Add(`{"version":1,"command":["/bin/run","--all"],"tty":false}`)
	f.Add(`{"version":1,"command":["a"],"tty":true,"await_main_process_attachment":true}`)
	f.Add("base64url:eyJ2ZXJzaW9uIjoxLCJjb21tYW5kIjpbIi9iaW4vcnVuIl0sInR0eSI6dHJ1ZX0")
	f.Add(`{"version":1,"command":[],"tty":false}`)
	f.Fuzz(func(t *testing.T, spec string) {
		m, err := mainprocess.Decode(spec)
		if err != nil {
			return
		}
		if len(m.Command) == 0 || m.Command[0] == "" {
			t.Fatalf("%q has no program", spec)
		}
		again, err := mainprocess.Encode(m)
		if err != nil {
			if len(spec) > mainprocess.MaxBytes/6 {
				return // writing it anew may make it longer
			}
			t.Fatalf("%q was read and cannot be written: %v", spec, err)
		}
		back, err := mainprocess.Decode(again)
		if err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%q became %q: %v", spec, again, err)
		}
		var plain struct {
			Version int
			Command []string
			TTY     bool
		}
		if err := json.Unmarshal([]byte(again), &plain); err != nil || plain.Version != 1 || !reflect.DeepEqual(plain.Command, m.Command) || plain.TTY != m.TTY {
			t.Fatalf("%q reads as %+v, %v", again, plain, err)
		}
	})
}
