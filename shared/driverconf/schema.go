package driverconf

import (
	"encoding"
	"fmt"
	"reflect"
	"time"
)

// flagPrefix is the prefix of the pseudo table that holds settings which exist
// only as flags; it makes their keys read as the flags do.
const flagPrefix = "--"

// table is one struct of settings and the dotted key in front of its fields.
type table struct {
	prefix string
	value  reflect.Value // an addressable struct
}

// field is one tagged field of a table's struct.
type field struct {
	name  string
	index []int // as reflect.Value.FieldByIndex takes it
}

var (
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
)

// fieldsOf lists the settings of a struct type in order. Fields tagged "-" and
// unexported fields are not settings. The settings of a struct that is embedded
// without a tag are those of the struct around it.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && f.Tag == "" && isTable(f.Type) {
			for _, inner := range fieldsOf(f.Type) {
				fields = append(fields, field{name: inner.name, index: append([]int{i}, inner.index...)})
			}
			continue
		}
		name := f.Tag.Get("toml")
		if name == "" {
			name = f.Tag.Get("flag")
		}
		if f.IsExported() && name != "-" {
			fields = append(fields, field{name: name, index: []int{i}})
		}
	}
	return fields
}

// isText tells whether values of t are written as text by their own methods.
func isText(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textUnmarshaler) }

// checkSchema refuses struct types that the loader could not bind or print, so
// that a section's mistake shows at the first load in any test.
func checkSchema(prefix string, t reflect.Type) error {
	seen := map[string]bool{}
	for _, f := range fieldsOf(t) {
		goName := t.FieldByIndex(f.index).Name
		if !isBareKey(f.name) {
			return fmt.Errorf("settings %s: field %s needs a toml tag that is a bare key", prefix, goName)
		}
		key := joinKey(prefix, f.name)
		if seen[f.name] {
			return fmt.Errorf("settings %s: two fields have this key", key)
		}
		seen[f.name] = true
		if err := checkType(key, t.FieldByIndex(f.index).Type, true); err != nil {
			return err
		}
	}
	return nil
}

func checkType(key string, t reflect.Type, composite bool) error {
	if t == reflect.TypeFor[time.Duration]() {
		return fmt.Errorf("settings %s: a time.Duration would be read as nanoseconds; use driverconf.Duration", key)
	}
	if isText(t) {
		if !reflect.PointerTo(t).Implements(textMarshaler) {
			return fmt.Errorf("settings %s: type %s reads text but does not write it", key, t)
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return nil
	case reflect.Struct:
		if composite {
			return checkSchema(key, t)
		}
	case reflect.Slice, reflect.Pointer:
		if composite {
			return checkType(key, t.Elem(), false)
		}
	case reflect.Map:
		if composite && t.Key().Kind() == reflect.String && !isText(t.Key()) {
			return checkType(key, t.Elem(), false)
		}
	}
	return fmt.Errorf("settings %s: type %s cannot be a setting", key, t)
}

// eachLeaf calls visit for every key of a struct in order, descending into
// nested structs.
func eachLeaf(prefix string, v reflect.Value, visit func(key string, leaf reflect.Value)) {
	for _, f := range fieldsOf(v.Type()) {
		key, inner := joinKey(prefix, f.name), v.FieldByIndex(f.index)
		if isTable(inner.Type()) {
			eachLeaf(key, inner, visit)
			continue
		}
		visit(key, inner)
	}
}

// isTable tells whether t is written as a TOML table of known keys.
func isTable(t reflect.Type) bool { return t.Kind() == reflect.Struct && !isText(t) }

// leafAt finds one key of a table; the zero Value when there is none.
func leafAt(t table, key string) (found reflect.Value) {
	eachLeaf(t.prefix, t.value, func(k string, leaf reflect.Value) {
		if k == key {
			found = leaf
		}
	})
	return found
}
