package exactjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// maxDepth is how deep values may nest; the companions' own documents need five levels.
const maxDepth = 32

// Decode reads data, one JSON value, into v. Keys must be those of v's fields exactly; only maps have
// free keys. A field may be null only when its Go type holds null. Errors name the path of the key.
func Decode(data []byte, v any) error {
	given, err := parse(data)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	again, err := json.Marshal(v)
	if err != nil {
		return err
	}
	kept, err := parse(again)
	if err != nil {
		return err
	}
	return sameShape("", given, kept)
}

// Canonical returns data, one JSON value, with keys sorted by their bytes, without spaces, numbers as
// they were written. Equal documents have equal canonical forms, whatever the order of their keys.
func Canonical(data []byte) ([]byte, error) {
	tree, err := parse(data)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// parse returns the one value in data as maps, slices, strings, json.Number, bool or nil.
func parse(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	tree, err := value(dec, "", 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return tree, nil
}

func value(dec *json.Decoder, path string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%s: nested deeper than %d", named(path), maxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return object(dec, path, depth)
	case json.Delim('['):
		return array(dec, path, depth)
	default:
		return token, nil
	}
}

func object(dec *json.Decoder, path string, depth int) (any, error) {
	fields := map[string]any{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string) // the decoder allows nothing else here
		if _, twice := fields[key]; twice {
			return nil, fmt.Errorf("%s: given twice", named(path+"."+key))
		}
		if fields[key], err = value(dec, path+"."+key, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return fields, err
}

func array(dec *json.Decoder, path string, depth int) (any, error) {
	items := []any{}
	for dec.More() {
		item, err := value(dec, path+"[]", depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := dec.Token()
	return items, err
}

// sameShape reports where two trees differ in keys, lengths or nulls.
func sameShape(path string, given, kept any) error {
	if (given == nil) != (kept == nil) {
		return fmt.Errorf("%s: null where a value belongs", named(path))
	}
	switch g := given.(type) {
	case map[string]any:
		k, ok := kept.(map[string]any)
		if !ok {
			return nil
		}
		for _, key := range slices.Sorted(maps.Keys(g)) {
			if _, known := k[key]; !known {
				return fmt.Errorf("%s: unknown", named(path+"."+key))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(k)) {
			item, present := g[key]
			if !present {
				return fmt.Errorf("%s: missing", named(path+"."+key))
			}
			if err := sameShape(path+"."+key, item, k[key]); err != nil {
				return err
			}
		}
	case []any:
		k, ok := kept.([]any)
		for i := range g {
			if !ok || i >= len(k) {
				break
			}
			if err := sameShape(path+"[]", g[i], k[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func named(path string) string {
	if path == "" {
		return "document"
	}
	return path[1:]
}
