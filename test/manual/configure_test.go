package manual_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/test/program"
)

var update = flag.Bool("update", false, "write the tables of the documents anew; what a person has written in their last columns stays")

const (
	configure = "../../docs/configure.md"
	runbook   = "../../docs/runbook.md"
	reasons   = "../../docs/reasons.md"
	sizing    = "../../docs/sizing.md"
)

// own is what no daemon starts without.
const own = `[openshell.drivers.kubernetes]
workspace_mode = "operator"
operator_namespace_label = "a=b"
grpc_endpoint = "https://gateway.example:8080"
supervisor_image = "registry.example/supervisor:1"
sandbox_runtime_image = "registry.example/runtime:1"
socket_path = "/run/driver/driver.sock"
sandbox_runtime = { network_policy_enforced = true }
[portcullis.nats]
urls = ["tls://nats.example:4222"]
[portcullis.mesh]
cert_file = "/mesh/tls.crt"
key_file = "/mesh/tls.key"
ca_file = "/mesh/ca.crt"
[portcullis.allowlist]
public_keys_file = "/keys/public.keys"
[portcullis.nswatch]
signing_key_file = "/keys/private.key"
lease_namespace = "mesh"
[portcullis.supervisorctl]
lease_namespace = "mesh"
[portcullis.relay]
lifecycle_address = "lifecycle.example:8445"
`

// program and its subcommand, by the names that the document gives them.
var readers = []struct {
	name string
	args []string
}{
	{"lifecycle", []string{"lifecycle"}},
	{"relay", []string{"lifecycle", "relay"}},
	{"nswatch", []string{"nswatch"}},
	{"supervisorctl", []string{"supervisorctl"}},
	{"tokenauth", []string{"tokenauth"}},
}

// elsewhere are the tables that a daemon's own document has.
var elsewhere = map[string]string{"lifecycle": "lifecycle.md", "relay": "lifecycle.md", "supervisorctl": "supervisorctl.md"}

// TestConfigure: every key of every table of [portcullis] that any program reads, and every stock setting, is in docs/configure.md, or
// its table is in the document of its daemon.
func TestConfigure(t *testing.T) {
	tables := map[string]handbook.Table{"stock settings": stock()}
	for table, keys := range defaults(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(table, "portcullis"), ".")
		switch {
		case elsewhere[name] != "":
			if !strings.Contains(handbook.Read(t, configure), fmt.Sprintf("`[portcullis.%s]`: [%s](%s)", name, elsewhere[name], elsewhere[name])) {
				t.Errorf("%s does not say that [%s] is in %s", configure, table, elsewhere[name])
			}
		case name == "":
			tables["portcullis"] = rows(keys)
		default:
			tables[name] = rows(keys)
		}
	}
	handbook.Check(t, configure, *update, tables)
}

// defaults are the settings that each program would use, by table, key and program.
func defaults(t *testing.T) map[string]map[string]map[string]string {
	t.Helper()
	defaults := map[string]map[string]map[string]string{}
	for _, reader := range readers {
		for table, keys := range effective(t, reader.args) {
			if defaults[table] == nil {
				defaults[table] = map[string]map[string]string{}
			}
			for key, value := range keys {
				if defaults[table][key] == nil {
					defaults[table][key] = map[string]string{}
				}
				defaults[table][key][reader.name] = value
			}
		}
	}
	return defaults
}

// effective are the settings that a program would use, by table and key; those of the file are asked for and have no default.
func effective(t *testing.T, args []string) map[string]map[string]string {
	t.Helper()
	command := program.Command(t, args[0], append(slices.Clone(args[1:]), "config", "check", "--config", program.Settings(t, own))...)
	text, err := command.Output()
	if err != nil {
		t.Fatalf("%v config check: %v\n%s", args, err, command.Stderr)
	}
	tables, table := map[string]map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			table = strings.TrimSuffix(name, "]")
			continue
		}
		key, value, ok := strings.Cut(line, " = ")
		if !ok || !strings.HasPrefix(table, "portcullis") {
			continue
		}
		if tables[table] == nil {
			tables[table] = map[string]string{}
		}
		value, source, _ := strings.Cut(value, " # ")
		if tables[table][key] = "`" + value + "`"; source != "default" {
			tables[table][key] = "none"
		}
	}
	if len(tables) < 4 {
		t.Fatalf("%v prints only the tables %v", args, slices.Sorted(maps.Keys(tables)))
	}
	return tables
}

// rows are the keys of a table: the default of most, and of those that have another.
func rows(keys map[string]map[string]string) handbook.Table {
	w := handbook.Table{Head: []string{"Key", "Default", "Read by", "Decides"}}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		by := map[string][]string{}
		for _, reader := range slices.Sorted(maps.Keys(keys[key])) {
			by[keys[key][reader]] = append(by[keys[key][reader]], reader)
		}
		values := slices.Sorted(maps.Keys(by))
		slices.SortStableFunc(values, func(a, b string) int { return len(by[b]) - len(by[a]) })
		said := values[0]
		for _, value := range values[1:] {
			said += "; " + strings.Join(by[value], ", ") + " " + value
		}
		w.Rows = append(w.Rows, []string{"`" + key + "`", said, strings.Join(slices.Sorted(maps.Keys(keys[key])), ", ")})
	}
	return w
}

// stock are the settings of the gateway's own table, which the program explains itself.
func stock() handbook.Table {
	w := handbook.Table{Head: []string{"Setting", "Default", "Variable", "Flag", "Rule"}, Whole: true}
	for _, k := range driverconf.Keys() {
		dash := func(text string) string {
			if text == "" || text == "-" {
				return "–"
			}
			return "`" + text + "`"
		}
		w.Rows = append(w.Rows, []string{"`" + strings.TrimPrefix(k.Name, "openshell.drivers.kubernetes.") + "`", dash(k.Default), dash(k.Env), dash(k.Flag), k.Rule})
	}
	return w
}
