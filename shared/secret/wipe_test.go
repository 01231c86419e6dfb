package secret

import (
	"bytes"
	"testing"
)

// TestWipeOverwrites looks at the memory itself, which no caller can reach.
func TestWipeOverwrites(t *testing.T) {
	v := New([]byte("token"))
	memory := v.open().bytes
	v.Wipe()
	if !bytes.Equal(memory, make([]byte, 5)) {
		t.Errorf("the bytes are %q after Wipe", memory)
	}
}
