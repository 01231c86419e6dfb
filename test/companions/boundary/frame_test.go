package boundary_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

func head(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// unread fails the test when a body is read that should have been refused by its length.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body is read before its length is refused")
	return 0, io.EOF
}

func TestReadFrame(t *testing.T) {
	t.Parallel()
	longest := bytes.Repeat([]byte("x"), boundary.MaxFrame)
	for name, tc := range map[string]struct {
		in   []byte
		want []byte
		kind boundary.Kind
		err  error
	}{
		"one byte":      {in: append(head(1), 'x'), want: []byte("x")},
		"the longest":   {in: append(head(boundary.MaxFrame), longest...), want: longest},
		"too long":      {in: head(boundary.MaxFrame + 1), kind: boundary.Invalid},
		"far too long":  {in: head(1<<32 - 1), kind: boundary.Invalid},
		"empty":         {in: head(0), kind: boundary.Invalid},
		"nothing":       {in: nil, err: io.EOF},
		"half a length": {in: head(1)[:2], err: io.ErrUnexpectedEOF},
		"no body":       {in: head(1), err: io.ErrUnexpectedEOF},
		"half a body":   {in: append(head(4), 'a', 'b'), err: io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := iotest.OneByteReader(bytes.NewReader(tc.in))
			if tc.kind != "" {
				in = io.MultiReader(in, unread{t})
			}
			got, err := boundary.ReadFrame(in)
			if !bytes.Equal(got, tc.want) || !refusedAs(err, tc.kind, tc.err) {
				t.Fatalf("%d bytes, %v; want %d bytes, kind %q or error %v", len(got), err, len(tc.want), tc.kind, tc.err)
			}
		})
	}
}

func TestReadStream(t *testing.T) {
	t.Parallel()
	frame := func(channel byte, n uint32, body ...byte) []byte {
		return append(append([]byte{channel}, head(n)...), body...)
	}
	for name, tc := range map[string]struct {
		in   []byte
		want string
		kind boundary.Kind
		err  error
	}{
		"stdin":         {in: frame(0, 2, 'h', 'i'), want: "hi"},
		"empty":         {in: frame(4, 0)},
		"no channel":    {in: frame(6, 0), kind: boundary.Invalid},
		"too long":      {in: frame(1, boundary.MaxStream+1), kind: boundary.Invalid},
		"nothing":       {err: io.EOF},
		"half a head":   {in: frame(1, 3)[:3], err: io.ErrUnexpectedEOF},
		"half a body":   {in: frame(1, 3, 'a'), err: io.ErrUnexpectedEOF},
		"only a header": {in: frame(1, 3), err: io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := io.Reader(bytes.NewReader(tc.in))
			if tc.kind != "" {
				in = io.MultiReader(in, unread{t})
			}
			_, got, err := boundary.ReadStream(in)
			if string(got) != tc.want || !refusedAs(err, tc.kind, tc.err) {
				t.Fatalf("%q, %v; want %q, kind %q or error %v", got, err, tc.want, tc.kind, tc.err)
			}
		})
	}
}

func refusedAs(err error, kind boundary.Kind, sentinel error) bool {
	var f *boundary.Failure
	if kind != "" {
		return errors.As(err, &f) && f.Kind == kind
	}
	return errors.Is(err, sentinel) && !errors.As(err, &f)
}

func TestWriteStreamSplits(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, boundary.MaxStream, boundary.MaxStream + 1, 3*boundary.MaxStream + 7} {
		var wire bytes.Buffer
		body := bytes.Repeat([]byte("abc"), n)[:n]
		if err := boundary.WriteStream(&wire, boundary.Stdout, body); err != nil {
			t.Fatal(err)
		}
		got, frames := []byte{}, 0
		for {
			channel, part, err := boundary.ReadStream(&wire)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || channel != boundary.Stdout {
				t.Fatalf("%d bytes: channel %d, %v", n, channel, err)
			}
			got, frames = append(got, part...), frames+1
		}
		if want := max(1, (n+boundary.MaxStream-1)/boundary.MaxStream); frames != want || !bytes.Equal(got, body) {
			t.Errorf("%d bytes came as %d in %d frames, want %d", n, len(got), frames, want)
		}
	}
	if err := boundary.WriteFrame(io.Discard, make([]byte, boundary.MaxFrame+1)); !refusedAs(err, boundary.Invalid, nil) {
		t.Errorf("a frame too long is written: %v", err)
	}
}

// FuzzReadFrame: whatever is read was written so, and no more than that was taken.
func FuzzReadFrame(f *testing.F) {
	f.Add(append(head(2), "{}..."...))
	f.Add(head(1 << 31))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		frame, err := boundary.ReadFrame(r)
		if err != nil {
			if frame != nil {
				t.Fatal("a frame and an error")
			}
			return
		}
		var again bytes.Buffer
		if err := boundary.WriteFrame(&again, frame); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Bytes(), in[:len(in)-r.Len()]) {
			t.Fatalf("%x was read from %x", again.Bytes(), in)
		}
		// What was read is judged next; that must hold whatever it is.
		if e, failure := boundary.Open(frame); failure == nil {
			if digest, err := boundary.Digest(e.Request); err != nil || digest != e.PayloadDigest || !boundary.IsUUID(e.RequestID) {
				t.Fatalf("accepted %q", frame)
			}
		}
	})
}

// FuzzReadStream is FuzzReadFrame for stream frames.
func FuzzReadStream(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 2, 'h', 'i', '.'})
	f.Add([]byte{9, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		channel, b, err := boundary.ReadStream(r)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := boundary.WriteStream(&again, channel, b); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Bytes(), in[:len(in)-r.Len()]) {
			t.Fatalf("%x was read from %x", again.Bytes(), in)
		}
	})
}
