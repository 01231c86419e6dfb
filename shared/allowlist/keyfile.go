package allowlist

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// The key files are text. A private file holds one key, a public file one or more, each on a line of three words:
//
//	portcullis-ed25519-private-v1 <key id> <base64 of the 32-byte seed>
//	portcullis-ed25519-public-v1 <key id> <base64 of the 32-byte public key>
//
// Empty lines and lines that begin with # are skipped.
const (
	privateTag = "portcullis-ed25519-private-v1"
	publicTag  = "portcullis-ed25519-public-v1"

	// MaxKeyFile is the largest key file in bytes.
	MaxKeyFile = 64 << 10
	maxKeys    = 32
)

// PrivateFile is the content of the private key file of s.
func (s *Signer) PrivateFile() (secret.Value, error) {
	if s == nil || s.private.IsZero() {
		return secret.Value{}, errNoKey
	}
	private := s.private.Expose() // goes into the file's text, which is a secret again
	defer clear(private)
	line := keyLine(privateTag, s.public.id, private[:ed25519.SeedSize])
	defer clear(line)
	return secret.New(line), nil
}

// FileLine is the line of a public key file for p.
func (p PublicKey) FileLine() string { return string(keyLine(publicTag, p.id, p.key[:])) }

func keyLine(tag string, id KeyID, key []byte) []byte {
	line := append([]byte(tag), ' ')
	line = append(append(line, id...), ' ')
	line = base64.StdEncoding.AppendEncode(line, key)
	return append(line, '\n')
}

// ParseSigner reads a private key file. No error repeats any of it.
func ParseSigner(file secret.Value) (*Signer, error) {
	text := file.Expose() // to parse it
	defer clear(text)
	lines, err := keyLines(text, privateTag)
	if err != nil {
		return nil, fmt.Errorf("private key file: %w", err)
	}
	if len(lines) != 1 {
		return nil, fmt.Errorf("private key file: it holds %d keys, must hold one", len(lines))
	}
	defer clear(lines[0].key)
	s, err := newSigner(lines[0].key)
	if err != nil {
		return nil, fmt.Errorf("private key file: %w", err)
	}
	if s.public.id != lines[0].id {
		return nil, fmt.Errorf("private key file, line %d: the key is not the one that its id names: the file is damaged", lines[0].number)
	}
	return s, nil
}

// ParseKeySet reads a public key file. Several keys are all active, for rotation.
func ParseKeySet(text []byte) (KeySet, error) {
	lines, err := keyLines(text, publicTag)
	if err != nil {
		return KeySet{}, fmt.Errorf("public key file: %w", err)
	}
	keys := make([]PublicKey, len(lines))
	for i, l := range lines {
		if keys[i], err = NewPublicKey(l.key); err != nil {
			return KeySet{}, fmt.Errorf("public key file, line %d: %w", l.number, err)
		}
		if keys[i].id != l.id {
			return KeySet{}, fmt.Errorf("public key file, line %d: the key is not the one that its id names: the file is damaged", l.number)
		}
	}
	set, err := NewKeySet(keys...)
	if err != nil {
		return KeySet{}, fmt.Errorf("public key file: %w", err)
	}
	return set, nil
}

type keyFileLine struct {
	number int
	id     KeyID
	key    []byte
}

// keyLines reads the lines of one tag. Its errors name lines and repeat nothing: a private key may have been given
// where a public one is due.
func keyLines(text []byte, tag string) ([]keyFileLine, error) {
	if len(text) > MaxKeyFile {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), MaxKeyFile)
	}
	var lines []keyFileLine
	number := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		number++
		line = strings.TrimSuffix(line, "\r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		l, err := parseKeyLine(line, tag)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if len(lines) == maxKeys {
			return nil, fmt.Errorf("line %d: more than %d keys", number, maxKeys)
		}
		l.number = number
		lines = append(lines, l)
	}
	return lines, nil
}

func parseKeyLine(line, tag string) (keyFileLine, error) {
	words := strings.Split(line, " ")
	switch {
	case words[0] == privateTag && tag == publicTag:
		return keyFileLine{}, errors.New("it is a private key; a public key is due here, and this file must not be handed out")
	case words[0] == publicTag && tag == privateTag:
		return keyFileLine{}, errors.New("it is a public key; a private key is due here")
	case len(words) != 3 || words[0] != tag:
		return keyFileLine{}, fmt.Errorf("want three words: %s, the key id, the key in base64", tag)
	case !KeyID(words[1]).valid():
		return keyFileLine{}, fmt.Errorf("the key id is not %d lower-case hex digits", keyIDLength)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(words[2])
	if err != nil || len(key) != ed25519.PublicKeySize {
		clear(key)
		return keyFileLine{}, fmt.Errorf("the key is not the base64 of %d bytes", ed25519.PublicKeySize)
	}
	return keyFileLine{id: KeyID(words[1]), key: key}, nil
}
