package labelsource

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// wire reads protobuf fields from a stream.
type wire struct {
	in   *bufio.Reader
	left int64 // bytes that the message which is read may still have
	// broken is why the last byte could not be read.
	broken error
}

// ReadByte fulfils io.ByteReader within the message.
func (w *wire) ReadByte() (byte, error) {
	if w.left == 0 {
		w.broken = io.EOF
		return 0, io.EOF
	}
	w.left--
	b, err := w.in.ReadByte()
	w.broken = err
	return b, err
}

// fields calls field with each length-delimited field of a message and its size, and skips the others. An open message
// ends with the stream, any other when it is used up.
func (w *wire) fields(open bool, field func(number protowire.Number, size int64) error) error {
	for {
		if !open && w.left == 0 {
			return nil
		}
		if open {
			if _, err := w.in.Peek(1); errors.Is(err, io.EOF) {
				return nil
			}
		}
		tag, err := w.number()
		if err != nil {
			return err
		}
		number, form := protowire.DecodeTag(tag)
		if number < 1 {
			return malformed("it has a field without a number")
		}
		if form != protowire.BytesType {
			if err := w.skipScalar(form); err != nil {
				return err
			}
			continue
		}
		size, err := w.number()
		if err != nil {
			return err
		}
		if size > uint64(w.left) {
			return malformed("a part of it is longer than the whole")
		}
		if err := field(number, int64(size)); err != nil {
			return err
		}
	}
}

func (w *wire) number() (uint64, error) {
	n, err := binary.ReadUvarint(w)
	if err != nil && w.broken == nil {
		return 0, malformed("a number in it is larger than 64 bits")
	}
	return n, cutShort(w.broken)
}

func (w *wire) skipScalar(form protowire.Type) error {
	switch form {
	case protowire.VarintType:
		_, err := w.number()
		return err
	case protowire.Fixed32Type:
		return w.skip(4)
	case protowire.Fixed64Type:
		return w.skip(8)
	default:
		return malformed("it has a field of an unknown form")
	}
}

func (w *wire) skip(size int64) error {
	if size > w.left {
		return malformed("a part of it is longer than the whole")
	}
	w.left -= size
	_, err := io.CopyN(io.Discard, w.in, size)
	return cutShort(err)
}

// bytes appends the next size bytes to buf.
func (w *wire) bytes(buf []byte, size, limit int64) ([]byte, error) {
	if size > limit {
		return nil, malformed("a part of it has %d bytes, more than %d", size, limit)
	}
	w.left -= size
	buf = slices.Grow(buf, int(size))[:size]
	_, err := io.ReadFull(w.in, buf)
	return buf, cutShort(err)
}

// cutShort makes the end of the stream in the middle of something what it is.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed("it is cut short")
	}
	return err
}

// eachField calls field with each length-delimited field of a message.
func eachField(message []byte, field func(number protowire.Number, value []byte) error) error {
	for len(message) > 0 {
		number, form, n := protowire.ConsumeTag(message)
		if n < 0 {
			return malformed("%v", protowire.ParseError(n))
		}
		message = message[n:]
		if form != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, form, message); n < 0 {
				return malformed("%v", protowire.ParseError(n))
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return malformed("%v", protowire.ParseError(n))
		}
		if err := field(number, value); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}
