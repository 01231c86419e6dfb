package driverconf

import "reflect"

// Key documents one setting.
type Key struct {
	// Name is the full dotted key; for settings that only a flag and a variable
	// set, the flag with its dashes.
	Name string
	// Type is the TOML type, or the type of the flag's text.
	Type string
	// Default is the default in TOML's notation, "none" when there is none.
	// DefaultWithoutFile is the default of a run without a settings file.
	Default, DefaultWithoutFile string
	// Rule is the constraint or the meaning, in one phrase.
	Rule string
	// Env and Flag are empty when there is none; Flag has its dashes.
	Env, Flag string
	// EmptyEnv tells that the variable, set to the empty string, overrides the file
	// with the empty value instead of counting as not set.
	EmptyEnv bool
}

// Keys lists every stock setting and the keys of [portcullis], in documentation
// order. The list is new in each call. The keys of sections are the sections',
// except for the one that a stock flag sets, of which only the flag is known here.
func Keys() []Key {
	withFile, without := newLoader(true, nil), newLoader(false, nil)
	var keys []Key
	for _, s := range specs() {
		k := Key{Name: s.key, Type: "string", Rule: s.rule, Env: s.env, Flag: dashed(s.flag), EmptyEnv: s.emptyEnv, Default: "none", DefaultWithoutFile: "none"}
		if leaf := withFile.leaf(s.key); leaf.IsValid() {
			k.Type, k.Default, k.DefaultWithoutFile = typeName(leaf.Type()), defaultText(leaf), defaultText(without.leaf(s.key))
		}
		keys = append(keys, k)
	}
	a := admissionSpec
	return append(keys, Key{
		Name: dashed(a.flag), Type: "JSON object", Default: "{}", DefaultWithoutFile: "{}", Rule: a.rule, Env: a.env, Flag: dashed(a.flag),
	})
}

func dashed(flag string) string {
	if flag == "" {
		return ""
	}
	return flagPrefix + flag
}

func defaultText(leaf reflect.Value) string {
	if leaf.Kind() == reflect.Pointer && leaf.IsNil() {
		return "none"
	}
	text, err := tomlValue(leaf)
	if err != nil {
		return "none"
	}
	return text
}

func typeName(t reflect.Type) string {
	if isText(t) {
		return "string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem()) + ", optional"
	case reflect.Slice:
		return "array of " + typeName(t.Elem())
	case reflect.Map:
		return "table of " + typeName(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	default:
		return "integer"
	}
}
