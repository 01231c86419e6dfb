package boundary

import (
	"encoding/binary"
	"errors"
	"io"
)

// MaxFrame is the greatest number of bytes of JSON in one frame (contract 13.5).
const MaxFrame = 1 << 20

// MaxStream is the greatest number of bytes in one stream frame (contract 13.5).
const MaxStream = 64 << 10

// Channel says what a stream frame carries.
type Channel uint8

// The channels (contract 13.5).
const (
	Stdin           Channel = 0
	Stdout          Channel = 1
	Stderr          Channel = 2
	Exited          Channel = 3 // an Exit as JSON; the last frame of a stream
	StdinClosed     Channel = 4
	NetworkDecision Channel = 5 // not used by the stand-ins
)

// ReadFrame reads one frame. It returns io.EOF when the stream ends before the frame begins, and an
// Invalid failure, before it reads the body, for a frame that is empty or too long.
func ReadFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > MaxFrame {
		return nil, Failed(Invalid, "frame of %d bytes: a frame has 1 to %d", n, MaxFrame)
	}
	return body(r, n)
}

// WriteFrame writes one frame in one Write.
func WriteFrame(w io.Writer, frame []byte) error {
	if len(frame) == 0 || len(frame) > MaxFrame {
		return Failed(Invalid, "frame of %d bytes: a frame has 1 to %d", len(frame), MaxFrame)
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}

// ReadStream reads one stream frame, with io.EOF and Invalid as ReadFrame. A stream frame may be empty.
func ReadStream(r io.Reader) (Channel, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	channel, n := Channel(head[0]), binary.BigEndian.Uint32(head[1:])
	if channel > NetworkDecision {
		return 0, nil, Failed(Invalid, "stream frame on channel %d: there are 0 to %d", channel, NetworkDecision)
	}
	if n > MaxStream {
		return 0, nil, Failed(Invalid, "stream frame of %d bytes: at most %d are allowed", n, MaxStream)
	}
	b, err := body(r, n)
	return channel, b, err
}

// WriteStream writes b in as many stream frames as it needs, at least one.
func WriteStream(w io.Writer, channel Channel, b []byte) error {
	for {
		part := b[:min(len(b), MaxStream)]
		head := binary.BigEndian.AppendUint32([]byte{byte(channel)}, uint32(len(part)))
		if _, err := w.Write(append(head, part...)); err != nil {
			return err
		}
		if b = b[len(part):]; len(b) == 0 {
			return nil
		}
	}
}

func body(r io.Reader, n uint32) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}
