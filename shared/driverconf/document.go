package driverconf

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

const (
	// maxKeys bounds the parts of keys in a file. The TOML decoder finds
	// duplicates by comparing siblings one by one: 100,000 keys in one table,
	// which fit in 1 MiB, keep it busy for a quarter of a minute.
	maxKeys = 10_000
	// maxIndexedDepth is deeper than any key that a message can name.
	maxIndexedDepth = 8
)

// document is a parsed settings file: its values and the line of each key.
type document struct {
	name string
	tree map[string]any
	// explicit holds the line of keys and table headers, implied that of tables
	// which only the dotted key of a child mentions.
	explicit, implied map[string]int
}

// parseDocument reads TOML text. Values come from the decoder, lines from the
// parser below it, since the decoder tells lines only for what it rejects.
func parseDocument(name string, text []byte) (*document, *Problem) {
	fail := func(line int, text string) (*document, *Problem) {
		return nil, &Problem{Origin: Origin{Kind: OriginFile, Name: name, Line: line}, Text: text}
	}
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		return fail(1, "starts with a byte order mark; save the file as UTF-8 without it")
	}
	if at := invalidUTF8(text); at >= 0 {
		return fail(1+bytes.Count(text[:at], []byte("\n")), "is not UTF-8 text; save the file as UTF-8")
	}
	doc := &document{name: name, explicit: map[string]int{}, implied: map[string]int{}}
	parts, syntaxErr := doc.index(text)
	if parts > maxKeys {
		return fail(0, fmt.Sprintf("has more than %d keys; a gateway's settings have a few hundred", maxKeys))
	}
	if err := toml.Unmarshal(text, &doc.tree); err != nil {
		var where *toml.DecodeError
		line := 0
		if errors.As(err, &where) {
			line, _ = where.Position()
		}
		return fail(line, "is not valid TOML: "+strings.TrimPrefix(err.Error(), "toml: "))
	}
	if syntaxErr != nil {
		return fail(0, "is not valid TOML: "+syntaxErr.Error())
	}
	return doc, nil
}

func invalidUTF8(text []byte) int {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size <= 1 {
			return at
		}
		at += size
	}
	return -1
}

// lineIndex collects the lines of one document.
type lineIndex struct {
	doc      *document
	newlines []int
	parts    int
}

// index fills the lines and returns how many parts of keys it saw. It stops
// early once there are too many.
func (d *document) index(text []byte) (int, error) {
	x := &lineIndex{doc: d}
	for i, c := range text {
		if c == '\n' {
			x.newlines = append(x.newlines, i)
		}
	}
	var p unstable.Parser
	p.Reset(text)
	var header []string
	for p.NextExpression() && x.parts <= maxKeys {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			header = x.path(nil, e)
		case unstable.KeyValue:
			x.keyValue(header, e)
		}
	}
	return x.parts, p.Error()
}

func (x *lineIndex) keyValue(table []string, e *unstable.Node) {
	path := x.path(table, e)
	x.value(path, e.Value())
}

func (x *lineIndex) value(path []string, v *unstable.Node) {
	if v.Kind != unstable.InlineTable && v.Kind != unstable.Array {
		return
	}
	children := v.Children()
	for children.Next() && x.parts <= maxKeys {
		switch c := children.Node(); c.Kind {
		case unstable.KeyValue:
			x.keyValue(path, c)
		default:
			x.value(path, c)
		}
	}
}

// path returns the key of a table header or of a key with its table in front,
// and remembers its line.
func (x *lineIndex) path(table []string, e *unstable.Node) []string {
	path := append([]string(nil), table...)
	line := 0
	for key := e.Key(); key.Next(); x.parts++ {
		part := key.Node()
		if line == 0 {
			line = 1 + sort.SearchInts(x.newlines, int(part.Raw.Offset))
		}
		if len(path) < maxIndexedDepth {
			path = append(path, string(part.Data))
		}
	}
	key := ""
	for i, part := range path {
		key = joinKey(key, part)
		lines := x.doc.implied
		if i == len(path)-1 {
			lines = x.doc.explicit
		}
		if _, seen := lines[key]; !seen {
			lines[key] = line
		}
	}
	return path
}

// origin tells where the file sets key. A key whose own line is not known, such
// as an element of an array, has the line of the nearest table around it.
func (d *document) origin(key string) Origin {
	o := Origin{Kind: OriginFile, Name: d.name}
	for key != "" {
		if line, ok := d.explicit[key]; ok {
			o.Line = line
			break
		}
		if line, ok := d.implied[key]; ok {
			o.Line = line
			break
		}
		key = parentKey(key)
	}
	return o
}
