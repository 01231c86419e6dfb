package secret

import (
	"bytes"
	"crypto/subtle"
	"sync"
)

// Value holds secret bytes and prints as [Marker].
//
// The zero Value holds nothing: IsZero is true, Equal is false for every other
// Value, Expose returns nil. Copies of a Value share their bytes, so Wipe on one
// wipes all. A Value is safe for concurrent use, except that UnmarshalText, like
// any assignment, must not run beside other uses of the same variable.
//
// Values cannot be compared with == (the compiler refuses) and
// reflect.DeepEqual reports set Values as different; use Equal.
type Value struct {
	// The bytes sit behind a function and not a pointer: fmt, when it meets an
	// unexported field, cannot call our methods and walks the memory by
	// reflection. It follows pointers for mismatched verbs and prints what it
	// finds; of a function it can print the address only.
	open func() *sealed
}

// sealed is the storage that all copies of one Value share.
type sealed struct {
	mu    sync.RWMutex
	bytes []byte
}

// New returns a Value that holds a copy of b. The caller still owns b and should
// clear it. An empty b gives the zero Value.
func New(b []byte) Value {
	if len(b) == 0 {
		return Value{}
	}
	s := &sealed{bytes: bytes.Clone(b)}
	return Value{open: func() *sealed { return s }}
}

// Expose returns a copy of the secret bytes, nil when there are none. It is the
// only way out: name the reason beside each call, and clear the copy after use.
func (v Value) Expose() []byte {
	if v.open == nil {
		return nil
	}
	s := v.open()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return bytes.Clone(s.bytes)
}

// IsZero reports that the Value holds no bytes: it was never set, or was wiped.
func (v Value) IsZero() bool {
	if v.open == nil {
		return true
	}
	s := v.open()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.bytes) == 0
}

// Equal reports whether both Values hold the same bytes and at least one byte:
// an absent secret equals nothing, not even another absent one, so that a
// comparison can never admit by omission. The time taken depends on the lengths
// but not on the contents.
func (v Value) Equal(other Value) bool {
	a, b := v.Expose(), other.Expose()
	defer clear(a)
	defer clear(b)
	return len(a) > 0 && subtle.ConstantTimeCompare(a, b) == 1
}

// Wipe overwrites the bytes with zeros and makes this Value and all its copies
// zero. Slices that Expose returned earlier are copies and stay; so do copies that
// other libraries made.
func (v Value) Wipe() {
	if v.open == nil {
		return
	}
	s := v.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.bytes)
	s.bytes = nil
}
