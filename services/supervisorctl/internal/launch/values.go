package launch

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"unicode"
)

// id reads the id of a gateway or a key.
func (r *reader) id(path string) (string, error) {
	s, err := r.str(path, MaxID)
	if err != nil {
		return "", err
	}
	if bytes.ContainsFunc(s, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }) {
		return "", refuse(path, "holds whitespace or a character that does not print")
	}
	return string(s), nil
}

func (r *reader) generation(path string) (string, error) {
	s, err := r.str(path, MaxGeneration)
	if err != nil {
		return "", err
	}
	if bytes.ContainsFunc(s, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' }) {
		return "", refuse(path, `holds something other than a-z, 0-9 and "-"`)
	}
	return string(s), nil
}

// uuid reads a UUID in its canonical form. Its version is not looked at: no reader does, and only equality counts.
func (r *reader) uuid(path string) (string, error) {
	const form, none = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "00000000-0000-0000-0000-000000000000"
	s, err := r.str(path, len(form))
	if err != nil {
		return "", err
	}
	if string(s) == none || !bytes.Equal(bytes.Map(hexToX, s), []byte(form)) {
		return "", refuse(path, "is no UUID in the form "+form+", with digits and a to f, and not all zero")
	}
	return string(s), nil
}

func hexToX(c rune) rune {
	switch {
	case c >= '0' && c <= '9', c >= 'a' && c <= 'f':
		return 'x'
	case c == '-':
		return c
	default:
		return '?'
	}
}

// token reads a JWT in compact form. Only the form is judged: whose it is and what it says is for its readers.
func (r *reader) token(path string) error {
	s, err := r.str(path, MaxToken)
	if err != nil {
		return err
	}
	parts := bytes.Split(s, []byte("."))
	sound := len(parts) == 3
	for _, part := range parts {
		// One character more than full groups of four ends in the middle of a byte.
		sound = sound && len(part) > 0 && len(part)%4 != 1 && !bytes.ContainsFunc(part, notBase64URL)
	}
	if !sound {
		return refuse(path, "is no token: want three parts in unpadded base64url, joined by dots, none empty")
	}
	return nil
}

func notBase64URL(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
}

// publicKey reads a key that is written as an array of the numbers of its bytes. The text is taken as it is or not at all:
// the boundary gets it as a string, and what surrounds a PEM block is skipped by some readers and refused by others.
func (r *reader) publicKey(path string) (string, error) {
	text, err := r.octets(path, MaxKeyBytes)
	if err != nil {
		return "", err
	}
	if !bytes.HasPrefix(text, []byte("-----BEGIN PUBLIC KEY-----")) {
		return "", refuse(path, "does not begin a PEM block of a public key")
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" || len(block.Headers) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return "", refuse(path, "is not exactly one sound PEM block without headers")
	}
	// The decoder passes over a block that is mangled and takes the next one.
	if bytes.Count(text, []byte("-----BEGIN")) != 1 {
		return "", refuse(path, "is not exactly one sound PEM block without headers")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if _, ok := key.(ed25519.PublicKey); err != nil || !ok {
		return "", refuse(path, "holds no Ed25519 public key")
	}
	return string(text), nil
}
