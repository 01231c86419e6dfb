package boundary

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/portcullis-mesh/portcullis/test/companions/exactjson"
)

// Envelope is the one request of a stream (contract 13.5).
type Envelope struct {
	RequestID     string          `json:"request_id"`
	PayloadDigest string          `json:"payload_digest"` // Digest of Request
	Request       json.RawMessage `json:"request"`
}

// Reply answers an Envelope under the same id.
type Reply struct {
	RequestID     string          `json:"request_id"`
	PayloadDigest string          `json:"payload_digest"` // Digest of Result
	Result        json.RawMessage `json:"result"`
}

// result is what a Reply carries: a body or an error, the other is null.
type result struct {
	Body  json.RawMessage `json:"body"`
	Error *Failure        `json:"error"`
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// IsUUID reports whether s is a UUID in its usual lower-case form.
func IsUUID(s string) bool { return uuid.MatchString(s) }

// NewUUID returns a random UUID.
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Digest returns the hex SHA-256 of the canonical form of a JSON value.
func Digest(value []byte) (string, error) {
	canonical, err := exactjson.Canonical(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// Seal returns the frame of a request, and the id that the reply must have.
func Seal(request any) (frame []byte, id string, err error) {
	body, digest, err := sealed(request)
	if err != nil {
		return nil, "", err
	}
	id = NewUUID()
	frame, err = json.Marshal(Envelope{RequestID: id, PayloadDigest: digest, Request: body})
	return frame, id, err
}

// Open reads a request's frame. When it fails, the Envelope still has the request's id if that is
// one, so that the refusal can be sent under it.
func Open(frame []byte) (Envelope, *Failure) {
	var e Envelope
	if err := exactjson.Decode(frame, &e); err != nil {
		return Envelope{}, Failed(Invalid, "envelope: %v", err)
	}
	if !IsUUID(e.RequestID) {
		return Envelope{}, Failed(Invalid, "envelope: request_id is not a UUID")
	}
	if err := fits(e.PayloadDigest, e.Request); err != nil {
		return Envelope{RequestID: e.RequestID}, Failed(Invalid, "envelope: %v", err)
	}
	return e, nil
}

// SealReply returns the frame of a reply: a failure if there is one, else the body.
func SealReply(id string, body any, failure *Failure) ([]byte, error) {
	r := result{Body: json.RawMessage("null"), Error: failure}
	if failure == nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r.Body = b
	}
	out, digest, err := sealed(r)
	if err != nil {
		return nil, err
	}
	return json.Marshal(Reply{RequestID: id, PayloadDigest: digest, Result: out})
}

// OpenReply reads the reply to the request with the given id into body. The error is a *Failure.
func OpenReply(frame []byte, id string, body any) error {
	var (
		r   Reply
		res result
	)
	if err := exactjson.Decode(frame, &r); err != nil {
		return Failed(Invalid, "reply: %v", err)
	}
	if r.RequestID != id {
		return Failed(Invalid, "reply: request_id is not that of the request")
	}
	if err := fits(r.PayloadDigest, r.Result); err != nil {
		return Failed(Invalid, "reply: %v", err)
	}
	if err := exactjson.Decode(r.Result, &res); err != nil {
		return Failed(Invalid, "reply: result: %v", err)
	}
	if res.Error != nil {
		return res.Error
	}
	if err := exactjson.Decode(res.Body, body); err != nil {
		return Failed(Invalid, "reply: body: %v", err)
	}
	return nil
}

func sealed(value any) (body []byte, digest string, err error) {
	if body, err = json.Marshal(value); err != nil {
		return nil, "", err
	}
	digest, err = Digest(body)
	return body, digest, err
}

func fits(digest string, value []byte) error {
	is, err := Digest(value)
	if err != nil {
		return err
	}
	if is != digest {
		return fmt.Errorf("payload_digest is not the digest of what it comes with")
	}
	return nil
}
