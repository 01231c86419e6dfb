package mainprocess

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxBytes is how many bytes the text of a main process may have: Linux starts no process with a longer variable than
// 128 KiB, and the name takes some.
const MaxBytes = 120 << 10

const (
	currentVersion = 1
	base64Prefix   = "base64url:"
)

// Process is what the supervisor starts in the workload.
type Process struct {
	// Command is exec's; its first element is not empty. No command at all is a login shell on a terminal.
	Command []string
	// TTY asks for a terminal.
	TTY bool
	// AwaitAttachment holds the process back until somebody attaches; for a create only (contract 2.5).
	AwaitAttachment bool
}

// form is the supervisor's form. The last field is written only when it is true, because older supervisors do
// not know it.
type form struct {
	Version         int      `json:"version"`
	Command         []string `json:"command"`
	TTY             bool     `json:"tty"`
	AwaitAttachment bool     `json:"await_main_process_attachment,omitempty"`
}

func (m Process) orShell() Process {
	if len(m.Command) == 0 {
		return Process{Command: []string{"/bin/bash", "-l"}, TTY: true, AwaitAttachment: m.AwaitAttachment}
	}
	return m
}

func (m Process) check() error {
	if m.Command[0] == "" {
		return errors.New("the first element of the command must not be empty")
	}
	for i, argument := range m.Command {
		if strings.ContainsRune(argument, 0) || !utf8.ValidString(argument) {
			return fmt.Errorf("element %d of the command is not UTF-8 text without NUL", i)
		}
	}
	return nil
}

// Encode makes the value of OPENSHELL_MAIN_PROCESS_SPEC and of the annotation that keeps it for restarts
// (contract 4.4, 7.6). The command is in no error: it may hold what its caller wants kept.
func Encode(m Process) (string, error) {
	m = m.orShell()
	if err := m.check(); err != nil {
		return "", err
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(form{currentVersion, m.Command, m.TTY, m.AwaitAttachment}); err != nil {
		return "", errors.New("the command cannot be written as JSON")
	}
	spec := strings.TrimSuffix(text.String(), "\n")
	if len(spec) > MaxBytes {
		return "", fmt.Errorf("the command needs %d bytes, and at most %d can be passed to the supervisor", len(spec), MaxBytes)
	}
	return spec, nil
}

// Decode reads such a value as the supervisor does, in either of its forms: the JSON itself, or "base64url:" and
// its unpadded encoding. It is stricter in one thing: a field that it does not know is an error, since it would be lost.
// An empty command is a login shell, as when it is written; an empty text is an error.
func Decode(spec string) (Process, error) {
	if spec == "" {
		return Process{}, errors.New("is missing")
	}
	if len(spec) > base64.RawURLEncoding.EncodedLen(MaxBytes)+len(base64Prefix) {
		return Process{}, fmt.Errorf("is longer than the %d bytes that can be passed to the supervisor", MaxBytes)
	}
	text := []byte(spec)
	if encoded, found := strings.CutPrefix(spec, base64Prefix); found {
		decoded, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
		if err != nil || strings.ContainsAny(encoded, "\r\n") { // the decoder of the library skips line breaks
			return Process{}, errors.New("is not base64url without padding behind its prefix")
		}
		text = decoded
	}
	if len(text) > MaxBytes {
		return Process{}, fmt.Errorf("is longer than the %d bytes that can be passed to the supervisor", MaxBytes)
	}
	m, err := parse(text)
	if err != nil {
		return Process{}, err
	}
	m = m.orShell()
	return m, m.check()
}

// parse looks the names up in a map, because encoding/json would take them in any case, and the supervisor does
// not.
func parse(text []byte) (Process, error) {
	var fields map[string]json.RawMessage
	if !utf8.Valid(text) || json.Unmarshal(text, &fields) != nil || fields == nil {
		return Process{}, errors.New("is not a JSON object")
	}
	var version int
	var m Process
	for _, f := range []struct {
		name     string
		optional bool
		into     any
	}{
		{"version", false, &version},
		{"command", false, &m.Command},
		{"tty", false, &m.TTY},
		{"await_main_process_attachment", true, &m.AwaitAttachment},
	} {
		raw, found := fields[f.name]
		delete(fields, f.name)
		switch {
		case !found && f.optional:
		case !found:
			return Process{}, fmt.Errorf("has no %s", f.name)
		case holdsNull(raw) || json.Unmarshal(raw, f.into) != nil:
			return Process{}, fmt.Errorf("has a %s of the wrong type", f.name)
		}
	}
	if len(fields) > 0 {
		return Process{}, fmt.Errorf("has a field %.40q that is not known", slices.Sorted(maps.Keys(fields))[0])
	}
	if version != currentVersion {
		return Process{}, fmt.Errorf("has version %d, and only %d is known", version, currentVersion)
	}
	return m, nil
}

// holdsNull finds a null, itself or as an element, which encoding/json would take for an empty value.
func holdsNull(raw json.RawMessage) bool {
	var elements []json.RawMessage
	if string(raw) == "null" {
		return true
	}
	if json.Unmarshal(raw, &elements) != nil {
		return false
	}
	return slices.ContainsFunc(elements, func(e json.RawMessage) bool { return string(e) == "null" })
}
