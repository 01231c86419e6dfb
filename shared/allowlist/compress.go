package allowlist

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// compressWindow is how far back the encoder looks. A list repeats itself at every entry, so a wider one only costs: at
// 10 000 namespaces, twice the time and ten times the memory, for a larger record.
const compressWindow = 512 << 10

// compress gives the same bytes for the same payload and build.
func compress(payload []byte) ([]byte, error) {
	// A single segment states the size of the content, which decompress insists on.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(true),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(compressWindow), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("compress the payload: %w", err)
	}
	return encoder.EncodeAll(payload, nil), nil
}

// decompress is only called on bytes whose signature is verified. It still takes no more memory than the frame
// declares, and never more than MaxPayload.
func decompress(b []byte) ([]byte, error) {
	var header zstd.Header
	if err := header.Decode(b); err != nil {
		return nil, reject(Malformed, "payload_zstd is not zstd: %w", err)
	}
	switch {
	case header.Skippable || header.DictionaryID != 0 || !header.HasFCS:
		return nil, reject(Malformed, "payload_zstd is not one frame that declares its size and needs no dictionary")
	case header.FrameContentSize > MaxPayload:
		return nil, reject(Oversize, "payload_zstd declares %d bytes of content, at most %d are allowed", header.FrameContentSize, MaxPayload)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxPayload),
		zstd.WithDecoderMaxWindow(MaxPayload), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, reject(Oversize, "payload_zstd cannot be unpacked within %d bytes: %w", MaxPayload, err)
	}
	defer decoder.Close()
	payload, err := decoder.DecodeAll(b, make([]byte, 0, header.FrameContentSize))
	if err != nil {
		return nil, reject(Malformed, "payload_zstd does not unpack: %w", err)
	}
	if uint64(len(payload)) != header.FrameContentSize {
		return nil, reject(Malformed, "payload_zstd declares %d bytes and holds %d", header.FrameContentSize, len(payload))
	}
	return payload, nil
}
