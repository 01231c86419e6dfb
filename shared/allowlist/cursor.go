package allowlist

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// cursor reads the one canonical JSON form of a payload: fields in a fixed order, no white space, numbers without
// sign, fraction, exponent or leading zero, strings with \" and \\ as the only escapes. It stops at the first
// problem; every later call does nothing and returns a zero value, so that a decoder reads straight through and
// looks at err at the end and in its loops.
type cursor struct {
	s    string
	at   int
	what string // "snapshot payload"
	err  error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%s, byte %d: %s", c.what, c.at, fmt.Sprintf(format, args...))
	}
}

// literal reads exactly s.
func (c *cursor) literal(s string) {
	if c.err != nil || c.skip(s) {
		return
	}
	if c.at == len(c.s) {
		c.fail("it ends where %q is due", s)
		return
	}
	c.fail("found %s where %q is due", quote(c.ahead()), s)
}

// skip reads s when it is next.
func (c *cursor) skip(s string) bool {
	if c.err != nil || !strings.HasPrefix(c.s[c.at:], s) {
		return false
	}
	c.at += len(s)
	return true
}

// ahead is what stands at the cursor, cut short.
func (c *cursor) ahead() string { return c.s[c.at:min(c.at+20, len(c.s))] }

// object reads the fields of one object. order is all the names that the object may have.
type object struct {
	*cursor
	order []string
	next  int
}

func (c *cursor) object(order ...string) *object {
	c.literal("{")
	return &object{cursor: c, order: order}
}

// field reads the name of the next field, which must be name.
func (o *object) field(name string) {
	if o.err != nil {
		return
	}
	start := o.at
	if o.next > 0 && !o.skip(",") || !o.skip(`"`) || !o.skip(name) || !o.skip(`":`) {
		o.at = start
		o.misplaced(name)
		return
	}
	o.next++
}

// optional reads the name of a field that may be absent.
func (o *object) optional(name string) bool {
	if o.err != nil || !o.skip(`,"`+name+`":`) {
		return false
	}
	o.next++
	return true
}

func (o *object) end() {
	if o.err == nil && !o.skip("}") {
		o.misplaced("")
	}
}

// misplaced explains why want, or the end of the object when want is empty, is not here.
func (o *object) misplaced(want string) {
	due := "the end of the object"
	if want != "" {
		due = fmt.Sprintf("field %q", want)
	}
	rest := strings.TrimPrefix(o.s[o.at:], ",")
	name, _, isName := strings.Cut(strings.TrimPrefix(rest, `"`), `":`)
	switch {
	case rest == "":
		o.fail("it ends where %s is due", due)
	case strings.HasPrefix(rest, "}"):
		o.fail("%s is missing", due)
	case strings.ContainsAny(rest[:1], " \t\r\n"):
		o.fail("white space is not allowed; %s is due", due)
	case !strings.HasPrefix(rest, `"`) || !isName:
		o.fail("found %s where %s is due", quote(o.ahead()), due)
	case !slices.Contains(o.order, name):
		o.fail("unknown field %s where %s is due", quote(name), due)
	default:
		o.fail("field %q where %s is due: a field is missing, repeated or out of order", name, due)
	}
}

// whole reads an integer from low to high.
func (c *cursor) whole(low, high uint64) uint64 {
	start := c.at
	for c.err == nil && c.at < len(c.s) && c.s[c.at] >= '0' && c.s[c.at] <= '9' {
		c.at++
	}
	digits := c.s[start:c.at]
	if c.err != nil {
		return 0
	}
	if digits == "" || len(digits) > 1 && digits[0] == '0' {
		c.at = start
		c.fail("found %s where a whole number is due", quote(c.ahead()))
		return 0
	}
	var n uint64
	for i := range len(digits) {
		// high is far below the range of uint64, so this cannot wrap before it stops.
		if n = 10*n + uint64(digits[i]-'0'); n > high {
			break
		}
	}
	if n < low || n > high {
		c.at = start
		c.fail("the number %s is not between %d and %d", quote(digits), low, high)
		return 0
	}
	return n
}

// text reads a string and checks it with problem, which gets the unescaped text.
func (c *cursor) text(problem func(string) string) string {
	start := c.at
	c.literal(`"`)
	value, escaped := c.at, false
	for {
		if c.err != nil {
			return ""
		}
		i := strings.IndexByte(c.s[c.at:], '"')
		if i < 0 {
			c.at = start
			c.fail("a string does not end")
			return ""
		}
		escape := strings.IndexByte(c.s[c.at:c.at+i], '\\')
		if escape < 0 {
			c.at += i
			break
		}
		c.at += escape
		if !c.skip(`\"`) && !c.skip(`\\`) {
			c.fail(`the escape %s is not canonical; only \" and \\ are`, quote(c.s[c.at:min(c.at+2, len(c.s))]))
			return ""
		}
		escaped = true
	}
	s := c.s[value:c.at]
	if escaped {
		s = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(s)
	}
	if p := problem(s); p != "" {
		c.at = start
		c.fail("%s %s", quote(s), p)
		return ""
	}
	c.at++
	return s
}

// word reads a string that must be one of words.
func (c *cursor) word(words ...string) string {
	return c.text(func(s string) string {
		if slices.Contains(words, s) {
			return ""
		}
		return "is not one of " + strings.Join(words, ", ")
	})
}

func (c *cursor) digest() (d Digest) {
	c.text(func(s string) string {
		var err error
		if d, err = ParseDigest(s); err != nil {
			return err.Error()
		}
		return ""
	})
	return d
}

func (c *cursor) instant() (t time.Time) {
	c.text(func(s string) string {
		var err error
		if t, err = time.Parse(timeLayout, s); err != nil || t.Format(timeLayout) != s || !writable(t) {
			return "is not a time in UTC with milliseconds, such as 2006-01-02T15:04:05.000Z, from 1970 to 9999"
		}
		return ""
	})
	return t
}

// done requires that nothing follows.
func (c *cursor) done() error {
	if c.err == nil && c.at != len(c.s) {
		c.fail("%d bytes follow the end", len(c.s)-c.at)
	}
	return c.err
}
