package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNATSCommandsSayWhatIsMissing: one line, the name of what is wrong, and nothing made.
func TestNATSCommandsSayWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	made, authority := filepath.Join(dir, "made"), filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(authority, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no subcommand":        {nil, "nats"},
		"nothing":              {[]string{"identities"}, "--ca-file"},
		"no directory":         {[]string{"identities", "--gateway-id", "openshell", "--ca-file", authority}, "--dir"},
		"no gateway":           {[]string{"identities", "--dir", made, "--ca-file", authority}, "--gateway-id"},
		"no certificate":       {[]string{"identities", "--dir", made, "--gateway-id", "openshell", "--ca-file", authority}, "--ca-file"},
		"a stray argument":     {[]string{"identities", "x", "--dir", made, "--gateway-id", "openshell", "--ca-file", authority}, "x"},
		"no process file":      {[]string{"reload", "--watch", dir}, "absolute"},
		"no watched directory": {[]string{"reload", "--pid-file", filepath.Join(dir, "pid")}, "--watch"},
		"always":               {[]string{"reload", "--pid-file", filepath.Join(dir, "pid"), "--watch", dir, "--every", "0s"}, "--every"},
	} {
		t.Run(name, func(t *testing.T) {
			got := program.Run(t.Context(), append([]string{"nats"}, c.args...)...)
			if got.Code == 0 || !strings.Contains(got.Stderr, c.says) {
				t.Errorf("%+v", got)
			}
			if _, err := os.Stat(made); err == nil {
				t.Error("a directory was made")
			}
		})
	}
}
