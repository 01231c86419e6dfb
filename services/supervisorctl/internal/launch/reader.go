package launch

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// reader walks over one JSON text that is valid, valid UTF-8 and free of escapes. encoding/json would not do: it takes
// names in any case and the last of two that are equal, and it leaves copies of the tokens behind that nobody can wipe.
type reader struct {
	text []byte
	at   int
}

// open checks what reader relies on.
func open(text []byte) (*reader, error) {
	switch {
	case len(text) == 0:
		return nil, refuse(root, "is empty; the gateway has to send a bundle with each create and start, which it does when it has a key for session tokens")
	case len(text) > MaxBytes:
		return nil, refuse(root, "is longer than "+strconv.Itoa(MaxBytes)+" bytes")
	case !utf8.Valid(text):
		return nil, refuse(root, "is not valid UTF-8")
	case !json.Valid(text):
		return nil, refuse(root, "is not one JSON value")
	case bytes.IndexByte(text, '\\') >= 0:
		return nil, refuse(root, "holds a string with an escape, which no field needs")
	}
	return &reader{text: text}, nil
}

// peek returns the first byte of what comes next, and 0 behind the end.
func (r *reader) peek() byte {
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take steps over a byte if it is the next one.
func (r *reader) take(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.at++
	return true
}

// quoted steps over a string, which is next, and returns what is between its quotes.
func (r *reader) quoted() []byte {
	r.at++
	start := r.at
	r.at += bytes.IndexByte(r.text[start:], '"') + 1
	return r.text[start : r.at-1]
}

// kind names what comes next, for an error.
func (r *reader) kind() string {
	switch r.peek() {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

func (r *reader) wrong(path, want string) error {
	return refuse(path, "is "+r.kind()+", want "+want)
}

// member is one field of an object: its exact name and what reads its value.
type member struct {
	name string
	read func(path string) error
}

// object reads an object with exactly these members, in any order.
func (r *reader) object(path string, members ...member) error {
	if !r.take('{') {
		return r.wrong(path, "an object")
	}
	seen := make([]bool, len(members))
	for !r.take('}') {
		r.take(',')
		r.peek()
		name := r.quoted()
		r.take(':')
		i := slices.IndexFunc(members, func(m member) bool { return string(name) == m.name })
		if i < 0 {
			return refuse(path, "has the unknown field "+unknown(name)+"; gateway and driver are not of one version, or the bundle is not from a gateway")
		}
		if seen[i] {
			return refuse(under(path, members[i].name), "is there twice")
		}
		seen[i] = true
		if err := members[i].read(under(path, members[i].name)); err != nil {
			return err
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		return refuse(under(path, members[i].name), "is missing")
	}
	return nil
}

// unknown writes the name of a field that should not be there if it looks like the name of a field: what does not may be a
// secret that got into the wrong place.
func unknown(name []byte) string {
	const longest = 32
	for i, c := range name {
		if (c < 'a' || c > 'z') && (i == 0 || c != '_') || i == longest {
			return "(its name is not shown)"
		}
	}
	return strconv.Quote(string(name))
}

// array reads an array of 1 to most elements.
func (r *reader) array(path string, most int, element func(path string) error) error {
	if !r.take('[') {
		return r.wrong(path, "an array")
	}
	n := 0
	for ; !r.take(']'); n++ {
		r.take(',')
		if n == most {
			return refuse(path, "has more than "+strconv.Itoa(most)+" elements")
		}
		if err := element(path + "[" + strconv.Itoa(n) + "]"); err != nil {
			return err
		}
	}
	if n == 0 {
		return refuse(path, "is empty")
	}
	return nil
}

// str reads a string of 1 to most bytes. The result is a part of the text.
func (r *reader) str(path string, most int) ([]byte, error) {
	if r.peek() != '"' {
		return nil, r.wrong(path, "a string")
	}
	s := r.quoted()
	if len(s) == 0 {
		return nil, refuse(path, "is empty")
	}
	if len(s) > most {
		return nil, refuse(path, "is longer than "+strconv.Itoa(most)+" bytes")
	}
	return s, nil
}

// whole reads a number from least to most that is written with digits alone: 1.0 and 1e0 are whole numbers to a person and
// none to the stock reader.
func (r *reader) whole(path string, least, most uint64) (uint64, error) {
	if c := r.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, r.wrong(path, "a number")
	}
	start := r.at
	for r.at < len(r.text) && numeric(r.text[r.at]) {
		r.at++
	}
	n, err := strconv.ParseUint(string(r.text[start:r.at]), 10, 64)
	if err != nil || n < least || n > most {
		return 0, refuse(path, "is no whole number from "+strconv.FormatUint(least, 10)+" to "+strconv.FormatUint(most, 10)+
			" without sign, fraction and exponent")
	}
	return n, nil
}

// numeric reports the bytes of JSON numbers.
func numeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// octets reads an array of 1 to most numbers from 0 to 255.
func (r *reader) octets(path string, most int) ([]byte, error) {
	var out []byte
	err := r.array(path, most, func(path string) error {
		n, err := r.whole(path, 0, math.MaxUint8)
		out = append(out, byte(n))
		return err
	})
	return out, err
}
