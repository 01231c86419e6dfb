package claims

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// MaxToken is the longest token in bytes that is looked into.
const MaxToken = 16384

// maxUID is longer than any uid that the API server makes, bytes.
const maxUID = 128

// Hint is the Pod that an unverified token names. The zero Hint is none.
type Hint struct {
	// Namespace and PodName are names that the cluster could have; PodUID is not empty.
	Namespace, PodName, PodUID string
}

// Compact reports that a credential is a token in the form in which the cluster issues it, and in its one spelling: three parts,
// none of them empty, each in the base64 of URLs without padding and with no bit set that says nothing. The API server is less strict:
// it takes the first word of what it is given, and decodes without looking at the bits that say nothing.
func Compact(credential string) bool {
	parts := strings.SplitN(credential, ".", 4)
	if len(parts) != 3 {
		return false
	}
	for _, part := range parts {
		// The decoder passes over line ends.
		if part == "" || strings.ContainsAny(part, "\r\n") {
			return false
		}
		if _, err := base64.RawURLEncoding.Strict().DecodeString(part); err != nil {
			return false
		}
	}
	return true
}

// Of reads the hint of a token as the API server issues them: three parts in base64, the second a JSON object whose member
// "kubernetes.io" names the namespace and the Pod. False when there is none.
func Of(token []byte) (Hint, bool) {
	if len(token) > MaxToken {
		return Hint{}, false
	}
	parts := bytes.SplitN(token, []byte("."), 4) // one more than there may be
	if len(parts) != 3 || len(parts[0]) == 0 || len(parts[2]) == 0 {
		return Hint{}, false
	}
	payload := make([]byte, base64.RawURLEncoding.DecodedLen(len(parts[1])))
	n, err := base64.RawURLEncoding.Strict().Decode(payload, parts[1])
	if err != nil || bytes.ContainsAny(parts[1], "\r\n") { // the decoder passes over line ends
		return Hint{}, false
	}
	h, err := read(payload[:n])
	if err != nil || !h.usable() {
		return Hint{}, false
	}
	return h, true
}

func (h Hint) usable() bool {
	return len(validation.IsDNS1123Label(h.Namespace)) == 0 && len(validation.IsDNS1123Subdomain(h.PodName)) == 0 &&
		h.PodUID != "" && len(h.PodUID) <= maxUID && strings.IndexFunc(h.PodUID, odd) < 0
}

// odd reports what no uid has.
func odd(r rune) bool { return r <= ' ' || r > '~' }

var errOdd = errors.New("not the claims of a token that is bound to a Pod")

func read(payload []byte) (Hint, error) {
	var h Hint
	d := json.NewDecoder(bytes.NewReader(payload))
	err := members(d, map[string]func() error{
		"kubernetes.io": func() error {
			return members(d, map[string]func() error{
				"namespace": text(d, &h.Namespace),
				"pod": func() error {
					return members(d, map[string]func() error{"name": text(d, &h.PodName), "uid": text(d, &h.PodUID)})
				},
			})
		},
	})
	if err != nil {
		return Hint{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Hint{}, errOdd
	}
	return h, nil
}

// members reads an object, and the members that known names by their functions. A name that is there twice is an error,
// since other readers may take the other one.
func members(d *json.Decoder, known map[string]func() error) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errOdd
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok || seen[name] {
			return errOdd
		}
		seen[name] = true
		take := known[name]
		if take == nil {
			take = func() error { return d.Decode(&json.RawMessage{}) }
		}
		if err := take(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// text reads a string, which null is not.
func text(d *json.Decoder, into *string) func() error {
	return func() error {
		var value any
		if err := d.Decode(&value); err != nil {
			return err
		}
		s, ok := value.(string)
		if !ok {
			return errOdd
		}
		*into = s
		return nil
	}
}
