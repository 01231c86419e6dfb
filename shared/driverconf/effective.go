package driverconf

import (
	"bytes"
	"encoding"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// WriteEffective prints the settings as TOML, each with its origin in a comment.
// Loading the output without flags and environment gives the same settings,
// except for two things that a settings file cannot hold: what only flags can
// set is a comment, and a secret is printed as its type shows it, redacted.
func (c *Config) WriteEffective(w io.Writer) error {
	var out bytes.Buffer
	out.WriteString("# Effective settings; the comment behind each key tells where it comes from.\n")
	fmt.Fprintf(&out, "\n[openshell]\nversion = %d\n", schemaVersion)
	for _, t := range c.tables {
		if err := c.writeTable(&out, t.prefix, t.value); err != nil {
			return fmt.Errorf("print the settings of %s: %w", t.prefix, err)
		}
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("print the settings: %w", err)
	}
	return nil
}

// writeTable prints a table's own keys before its tables, as TOML demands.
func (c *Config) writeTable(out *bytes.Buffer, prefix string, v reflect.Value) error {
	comment := ""
	if prefix == flagPrefix {
		comment = "# "
		out.WriteString("\n# Set by flags and environment variables only:\n")
	} else {
		fmt.Fprintf(out, "\n[%s]\n", prefix)
	}
	var tables []field
	for _, f := range fieldsOf(v.Type()) {
		leaf, key := v.FieldByIndex(f.index), joinKey(prefix, f.name)
		if isTable(leaf.Type()) {
			tables = append(tables, f)
			continue
		}
		origin := c.origins[key]
		if leaf.Kind() == reflect.Pointer && leaf.IsNil() {
			fmt.Fprintf(out, "# %s is not set # %s\n", f.name, origin)
			continue
		}
		value, err := tomlValue(leaf)
		if err != nil {
			return fmt.Errorf("key %s: %w", key, err)
		}
		fmt.Fprintf(out, "%s%s = %s # %s\n", comment, f.name, value, origin)
	}
	for _, f := range tables {
		if err := c.writeTable(out, joinKey(prefix, f.name), v.FieldByIndex(f.index)); err != nil {
			return err
		}
	}
	return nil
}

// tomlValue renders a setting on one line.
func tomlValue(v reflect.Value) (string, error) {
	if isText(v.Type()) {
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		text, err := p.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return "", err
		}
		return tomlScalar(string(text))
	}
	switch v.Kind() {
	case reflect.Pointer:
		return tomlValue(v.Elem())
	case reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			item, err := tomlValue(v.Index(i))
			if err != nil {
				return "", err
			}
			items[i] = item
		}
		return "[" + strings.Join(items, ", ") + "]", nil
	case reflect.Map:
		return tomlInlineTable(v)
	default:
		return tomlScalar(v.Interface())
	}
}

func tomlInlineTable(v reflect.Value) (string, error) {
	entries := map[string]string{}
	for it := v.MapRange(); it.Next(); {
		name, err := tomlScalar(it.Key().String())
		if err != nil {
			return "", err
		}
		value, err := tomlValue(it.Value())
		if err != nil {
			return "", err
		}
		entries[name] = value
	}
	var items []string
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		items = append(items, name+" = "+entries[name])
	}
	if items == nil {
		return "{}", nil
	}
	return "{ " + strings.Join(items, ", ") + " }", nil
}

// tomlScalar has the library quote, since TOML's escapes are not Go's.
func tomlScalar(v any) (string, error) {
	line, err := toml.Marshal(map[string]any{"v": v})
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(line), "v = "), "\n"), nil
}
