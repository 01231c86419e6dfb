package driverconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// maxJSONDepth is one more than the policy's own depth, enough to name a misfit.
const maxJSONDepth = 4

// admissionJSON replaces the admission policy by the one in text. The text is
// one unit: what it leaves out takes the stock default, not the file's value,
// because the gateway's side reads it that way too (contract 2.4).
func (l *loader) admissionJSON(text string, o Origin) {
	key := admissionSpec.problemKey()
	const replaced = kubernetesPrefix + ".resource_admission"
	tree, err := parseJSONObject(text)
	if err != nil {
		l.report(key, o, err.Error())
		l.fail(replaced)
		return
	}
	k := &l.config.Kubernetes
	policy := struct {
		AllowDriverConfig bool              `toml:"allow_driver_config"`
		ResourceAdmission ResourceAdmission `toml:"resource_admission"`
	}{ResourceAdmission: defaultResourceAdmission()}
	v := reflect.ValueOf(&policy).Elem()
	at := func(string) Origin { return o }
	before := len(l.problems)
	binder{origin: at, report: l.report, bound: func(string, Origin) {}, slip: l.slip}.section(table{kubernetesPrefix, v}, tree)
	if len(l.problems) > before {
		l.fail(replaced)
		return
	}
	k.AllowDriverConfig, k.ResourceAdmission = policy.AllowDriverConfig, policy.ResourceAdmission
	eachLeaf(kubernetesPrefix, v, func(leaf string, _ reflect.Value) { l.bound(leaf, o) })
}

// parseJSONObject reads exactly one JSON object into the same tree a TOML file
// gives. It refuses what encoding/json lets pass: a key twice, and anything
// after the object.
func parseJSONObject(text string) (map[string]any, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	v, err := jsonValue(dec, 0)
	if err != nil {
		return nil, jsonProblem(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has text after the JSON object; remove it")
	}
	tree, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("must be a JSON object such as {}, but is %s", kindName(v))
	}
	return tree, nil
}

// jsonShapeError is a problem that is told as it is.
type jsonShapeError struct{ text string }

func (e jsonShapeError) Error() string { return e.text }

func jsonProblem(err error) error {
	var shape jsonShapeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &shape):
		return err
	case errors.As(err, &syntax):
		return fmt.Errorf("is not valid JSON at byte %d: %w", syntax.Offset, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("is not valid JSON: it ends too early")
	default:
		return fmt.Errorf("is not valid JSON: %w", err)
	}
}

func jsonValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxJSONDepth {
		return nil, jsonShapeError{fmt.Sprintf("is nested more than %d levels deep", maxJSONDepth)}
	}
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return jsonObject(dec, depth)
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := jsonValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	default:
		return token, nil
	}
}

func jsonObject(dec *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok {
			return nil, jsonShapeError{"has an object key that is no string"}
		}
		if _, twice := object[name]; twice {
			return nil, jsonShapeError{"has the key " + quote(name) + " twice"}
		}
		if object[name], err = jsonValue(dec, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return object, err
}
