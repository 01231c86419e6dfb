package allowlist

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
)

// kind is what a record is. It is part of what is signed, so that one kind never passes for the other.
type kind string

const (
	kindSnapshot  kind = "portcullis-snapshot;v1"
	kindHeartbeat kind = "portcullis-heartbeat;v1"
)

// preimage is what a signature covers: the pre-authentication encoding of DSSE over the kind and the stored payload
// bytes. A plain and a compressed payload need no kinds of their own: one begins with "{", the other with the magic
// number of zstd, and each is refused where the other is due.
func (k kind) preimage(payload []byte) []byte {
	b := make([]byte, 0, len(payload)+len(k)+32)
	b = append(b, "DSSEv1 "...)
	b = append(strconv.AppendInt(b, int64(len(k)), 10), ' ')
	b = append(append(b, k...), ' ')
	b = append(strconv.AppendInt(b, int64(len(payload)), 10), ' ')
	return append(b, payload...)
}

// The envelope is three pieces around the payload and its signature. All pieces have a fixed length, so an envelope
// is taken apart from both ends and nothing of the payload is looked at before its signature is verified.
const (
	openPlain      = `{"payload":`
	openCompressed = `{"payload_zstd":"`
	closePlain     = `,"signature":{"alg":"ed25519","key_id":"`
	closeZstd      = `"` + closePlain
	beforeValue    = `","value":"`
	closeAll       = `"}}`

	valueLength     = (ed25519.SignatureSize + 2) / 3 * 4
	signatureLength = len(closePlain) + keyIDLength + len(beforeValue) + valueLength + len(closeAll)
)

// plainLength is the length of the record that holds a payload of n bytes in plain form.
func plainLength(n int) int { return len(openPlain) + n + signatureLength }

// envelope is a record taken apart and not yet trusted.
type envelope struct {
	kind       kind
	payload    []byte // as stored: JSON, or zstd
	compressed bool
	keyID      KeyID
	signature  []byte
}

var (
	errEnvelope = errors.New(`want {"payload":{…},"signature":{"alg":"ed25519","key_id":"…","value":"…"}} without white space`)
	errBase64   = errors.New("a base64 field is not in its canonical form")
)

// parseEnvelope accepts exactly what envelope.record writes.
func parseEnvelope(k kind, record []byte) (envelope, error) {
	limit := MaxRecord
	if k == kindHeartbeat {
		limit = maxHeartbeat
	}
	switch {
	case len(record) > limit:
		return envelope{}, reject(Oversize, "it has %d bytes, at most %d are allowed", len(record), limit)
	case len(record) < plainLength(0):
		return envelope{}, reject(Malformed, "it has %d bytes, too few for an envelope: %w", len(record), errEnvelope)
	}
	e := envelope{kind: k}
	front, back := record[:len(record)-signatureLength], record[len(record)-signatureLength:]
	if err := e.parseSignature(back); err != nil {
		return envelope{}, &Rejection{Cause: Malformed, err: err}
	}
	if err := e.parsePayload(front); err != nil {
		return envelope{}, &Rejection{Cause: Malformed, err: err}
	}
	return e, nil
}

func (e *envelope) parseSignature(b []byte) error {
	take := func(n int) (head []byte) {
		head, b = b[:n], b[n:]
		return head
	}
	front := take(len(closePlain))
	id := take(keyIDLength)
	middle := take(len(beforeValue))
	value := take(valueLength)
	if string(front) != closePlain || string(middle) != beforeValue || string(b) != closeAll {
		return fmt.Errorf("it does not end in a signature: %w", errEnvelope)
	}
	if e.keyID = KeyID(id); !e.keyID.valid() {
		return fmt.Errorf("key_id %s is not %d lower-case hex digits", quote(string(id)), keyIDLength)
	}
	var err error
	e.signature, err = decodeBase64(value)
	return err
}

func (e *envelope) parsePayload(b []byte) error {
	if payload, ok := bytes.CutPrefix(b, []byte(openPlain)); ok {
		if len(b)+signatureLength > PlainLimit {
			return fmt.Errorf("it has more than %d bytes and is not compressed", PlainLimit)
		}
		e.payload = payload
		return nil
	}
	encoded, ok := bytes.CutPrefix(b, []byte(openCompressed))
	if ok {
		encoded, ok = bytes.CutSuffix(encoded, []byte(`"`))
	}
	switch {
	case !ok:
		return fmt.Errorf("it does not begin with a payload: %w", errEnvelope)
	case e.kind != kindSnapshot:
		return errors.New("it is compressed, which only a snapshot may be")
	}
	e.compressed = true
	var err error
	e.payload, err = decodeBase64(encoded)
	return err
}

// decodeBase64 refuses every spelling but one: the decoder skips line breaks.
func decodeBase64(encoded []byte) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(encoded))), encoded)
	if err != nil || base64.StdEncoding.EncodedLen(len(b)) != len(encoded) {
		return nil, errBase64
	}
	return b, nil
}

// open returns the payload of a record that is signed with one of keys, and that key. No byte of the payload is
// interpreted before that.
func (e *envelope) open(keys KeySet) ([]byte, PublicKey, error) {
	by, err := keys.verify(e.keyID, e.kind.preimage(e.payload), e.signature)
	if err != nil {
		return nil, PublicKey{}, err
	}
	if !e.compressed {
		return e.payload, by, nil
	}
	payload, err := decompress(e.payload)
	if err != nil {
		return nil, PublicKey{}, err
	}
	if plainLength(len(payload)) <= PlainLimit {
		return nil, PublicKey{}, reject(Malformed, "it is compressed although it fits into %d bytes without", PlainLimit)
	}
	return payload, by, nil
}

// seal signs a payload and returns the record.
func seal(k kind, payload []byte, signer *Signer) ([]byte, error) {
	e := envelope{kind: k, payload: payload, compressed: plainLength(len(payload)) > PlainLimit}
	if e.compressed {
		var err error
		if e.payload, err = compress(payload); err != nil {
			return nil, err
		}
	}
	var err error
	if e.signature, err = signer.sign(k.preimage(e.payload)); err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	e.keyID = signer.public.id
	record := e.record()
	if len(record) > MaxRecord {
		return nil, fmt.Errorf("%w: the record has %d bytes, at most %d are allowed", ErrTooLarge, len(record), MaxRecord)
	}
	return record, nil
}

func (e *envelope) record() []byte {
	b := make([]byte, 0, len(openCompressed)+base64.StdEncoding.EncodedLen(len(e.payload))+signatureLength+1)
	if e.compressed {
		b = append(b, openCompressed...)
		b = base64.StdEncoding.AppendEncode(b, e.payload)
		b = append(b, closeZstd...)
	} else {
		b = append(b, openPlain...)
		b = append(b, e.payload...)
		b = append(b, closePlain...)
	}
	b = append(append(b, e.keyID...), beforeValue...)
	b = base64.StdEncoding.AppendEncode(b, e.signature)
	return append(b, closeAll...)
}
