package driverconf

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/pflag"
)

// RegisterFlags adds every flag of contract 3.3 to fs. The flags only keep their
// text; Load parses it, so that a bad flag is reported together with all other
// problems. A list flag may be repeated, any other flag given twice counts once
// with its last value.
func RegisterFlags(fs *pflag.FlagSet) {
	defaults := newLoader(false, nil)
	for _, s := range allSpecs() {
		if s.flag == "" {
			continue
		}
		value := &textFlag{kind: "string"}
		if leaf := defaults.leaf(s.key); leaf.IsValid() {
			value.kind, value.text, value.list = describeFlag(leaf)
		}
		f := fs.VarPF(value, s.flag, "", s.rule+" (env "+s.env+")")
		if value.kind == "bool" {
			f.NoOptDefVal = "true"
		}
	}
}

// describeFlag returns a flag's type name, its default as text and whether it
// may be repeated.
func describeFlag(leaf reflect.Value) (kind, text string, list bool) {
	switch k := leaf.Kind(); {
	case k == reflect.Slice:
		return "list", "", true
	case k == reflect.Map:
		return "key=value list", "", true
	case k == reflect.Pointer:
		kind, _, _ = describeFlag(reflect.New(leaf.Type().Elem()).Elem())
		return kind, "", false
	case k == reflect.String:
		return "string", leaf.String(), false
	case k == reflect.Bool:
		return "bool", fmt.Sprint(leaf.Interface()), false
	default:
		return "integer", fmt.Sprint(leaf.Interface()), false
	}
}

// textFlag is a pflag.Value that keeps the text of a flag for Load.
type textFlag struct {
	text, kind string
	list, set  bool
}

func (f *textFlag) String() string { return f.text }
func (f *textFlag) Type() string   { return f.kind }

// Set never fails: the text is judged in Load.
func (f *textFlag) Set(text string) error {
	if f.list && f.set {
		f.text = strings.TrimPrefix(f.text+","+text, ",")
	} else {
		f.text = text
	}
	f.set = true
	return nil
}

// checkFlags refuses a flag set that RegisterFlags did not see, which would make
// Load ignore what a person typed.
func checkFlags(fs *pflag.FlagSet) error {
	if fs == nil {
		return nil
	}
	for _, s := range allSpecs() {
		if s.flag == "" {
			continue
		}
		f := fs.Lookup(s.flag)
		if f == nil {
			return fmt.Errorf("flag --%s is not registered; call driverconf.RegisterFlags before parsing", s.flag)
		}
		if _, ok := f.Value.(*textFlag); !ok {
			return fmt.Errorf("flag --%s is registered by someone else; call driverconf.RegisterFlags instead", s.flag)
		}
	}
	return nil
}
