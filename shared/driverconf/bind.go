package driverconf

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// binder copies a tree of parsed values into settings, strictly: every key must
// exist in exactly this spelling and every value must have the key's type. It
// reports each misfit and goes on, and it leaves a setting unchanged when its
// value does not fit. It is used instead of the TOML decoder's own binding,
// which stops at the first wrong type and accepts keys in any case.
type binder struct {
	origin func(key string) Origin
	report func(key string, o Origin, text string)
	bound  func(key string, o Origin)
	slip   func(key string) // an unknown name was probably meant for key
	leaves []string         // every key of the section being bound, for hints
}

// section binds tree to a whole section.
func (b binder) section(t table, tree map[string]any) {
	b.leaves = nil
	eachLeaf(t.prefix, t.value, func(key string, _ reflect.Value) { b.leaves = append(b.leaves, key) })
	b.table(t.prefix, t.value, tree)
}

// table binds tree to the struct v.
func (b binder) table(prefix string, v reflect.Value, tree map[string]any) {
	fields := fieldsOf(v.Type())
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			b.unknown(prefix, name, fields, tree[name])
			continue
		}
		key, target := joinKey(prefix, name), v.FieldByIndex(fields[i].index)
		if !isTable(target.Type()) {
			if b.value(key, target, tree[name]) {
				b.bound(key, b.origin(key))
			}
			continue
		}
		inner, ok := tree[name].(map[string]any)
		if !ok {
			b.wrongType(key, "a table", tree[name])
			continue
		}
		b.table(key, target, inner)
	}
}

func (b binder) unknown(prefix, name string, fields []field, v any) {
	key := joinKey(prefix, name)
	if removed := removedKeys(key, v); len(removed) > 0 {
		for _, r := range removed {
			b.report(r.key, b.origin(r.key), r.text)
		}
		return
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	near := nearest(name, append(names, removedNames(prefix)...))
	switch full := b.elsewhere(name); {
	case near == "" && full != "":
		b.slip(full)
		b.report(key, b.origin(key), "unknown key in this table; did you mean "+full+"?")
	case near != "" && !slices.Contains(names, near):
		b.report(key, b.origin(key), "unknown key; if "+near+" is meant: "+removedText[near])
	default:
		b.slip(joinKey(prefix, near))
		b.report(key, b.origin(key), unknownText("key", name, names))
	}
}

// elsewhere finds the only key of that name in another table of the section.
func (b binder) elsewhere(name string) string {
	found := ""
	for _, full := range b.leaves {
		if full[strings.LastIndexByte(full, '.')+1:] != name {
			continue
		}
		if found != "" {
			return ""
		}
		found = full
	}
	return found
}

func (b binder) wrongType(key, want string, v any) {
	b.report(key, b.origin(key), fmt.Sprintf("must be %s, but is %s", want, kindName(v)))
}

// value binds one value and tells whether it fitted.
func (b binder) value(key string, target reflect.Value, v any) bool {
	t := target.Type()
	if isText(t) {
		return b.text(key, target, v)
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner := reflect.New(t.Elem())
		if !b.value(key, inner.Elem(), v) {
			return false
		}
		target.Set(inner)
		return true
	case reflect.Slice:
		return b.list(key, target, v)
	case reflect.Map:
		return b.mapping(key, target, v)
	default:
		return b.scalar(key, target, v)
	}
}

func (b binder) text(key string, target reflect.Value, v any) bool {
	s, ok := v.(string)
	if !ok {
		b.wrongType(key, "a string", v)
		return false
	}
	// Into a fresh value, so that a failure leaves the setting as it was.
	fresh := reflect.New(target.Type())
	if err := fresh.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
		b.report(key, b.origin(key), err.Error())
		return false
	}
	target.Set(fresh.Elem())
	return true
}

func (b binder) list(key string, target reflect.Value, v any) bool {
	items, ok := v.([]any)
	if !ok {
		b.wrongType(key, "an array", v)
		return false
	}
	list, fits := reflect.Zero(target.Type()), true
	for i, item := range items {
		element := reflect.New(target.Type().Elem()).Elem()
		fits = b.value(fmt.Sprintf("%s[%d]", key, i), element, item) && fits
		list = reflect.Append(list, element)
	}
	if fits {
		target.Set(list)
	}
	return fits
}

// mapping replaces the whole map: a default entry does not survive beside the
// entries that a file names.
func (b binder) mapping(key string, target reflect.Value, v any) bool {
	entries, ok := v.(map[string]any)
	if !ok {
		b.wrongType(key, "a table", v)
		return false
	}
	fresh, fits := reflect.Zero(target.Type()), true
	if len(entries) > 0 {
		fresh = reflect.MakeMapWithSize(target.Type(), len(entries))
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		element := reflect.New(target.Type().Elem()).Elem()
		fits = b.value(joinKey(key, name), element, entries[name]) && fits
		fresh.SetMapIndex(reflect.ValueOf(name).Convert(target.Type().Key()), element)
	}
	if fits {
		target.Set(fresh)
	}
	return fits
}

func (b binder) scalar(key string, target reflect.Value, v any) bool {
	switch target.Kind() {
	case reflect.Bool:
		if x, ok := v.(bool); ok {
			target.SetBool(x)
			return true
		}
		b.wrongType(key, "a boolean (true or false)", v)
	case reflect.String:
		if x, ok := v.(string); ok {
			target.SetString(x)
			return true
		}
		b.wrongType(key, "a string", v)
	case reflect.Float64:
		x, ok := v.(float64)
		if whole, isInt := v.(int64); isInt { // TOML's 50 means what 50.0 does
			x, ok = float64(whole), true
		}
		switch {
		case !ok:
			b.wrongType(key, "a number", v)
		case math.IsNaN(x) || math.IsInf(x, 0):
			b.report(key, b.origin(key), "must be a finite number")
		default:
			target.SetFloat(x)
			return true
		}
	default:
		x, ok := v.(int64)
		if !ok {
			b.wrongType(key, "an integer", v)
			return false
		}
		if !setInteger(target, x) {
			b.report(key, b.origin(key), fmt.Sprintf("%d is out of range; %s", x, integerRange(target.Type())))
			return false
		}
		return true
	}
	return false
}

// setInteger stores x if the target's type holds it.
func setInteger(target reflect.Value, x int64) bool {
	if target.CanInt() {
		if target.OverflowInt(x) {
			return false
		}
		target.SetInt(x)
		return true
	}
	if x < 0 || target.OverflowUint(uint64(x)) {
		return false
	}
	target.SetUint(uint64(x))
	return true
}

func integerRange(t reflect.Type) string {
	bits := t.Bits()
	if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 {
		if bits == 64 {
			return fmt.Sprintf("use an integer from 0 to %d", int64(math.MaxInt64))
		}
		return fmt.Sprintf("use an integer from 0 to %d", uint64(1)<<bits-1)
	}
	return fmt.Sprintf("use an integer from %d to %d", int64(-1)<<(bits-1), int64(1)<<(bits-1)-1)
}

// kindName names the type of a parsed value with its article.
func kindName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case json.Number:
		return "a number"
	case []any:
		return "an array"
	case map[string]any:
		return "a table"
	default:
		return "a date or time"
	}
}
