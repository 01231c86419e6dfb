package filesource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

const (
	space = " \t\r\n"
	bom   = "\xef\xbb\xbf"
)

// parse reads the whole content of a file: a JSON array of namespace names and nothing else. The candidates are sorted
// and each is there once. "[]" is a list that holds nothing; an empty file is an error, because truncating a file is
// how many programs begin to write it. Memory is used for names that count only, whatever the content.
func parse(content []byte) ([]allowlist.Candidate, error) {
	if err := checkArray(content); err != nil {
		return nil, err
	}
	tokens := json.NewDecoder(bytes.NewReader(content))
	tokens.UseNumber()
	if _, err := tokens.Token(); err != nil {
		return nil, failf(resultJSON, "it is not JSON: %w", err)
	}
	names := map[string]struct{}{}
	for entry := 1; tokens.More(); entry++ {
		name, err := readName(tokens)
		if err != nil {
			return nil, failf(resultOf(err), "entry %d, counted from 1: %w", entry, err)
		}
		names[name] = struct{}{}
		if len(names) > allowlist.MaxNames {
			return nil, failf(resultTooMany, "it has more than %d names, which is the most that can be published", allowlist.MaxNames)
		}
	}
	candidates := make([]allowlist.Candidate, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		candidates = append(candidates, allowlist.Candidate{Name: name})
	}
	return candidates, nil
}

// checkArray checks that content is one JSON array with nothing after it, whatever is in the array.
func checkArray(content []byte) error {
	text := bytes.TrimLeft(content, space)
	switch {
	case len(text) == 0:
		return failf(resultEmpty, "it is empty; an empty list is []")
	case bytes.HasPrefix(text, []byte(bom)):
		return failf(resultJSON, "it begins with a byte order mark; save it as plain UTF-8")
	case !utf8.Valid(text):
		return failf(resultEncoding, "it is not valid UTF-8")
	}
	if err := json.Unmarshal(content, new(anything)); err != nil {
		at := int64(len(content))
		if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
			at = syntax.Offset
		}
		return failf(resultJSON, "it is not one whole JSON value (byte %d of %d): %w", at, len(content), err)
	}
	if text[0] != '[' {
		return failf(resultShape, "it is %s, not a JSON array of strings", kindOf(text[0]))
	}
	return nil
}

// anything is a JSON value that is checked and thrown away.
type anything struct{}

func (*anything) UnmarshalJSON([]byte) error { return nil }

func readName(tokens *json.Decoder) (string, error) {
	token, err := tokens.Token()
	if err != nil {
		return "", failf(resultJSON, "it is not JSON: %w", err)
	}
	var kind string
	switch t := token.(type) {
	case string:
		if err := allowlist.CheckNamespace(t); err != nil {
			return "", failf(resultName, "%w", err)
		}
		return t, nil
	case json.Delim:
		kind = kindOf(byte(t))
	case bool:
		kind = kindOf('t')
	case nil:
		kind = kindOf('n')
	default:
		kind = kindOf('0')
	}
	return "", failf(resultShape, "it is %s, not a string", kind)
}

// kindOf names a JSON value by its first byte.
func kindOf(first byte) string {
	switch first {
	case '[':
		return "an array"
	case '{':
		return "an object"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// fingerprint is the version of a content: the same for the same bytes only, and fit for a record.
func fingerprint(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256-" + hex.EncodeToString(sum[:])
}
