package driverconf

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OriginKind tells which layer an effective value came from.
type OriginKind int

// The layers, weakest first. The zero value stands for a key that does not exist.
const (
	OriginUnknown OriginKind = iota
	OriginDefault
	OriginFile
	OriginEnv
	OriginFlag
)

// Origin is the place an effective value came from.
type Origin struct {
	Kind OriginKind
	// Name is the file's path, the variable's name or the flag with its dashes.
	Name string
	// Line is the 1-based line in the file, 0 when it is not known.
	Line int
}

// String renders the origin for a person, always on one line.
func (o Origin) String() string {
	switch o.Kind {
	case OriginDefault:
		return "default"
	case OriginFile:
		if o.Line > 0 {
			return oneLine(o.Name) + ":" + strconv.Itoa(o.Line)
		}
		return oneLine(o.Name)
	case OriginEnv:
		return "environment variable " + oneLine(o.Name)
	case OriginFlag:
		return "flag " + oneLine(o.Name)
	default:
		return "unknown"
	}
}

// Problem is one thing that is wrong with the settings.
type Problem struct {
	// Key is the full dotted key, for example
	// openshell.drivers.kubernetes.gateway_id. Settings that exist only as a flag
	// carry the flag with its dashes. Empty when the place is no key (a syntax error).
	Key string
	// Origin is the place to correct. OriginDefault means that nobody set the key.
	Origin Origin
	// Text says what is wrong and what to do. It never holds a credential.
	Text string
}

// String renders the problem on one line.
func (p Problem) String() string {
	text := oneLine(p.Text)
	switch {
	case p.Key == "" && p.Origin.Kind == OriginUnknown:
		return text
	case p.Key == "":
		return p.Origin.String() + ": " + text
	case p.Origin.Kind == OriginUnknown || p.Origin.Kind == OriginDefault:
		return p.Key + ": " + text
	default:
		return p.Key + " (" + p.Origin.String() + "): " + text
	}
}

// maxProblems is how many problems are told; a file of another kind, given by
// mistake, could hold any number.
const maxProblems = 500

// Problems is every problem that one Load found, up to 500 and then their
// number. It is never empty when returned as an error, and it is ordered by key,
// then place, then text.
type Problems []Problem

// Error renders one line per problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			strings.Compare(a.Key, b.Key),
			cmp.Compare(a.Origin.Kind, b.Origin.Kind),
			cmp.Compare(a.Origin.Line, b.Origin.Line),
			strings.Compare(a.Origin.Name, b.Origin.Name),
			strings.Compare(a.Text, b.Text),
		)
	})
	if rest := len(ps) - maxProblems; rest > 0 {
		ps = append(ps[:maxProblems:maxProblems], Problem{Text: fmt.Sprintf("and %d more problems", rest)})
	}
	return ps
}

// oneLine replaces control characters, so that no input can forge a second line
// of output, and shortens what no terminal could show.
func oneLine(s string) string {
	const limit = 600
	if len(s) > limit {
		cut := limit
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}

// quote shows a value that is no secret inside a message.
func quote(s string) string {
	const limit = 80
	if len(s) <= limit {
		return strconv.Quote(s)
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%q... (%d bytes)", s[:cut], len(s))
}

// joinKey appends one part to a dotted key, quoted as TOML does when the part
// is not a bare key.
func joinKey(prefix, part string) string {
	if !isBareKey(part) {
		part = quote(part)
	}
	switch prefix {
	case "", flagPrefix:
		return prefix + part
	default:
		return prefix + "." + part
	}
}

func isBareKey(s string) bool {
	if s == "" || len(s) > 80 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
