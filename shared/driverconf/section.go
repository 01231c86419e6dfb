package driverconf

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// sectionNames is the closed list of [portcullis.<name>] tables. A name outside
// it is an error in the file, a name inside it that a daemon does not use is
// another daemon's.
var sectionNames = []string{
	"allowlist", "audit", "kubernetes", "lifecycle", "mesh", "nats", "nswatch", "relay", "supervisorctl", "telemetry", "tokenauth",
}

// Section is the settings of one [portcullis.<name>] table. The value is a
// pointer to a struct that holds the defaults before Load and the effective
// settings after it. Use a fresh value for each Load; after a failed Load its
// content means nothing.
//
// Every exported field carries a toml tag. A field is a bool, a string, an
// integer of at most 63 bits, a float64, a type with UnmarshalText and
// MarshalText (written as a string), a pointer, slice or map[string] of one of
// these, a nested struct, or a struct embedded without a tag, whose keys are
// then the section's own. Use Duration for time. A field that holds a secret
// needs a type whose MarshalText and error texts do not show it.
type Section interface {
	// Validate reports every problem, each under a key relative to the section
	// ("server.url"). It must not do I/O. A key that was not understood has its
	// default then, and a report under it is dropped. A rule over several keys
	// belongs under the one that most likely holds the mistake.
	Validate(report func(key, problem string))
}

// Portcullis is the table [portcullis] itself, shared by all daemons.
type Portcullis struct {
	// LogLevel defaults to info. The stock flag --log-level and its variable
	// override it.
	LogLevel LogLevel `toml:"log_level"`
}

// checkSections refuses what only a programming mistake can cause, and returns
// the sections as tables in the order of their names.
func checkSections(sections map[string]Section) ([]table, error) {
	var tables []table
	for _, name := range sectionNames {
		section, used := sections[name]
		if !used {
			continue
		}
		prefix := portcullisPrefix + "." + name
		v := reflect.ValueOf(section)
		if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return nil, fmt.Errorf("settings section %s is a %T; pass a pointer to a struct that holds the defaults", prefix, section)
		}
		if err := checkSchema(prefix, v.Elem().Type()); err != nil {
			return nil, err
		}
		tables = append(tables, table{prefix: prefix, value: v.Elem()})
	}
	for name := range sections {
		if !slices.Contains(sectionNames, name) {
			return nil, fmt.Errorf("settings section %s is not one of %s", quote(name), strings.Join(sectionNames, ", "))
		}
	}
	return tables, nil
}
