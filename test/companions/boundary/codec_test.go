package boundary

import (
	"bytes"
	"testing"
)

func TestCodec(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data, wire []byte
	}{
		"two bytes": {[]byte("hi"), []byte{0x0a, 2, 'h', 'i'}},
		"none":      {nil, []byte{0x0a, 0}},
		"many":      {bytes.Repeat([]byte{7}, 300), append([]byte{0x0a, 0xac, 0x02}, bytes.Repeat([]byte{7}, 300)...)},
	} {
		wire, err := Codec{}.Marshal(&chunk{data: tc.data})
		if err != nil || !bytes.Equal(wire, tc.wire) {
			t.Errorf("%s: encoded as %x, %v", name, wire, err)
		}
		var c chunk
		if err := (Codec{}).Unmarshal(tc.wire, &c); err != nil || !bytes.Equal(c.data, tc.data) {
			t.Errorf("%s: decoded as %x, %v", name, c.data, err)
		}
	}
	for name, wire := range map[string][]byte{
		"another field": {0x12, 1, 'x'}, "cut": {0x0a, 2, 'x'}, "two fields": {0x0a, 1, 'x', 0x0a, 1, 'y'},
		"no length": {0x0a}, "endless length": {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		c := chunk{data: []byte("old")}
		if err := (Codec{}).Unmarshal(wire, &c); err == nil || c.data != nil {
			t.Errorf("%s is decoded as %x", name, c.data)
		}
	}
	var c chunk
	if err := (Codec{}).Unmarshal(nil, &c); err != nil {
		t.Errorf("the empty message: %v", err)
	}
	if _, err := (Codec{}).Marshal("x"); err == nil {
		t.Error("a string is encoded as a chunk")
	}
}

// FuzzUnmarshal: a chunk that is read is written the same again.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte{0x0a, 2, 'h', 'i'})
	f.Add([]byte{0x0a, 0x80, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		var c, again chunk
		if err := (Codec{}).Unmarshal(in, &c); err != nil {
			return
		}
		wire, err := Codec{}.Marshal(&c)
		if err != nil {
			t.Fatal(err)
		}
		// Lengths can be written longer than they need to be.
		if err := (Codec{}).Unmarshal(wire, &again); err != nil || !bytes.Equal(again.data, c.data) || len(wire) > max(2, len(in)) {
			t.Fatalf("%x was read as %x and written as %x, %v", in, c.data, wire, err)
		}
	})
}
