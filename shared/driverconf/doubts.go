package driverconf

import "strings"

// doubts remembers which settings do not have the value that was meant for them,
// so that no rule judges what stands in its place.
type doubts struct {
	unread bool            // the file said nothing that could be understood
	failed map[string]bool // keys and tables that were not understood
	inside map[string]bool // what holds a failed one
	meant  map[string]bool // keys and tables that an unknown name was probably meant for
}

func newDoubts() doubts {
	return doubts{failed: map[string]bool{}, inside: map[string]bool{}, meant: map[string]bool{}}
}

func (d *doubts) fail(key string) {
	d.failed[key] = true
	for p := parentKey(key); p != ""; p = parentKey(p) {
		d.inside[p] = true
	}
}

// slip notes which key an unknown one was probably meant for.
func (d *doubts) slip(key string) { d.meant[key] = true }

// known tells whether the effective value of key is the one that was meant. A
// flag or variable that was understood settles it, whatever the file says below it.
func (l *loader) known(key string) bool {
	kind := l.originOf(key).Kind
	switch {
	case kind == OriginEnv || kind == OriginFlag:
		return true
	case l.unread || l.inside[key]:
		return false
	}
	for ; key != ""; key = parentKey(key) {
		if l.failed[key] || l.meant[key] && kind == OriginDefault {
			return false
		}
	}
	return true
}

// parentKey cuts the last part off a dotted key, or the index off an element.
// The rest of a quoted part with dots in it is no key of anything, so it does no harm.
func parentKey(key string) string { return key[:max(strings.LastIndexAny(key, ".["), 0)] }
