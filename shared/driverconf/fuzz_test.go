package driverconf_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// FuzzLoad: the loader never panics; it gives problems of one line each, or
// settings that pass their own rules and survive being printed and read again.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(file(everyKey())), "", "")
	f.Add([]byte(file(with(everyKey(), "workspace_mode", `"operator"`, "operator_namespace_file", ""))), "a=b", "true")
	f.Add([]byte("[openshell]\nversion = 2\n[openshell.gateway]\nx = [[1, {a = 1}], 2026-01-01]\n[portcullis.nats]\nwait = \"1s\"\nurls = [\"a\"]\n"), "9", "1e9999999")
	f.Add([]byte("openshell.drivers.kubernetes.workspace_default_storage_size = \"1e99999999\"\n"), "", "{}")
	f.Add([]byte("[[portcullis]]\n[[openshell.drivers]]\n"), ",", `{"resource_admission":{"required_labels":{"a":"b"}}}`)
	f.Add([]byte("[portcullis.nats]\nlimits = {\"\\n\" = 1}\ntoken=\"abcd\"\n\"\" = 1\n"), "\xff", "\x00")
	f.Add([]byte("a = \"\\u0000\"\n\xff"), "http://u:p@h", "-1")
	f.Fuzz(func(t *testing.T, text []byte, variable, flag string) {
		if text == nil {
			text = []byte{}
		}
		fs := pflag.NewFlagSet("fuzz", pflag.ContinueOnError)
		driverconf.RegisterFlags(fs)
		for _, name := range []string{"https-proxy", "sandbox-image-pull-secrets", "sandbox-uid", "admission-config-json", "workspace-mode"} {
			if len(flag)%5 == len(name)%5 {
				if err := fs.Set(name, flag); err != nil {
					t.Fatal(err)
				}
			}
		}
		lookup := func(name string) (string, bool) { return variable, len(name)%7 == len(variable)%7 }
		section := newBroker()
		c, err := driverconf.Load(driverconf.Source{
			Bytes: text, LookupEnv: lookup, Flags: fs, Sections: map[string]driverconf.Section{"nats": section},
		})
		if err != nil {
			checkProblems(t, err)
			return
		}
		deny := func(key, problem string) { t.Errorf("accepted settings break a rule: %s: %s", key, problem) }
		c.Kubernetes.Validate(deny)
		section.Validate(deny)
		if section.Token.text == "" && section.Backup == nil { // a secret is not printed
			roundTripSection(t, c, section)
		}
	})
}

func checkProblems(t *testing.T, err error) {
	t.Helper()
	var ps driverconf.Problems
	if !errors.As(err, &ps) {
		t.Errorf("an error of another kind: %v", err)
		return
	}
	if lines := strings.Count(err.Error(), "\n") + 1; len(ps) == 0 || lines != len(ps) {
		t.Errorf("%d problems on %d lines:\n%q", len(ps), lines, err.Error())
	}
}

func roundTripSection(t *testing.T, c *driverconf.Config, section *broker) {
	t.Helper()
	var out strings.Builder
	if err := c.WriteEffective(&out); err != nil {
		t.Fatal(err)
	}
	again := newBroker()
	// The token's own text form refuses the empty text, so it is left out.
	text := strings.Replace(out.String(), "\ntoken = ", "\n# token = ", 1)
	back, err := driverconf.Load(driverconf.Source{Bytes: []byte(text), Sections: map[string]driverconf.Section{"nats": again}})
	if err != nil {
		t.Fatalf("the output does not load: %v\n%s", err, text)
	}
	back.Standalone = c.Standalone
	if diff := diffSettings(c, back); diff != "" {
		t.Errorf("the output loads to other settings:\n%s", diff)
	}
	same := cmp.AllowUnexported(broker{}, hidden{})
	if diff := cmp.Diff(section, again, same, equateEmpty); diff != "" {
		t.Errorf("the output loads to another section:\n%s", diff)
	}
}
