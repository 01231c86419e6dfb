package allowlist

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestEnvelopes(t *testing.T) {
	signer := testSigner(t, 1)
	keys := testKeys(t, signer, testSigner(t, 2))
	record, _, err := SealSnapshot(validSnapshot(t), signer)
	if err != nil {
		t.Fatal(err)
	}
	base := string(record)
	value := base[len(base)-valueLength-len(closeAll) : len(base)-len(closeAll)]
	other := string(testSigner(t, 2).public.id)
	if _, _, err := OpenSnapshot(record, keys, gateway); err != nil {
		t.Fatalf("the valid base is refused: %v", err)
	}
	for _, c := range []struct {
		name, old, with string
		cause           Cause
	}{
		{"nothing", base, ``, Malformed},
		{"not JSON", base, strings.Repeat("x", 400), Malformed},
		{"null", base, `null`, Malformed},
		{"space in front", `{"payload"`, ` {"payload"`, Malformed},
		{"space behind", `"}}`, `"}} `, Malformed},
		{"line break behind", `"}}`, "\"}}\n", Malformed},
		{"cut", `"}}`, `"}`, Malformed},
		{"other field", `{"payload":`, `{"Payload":`, Malformed},
		{"field before", `{"payload":`, `{"x":1,"payload":`, Malformed},
		{"field behind", `"}}`, `"},"x":1}`, Malformed},
		{"other algorithm", `"alg":"ed25519"`, `"alg":"none"`, Malformed},
		{"algorithm twice", `"alg":"ed25519"`, `"alg":"ed25519","alg":"ed25519"`, Malformed},
		{"key id in capitals", string(signer.public.id), strings.ToUpper(string(signer.public.id)), Malformed},
		{"key id of no key", string(signer.public.id), "0123456789abcdef", UnknownKey},
		{"key id of another key", string(signer.public.id), other, BadSignature},
		{"signature not base64", value, strings.Repeat("*", len(value)), Malformed},
		{"signature with other last bits", value, value[:len(value)-3] + "B==", Malformed},
		{"signature in URL alphabet", value, strings.Repeat("_-", len(value)/2), Malformed},
		{"signature too short", value, value[4:], Malformed},
		{"signature of zeros", value, base64.StdEncoding.EncodeToString(make([]byte, 64)), BadSignature},
		{"one letter of the payload", `"team-b","uid"`, `"team-d","uid"`, BadSignature},
		{"one digit of the revision", `"revision":42`, `"revision":43`, BadSignature},
		{"space in the payload", `"revision":42`, `"revision": 42`, BadSignature},
		{"payload under another name", `{"payload":`, `{"payload_zstd":`, Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := OpenSnapshot([]byte(replaceOnce(t, base, c.old, c.with)), keys, gateway)
			if CauseOf(err) != c.cause {
				t.Errorf("error %v has cause %s, want %s", err, CauseOf(err), c.cause)
			}
		})
	}
}

