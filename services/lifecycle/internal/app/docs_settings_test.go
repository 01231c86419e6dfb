package app_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// settingsTable are the keys of a process's own table with their defaults, as config check prints them.
func settingsTable(t *testing.T, process string) table {
	t.Helper()
	s := newSite(t)
	args, own := []string{"config", "check", "--config"}, ""
	if process == "relay" {
		args, own = append([]string{"relay"}, args...), "[portcullis.relay]\nlifecycle_address = \"lifecycle:8445\"\n"
	}
	var stdout, stderr transcript
	if code := run(t.Context(), &stdout, &stderr, append(args, write(t, s.dir, "gateway.toml", s.stock("operator")+own))...); code != 0 {
		t.Fatal(stderr.String())
	}
	_, rest, _ := strings.Cut(stdout.String(), "\n[portcullis."+process+"]\n")
	section, _, _ := strings.Cut(rest, "\n\n")
	w := table{head: []string{"Key", "Default", "Decides"}}
	for line := range strings.Lines(section) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		value, isDefault := strings.CutSuffix(value, " # default")
		if value = "`" + value + "`"; !isDefault {
			value = "none: it must be set"
		}
		if !ok || !isDefault && own == "" {
			t.Fatalf("%q is no key with its default", line)
		}
		w.rows = append(w.rows, []string{"`" + key + "`", value})
	}
	return w
}

// stockTable are the settings of the stock driver, as the settings' own package lists them.
func stockTable() table {
	w := table{head: []string{"Setting", "Flag", "Default", "Rule", "Here"}}
	for _, k := range driverconf.Keys() {
		flag := "–"
		if k.Flag != "" && k.Flag != k.Name {
			flag = "`" + k.Flag + "`"
		}
		w.rows = append(w.rows, []string{"`" + strings.TrimPrefix(k.Name, "openshell.drivers.kubernetes.") + "`", flag, "`" + k.Default + "`", k.Rule})
	}
	return w
}

// TestDocsSayWhoReadsASetting: of a stock setting that no source of lifecycle reads the documentation says whose it is, and of no other.
func TestDocsSayWhoReadsASetting(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, docs), "<!-- stock settings -->\n")
	text, _, _ := strings.Cut(rest, "<!-- end of stock settings -->")
	said, settings := written(text), 0
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
				reads := len(scanned(t, sources, regexp.MustCompile(`\.`+field.Name+`\b`))) > 0
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
	_, rest, _ := strings.Cut(read(t, docs), "```toml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok || !strings.Contains(example, "[portcullis.relay]") {
		t.Fatal("no settings of a relay are shown")
	}
	var stdout, stderr transcript
	if code := run(t.Context(), &stdout, &stderr, "relay", "config", "check", "--config", write(t, t.TempDir(), "gateway.toml", example)); code != 0 {
		t.Error(stderr.String())
	}
}
