package driverconf

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxTextBytes bounds the text of one flag or environment variable.
const maxTextBytes = 64 << 10

// allSpecs is specs with the one that stands for several keys.
func allSpecs() []spec { return append(specs(), admissionSpec) }

// overrides applies flags and environment variables over the file.
func (l *loader) overrides(src Source) {
	for _, s := range allSpecs() {
		text, o, given := s.override(src)
		if !given {
			continue
		}
		if s.refused != "" {
			l.report(s.key, o, s.refused)
			continue
		}
		if why := unreadableText(text); why != "" {
			l.report(s.problemKey(), o, why)
			continue
		}
		if s.key == "" {
			l.admissionJSON(text, o)
			continue
		}
		target := l.leaf(s.key)
		if !target.IsValid() {
			continue // of a section that this caller does not use, skipped as the file's table is
		}
		if err := setText(target, text); err != nil {
			l.report(s.key, o, err.Error())
			continue
		}
		l.bound(s.key, o)
	}
}

// problemKey names the setting in a problem; the flag stands in for a setting of
// several keys.
func (s spec) problemKey() string {
	if s.key == "" {
		return flagPrefix + s.flag
	}
	return s.key
}

// override returns the text that replaces the file's value: the flag if it was
// given, else the variable if it counts as set.
func (s spec) override(src Source) (text string, o Origin, given bool) {
	if s.flag != "" && src.Flags != nil {
		if f := src.Flags.Lookup(s.flag); f.Changed {
			return f.Value.String(), Origin{Kind: OriginFlag, Name: "--" + s.flag}, true
		}
	}
	if s.env != "" && src.LookupEnv != nil {
		if v, ok := src.LookupEnv(s.env); ok && (v != "" || s.emptyEnv) {
			return v, Origin{Kind: OriginEnv, Name: s.env}, true
		}
	}
	return "", Origin{}, false
}

func unreadableText(text string) string {
	switch {
	case len(text) > maxTextBytes:
		return fmt.Sprintf("is longer than %d bytes", maxTextBytes)
	case !utf8.ValidString(text):
		return "is not UTF-8 text"
	case strings.ContainsRune(text, 0):
		return "contains a zero byte"
	default:
		return ""
	}
}

// leaf finds a setting in any table by its full key.
func (l *loader) leaf(key string) reflect.Value {
	for _, t := range l.config.tables {
		if v := leafAt(t, key); v.IsValid() {
			return v
		}
	}
	return reflect.Value{}
}

// setText parses the text of a flag or variable into a setting. On an error the
// setting is unchanged. Errors do not show free text, which might hold a
// credential by mistake.
func setText(target reflect.Value, text string) error {
	t := target.Type()
	if isText(t) {
		fresh := reflect.New(t)
		if err := fresh.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
			return err
		}
		target.Set(fresh.Elem())
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(t.Elem())
		if err := setText(fresh.Elem(), text); err != nil {
			return err
		}
		target.Set(fresh)
	case reflect.String:
		target.SetString(text)
	case reflect.Bool:
		v, err := parseBool(text)
		if err != nil {
			return err
		}
		target.SetBool(v)
	case reflect.Slice:
		return setList(target, text)
	case reflect.Map:
		return setLabels(target, text)
	default:
		x, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !setInteger(target, x) {
			return fmt.Errorf("%s does not fit; %s", quote(text), integerRange(t))
		}
	}
	return nil
}

// parseBool accepts the words that charts and shells write for a boolean.
func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "t", "yes", "y", "on", "1":
		return true, nil
	case "false", "f", "no", "n", "off", "0":
		return false, nil
	default:
		return false, fmt.Errorf("%s is not a boolean; use true or false", quote(text))
	}
}

// commaList splits "a, b" and refuses an empty element, which is a lost value.
func commaList(text string) ([]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
		if parts[i] == "" {
			return nil, fmt.Errorf("element %d of the comma list is empty", i+1)
		}
	}
	return parts, nil
}

func setList(target reflect.Value, text string) error {
	parts, err := commaList(text)
	if err != nil {
		return err
	}
	target.Set(reflect.ValueOf(parts))
	return nil
}

// setLabels reads "a=b,c=d".
func setLabels(target reflect.Value, text string) error {
	parts, err := commaList(text)
	if err != nil {
		return err
	}
	var labels map[string]string
	for i, part := range parts {
		name, value, ok := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" {
			return fmt.Errorf("element %d of the comma list is not key=value", i+1)
		}
		if _, twice := labels[name]; twice {
			return fmt.Errorf("label %s is given twice", quote(name))
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[name] = value
	}
	target.Set(reflect.ValueOf(labels))
	return nil
}
