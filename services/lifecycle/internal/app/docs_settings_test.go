package app_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/handbook"
)

// settingsTable are the keys of a process's own table with their defaults, as config check prints them.
func settingsTable(t *testing.T, process string) handbook.Table {
	t.Helper()
	s := newSite(t)
	args, own := []string{"config", "check", "--config"}, ""
	if process == "relay" {
		args, own = append([]string{"relay"}, args...), "[portcullis.relay]\nlifecycle_address = \"lifecycle:8445\"\n"
	}
	got := program.Run(t.Context(), append(args, commandtest.WriteFile(t, s.dir, "gateway.toml", s.stock("operator")+own))...)
	if got.Code != 0 {
		t.Fatal(got.Stderr)
	}
	_, rest, _ := strings.Cut(got.Stdout, "\n[portcullis."+process+"]\n")
	section, _, _ := strings.Cut(rest, "\n\n")
	w := handbook.Table{Head: []string{"Key", "Default", "Decides"}}
	for line := range strings.Lines(section) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		value, isDefault := strings.CutSuffix(value, " # default")
		if value = "`" + value + "`"; !isDefault {
			value = "none: it must be set"
		}
		if !ok || !isDefault && own == "" {
			t.Fatalf("%q is no key with its default", line)
		}
		w.Rows = append(w.Rows, []string{"`" + key + "`", value})
	}
	return w
}

// stockTable are the settings of the stock driver, as the settings' own package lists them.
func stockTable() handbook.Table {
	w := handbook.Table{Head: []string{"Setting", "Flag", "Default", "Rule", "Here"}}
	for _, k := range driverconf.Keys() {
		flag := "–"
		if k.Flag != "" && k.Flag != k.Name {
			flag = "`" + k.Flag + "`"
		}
		w.Rows = append(w.Rows, []string{"`" + strings.TrimPrefix(k.Name, "openshell.drivers.kubernetes.") + "`", flag, "`" + k.Default + "`", k.Rule})
	}
	return w
}

// TestDocsSayWhoReadsASetting: of a stock setting that no source of lifecycle reads the documentation says whose it is, and of no other.
func TestDocsSayWhoReadsASetting(t *testing.T) {
	_, rest, _ := strings.Cut(handbook.Read(t, docs), "<!-- stock settings -->\n")
	text, _, _ := strings.Cut(rest, "<!-- end of stock settings -->")
	said, settings := handbook.LastCells(text), 0
	var walk func(prefix string, of reflect.Type)
	walk = func(prefix string, of reflect.Type) {
		for i := range of.NumField() {
			field := of.Field(i)
			key := prefix + field.Tag.Get("toml")
			here, listed := said["`"+key+"`"]
			switch {
			case !listed && field.Type.Kind() == reflect.Struct:
				walk(key+".", field.Type)
			case !listed:
				t.Errorf("%s is not in the documentation", key)
			default:
				settings++
				reads := len(handbook.Scan(t, sources, regexp.MustCompile(`\.`+field.Name+`\b`))) > 0
				if leaves := strings.HasPrefix(here, "left to "); reads == leaves {
					t.Errorf("%s: lifecycle reads it: %t; the documentation says: %s", key, reads, here)
				}
			}
		}
	}
	walk("", reflect.TypeFor[driverconf.Kubernetes]())
	if settings < 40 {
		t.Errorf("only %d settings were looked at", settings)
	}
}

// TestDocsShowSettingsOfARelay that are taken.
func TestDocsShowSettingsOfARelay(t *testing.T) {
	_, rest, _ := strings.Cut(handbook.Read(t, docs), "```toml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok || !strings.Contains(example, "[portcullis.relay]") {
		t.Fatal("no settings of a relay are shown")
	}
	got := program.Run(t.Context(), "relay", "config", "check", "--config", commandtest.WriteFile(t, t.TempDir(), "gateway.toml", example))
	if got.Code != 0 {
		t.Error(got.Stderr)
	}
}