// TestKindsDoNotMix: a record of one kind is nothing under the key of the other, even when the key that signed it is
// trusted.
func TestKindsDoNotMix(t *testing.T) {
	signer := testSigner(t, 1)
	keys := testKeys(t, signer)
	snapshot, _, err := SealSnapshot(validSnapshot(t), signer)
	if err != nil {
		t.Fatal(err)
	}
	heartbeat, err := SealHeartbeat(validHeartbeat(t), signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenHeartbeat(snapshot, keys, gateway); CauseOf(err) != BadSignature {
		t.Errorf("snapshot as heartbeat: %v", err)
	}
	if _, _, err := OpenSnapshot(heartbeat, keys, gateway); CauseOf(err) != BadSignature {
		t.Errorf("heartbeat as snapshot: %v", err)
	}
}

func TestOversize(t *testing.T) {
	keys := testKeys(t, testSigner(t, 1))
	if _, _, err := OpenSnapshot(make([]byte, MaxRecord+1), keys, gateway); CauseOf(err) != Oversize {
		t.Errorf("snapshot: %v", err)
	}
	if _, err := OpenHeartbeat(make([]byte, maxHeartbeat+1), keys, gateway); CauseOf(err) != Oversize {
		t.Errorf("heartbeat: %v", err)
	}
	h := validHeartbeat(t)
	h.GatewayID, h.Writer, h.Reason = strings.Repeat("g", 63), strings.Repeat("w", maxWriter), strings.Repeat(`"`, maxReason)
	h.Epoch, h.Revision, h.Beat, h.Issued = maxWhole, maxWhole, maxWhole, maxMonoMS*1e6
	record, err := SealHeartbeat(h, testSigner(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenHeartbeat(record, keys, h.GatewayID); err != nil {
		t.Errorf("the largest heartbeat, %d bytes, is refused: %v", len(record), err)
	}
}

func frame(t *testing.T, content []byte, options ...zstd.EOption) []byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, options...)
	if err != nil {
		t.Fatal(err)
	}
	return encoder.EncodeAll(content, nil)
}

// streamed compresses without stating the size.
func streamed(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	encoder, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{content[:1], content[1:]} {
		if _, err := encoder.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := encoder.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestCompressedPayloads: what is inside a well-signed compressed record is still not trusted to be small or whole.
func TestCompressedPayloads(t *testing.T) {
	signer := testSigner(t, 1)
	keys := testKeys(t, signer)
	large := validSnapshot(t)
	large.Namespaces, large.Changes = listOf(t, manyNames(20_000)...), Changes{}
	payload, err := large.encode()
	if err != nil {
		t.Fatal(err)
	}
	small, err := (&Snapshot{
		GatewayID: gateway, Epoch: 1, Revision: 1, Writer: "w", PublishedAt: wallStart, Source: large.Source, Namespaces: listOf(t, "a"),
	}).encode()
	if err != nil {
		t.Fatal(err)
	}
	good, err := compress(payload)
	if err != nil {
		t.Fatal(err)
	}
	lying := bytes.Clone(good)
	// The content size follows the magic number and the descriptor, in 4 bytes: claim one byte less.
	lying[5]--
	for _, c := range []struct {
		name       string
		compressed []byte
		cause      Cause
	}{
		{"good", good, 0},
		{"nothing", nil, Malformed},
		{"not zstd", payload, Malformed},
		{"cut", good[:len(good)-10], Malformed},
		{"damaged", append(bytes.Clone(good[:2000]), good[2100:]...), Malformed},
		{"trailing bytes", append(bytes.Clone(good), 1, 2, 3, 4), Malformed},
		{"second frame", append(bytes.Clone(good), good...), Malformed},
		{"size not stated", streamed(t, payload), Malformed},
		{"less stated than held", lying, Malformed},
		{"skippable frame", []byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 0}, Malformed},
		{"needs a dictionary", frame(t, payload, zstd.WithEncoderDictRaw(7, payload[:1000])), Malformed},
		{"bomb", frame(t, make([]byte, MaxPayload+1), zstd.WithSingleSegment(true)), Oversize},
		{"zeros", frame(t, make([]byte, MaxPayload), zstd.WithSingleSegment(true)), Malformed},
		{"without need", frame(t, small, zstd.WithSingleSegment(true)), Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := envelope{kind: kindSnapshot, payload: c.compressed, compressed: true, keyID: signer.public.id}
			if e.signature, err = signer.sign(kindSnapshot.preimage(c.compressed)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := OpenSnapshot(e.record(), keys, gateway); CauseOf(err) != c.cause || (err == nil) != (c.cause == 0) {
				t.Errorf("error %v has cause %s, want %s", err, CauseOf(err), c.cause)
			}
			e.kind = kindHeartbeat
			if _, err := OpenHeartbeat(e.record(), keys, gateway); CauseOf(err) != Malformed && CauseOf(err) != Oversize {
				t.Errorf("as a heartbeat: %v", err)
			}
		})
	}
	// A payload that fits uncompressed must not come compressed, and the other way round.
	if _, _, err := OpenSnapshot(signed(t, kindSnapshot, string(payload)), keys, gateway); CauseOf(err) != Malformed {
		t.Errorf("a plain record of %d bytes of payload: %v", len(payload), err)
	}
}

// TestUnsignedBombIsNotOpened: the size of an unsigned frame is never even looked at.
func TestUnsignedBombIsNotOpened(t *testing.T) {
	e := envelope{
		kind: kindSnapshot, payload: frame(t, make([]byte, MaxPayload+1), zstd.WithSingleSegment(true)), compressed: true,
		keyID: testSigner(t, 1).public.id, signature: make([]byte, 64),
	}
	if _, _, err := OpenSnapshot(e.record(), testKeys(t, testSigner(t, 1)), gateway); CauseOf(err) != BadSignature {
		t.Errorf("error %v, want a bad signature", err)
	}
}

// FuzzOpen: any byte string is safe, and what is accepted is canonical.
func FuzzOpen(f *testing.F) {
	signer := testSigner(f, 1)
	keys := testKeys(f, signer)
	s := validSnapshot(f)
	record, _, err := SealSnapshot(s, signer)
	if err != nil {
		f.Fatal(err)
	}
	beat, err := SealHeartbeat(validHeartbeat(f), signer)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(record)
	f.Add(beat)
	f.Add([]byte(`{"payload_zstd":"KLUv/QQA"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, _, err := OpenSnapshot(b, keys, gateway); err == nil {
			if again, _, err := SealSnapshot(s, signer); err != nil || !bytes.Equal(again, b) {
				t.Errorf("accepted, and sealed again it is another record: %v", err)
			}
		} else if CauseOf(err) == 0 {
			t.Errorf("the error has no cause: %v", err)
		}
		if h, err := OpenHeartbeat(b, keys, gateway); err == nil {
			if again, err := SealHeartbeat(h, signer); err != nil || !bytes.Equal(again, b) {
				t.Errorf("accepted, and sealed again it is another record: %v", err)
			}
		}
	})
}

// FuzzPayload signs whatever it is given, so that the payload parsers are reached.
func FuzzPayload(f *testing.F) {
	signer := testSigner(f, 1)
	keys := testKeys(f, signer)
	s, h := validSnapshot(f), validHeartbeat(f)
	for _, encode := range []func() ([]byte, error){s.encode, h.encode} {
		payload, err := encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		record := signed(t, kindSnapshot, string(payload))
		if s, digest, err := OpenSnapshot(record, keys, gateway); err == nil {
			if again, gotDigest, err := SealSnapshot(s, signer); err != nil || !bytes.Equal(again, record) || gotDigest != digest {
				t.Errorf("accepted, and sealed again it is another record: %v", err)
			}
			agreesWithJSON(t, payload, s.Namespaces)
		}
		record = signed(t, kindHeartbeat, string(payload))
		if h, err := OpenHeartbeat(record, keys, gateway); err == nil {
			if again, err := SealHeartbeat(h, signer); err != nil || !bytes.Equal(again, record) {
				t.Errorf("accepted, and sealed again it is another record: %v", err)
			}
		}
	})
}
