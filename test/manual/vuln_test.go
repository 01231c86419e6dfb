//go:build portcullis_long

package manual_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/manual/commands"
)

// flaw is an entry of a database of vulnerabilities: one function of one module.
type flaw struct {
	module, pkg, symbol string
	// repaired is the version from which on it is no more; empty for none.
	repaired string
}

// called is a function that code of each of our modules that serves gRPC calls: what is generated for a method that nobody implements.
var called = flaw{module: "google.golang.org/grpc", pkg: "google.golang.org/grpc/status", symbol: "Error"}

// planted names the entry of a database.
const planted = "GO-2000-0001"

// database writes one with this entry, in the form of a copy of vuln.go.dev (https://go.dev/security/vuln/database#api), and returns its URL.
func database(t *testing.T, f flaw) string {
	t.Helper()
	const at = "2000-01-01T00:00:00Z"
	events := []map[string]string{{"introduced": "0"}}
	listed := map[string]string{"id": planted, "modified": at}
	if f.repaired != "" {
		events = append(events, map[string]string{"fixed": f.repaired})
		listed["fixed"] = f.repaired
	}
	type object = map[string]any
	dir := t.TempDir()
	for name, content := range map[string]any{
		"index/db.json":      object{"modified": at},
		"index/modules.json": []object{{"path": f.module, "vulns": []any{listed}}},
		"ID/" + planted + ".json": object{
			"schema_version": "1.3.1", "id": planted, "modified": at, "published": at, "details": "Planted by a test.",
			"affected": []object{{
				"package":            object{"name": f.module, "ecosystem": "Go"},
				"ranges":             []object{{"type": "SEMVER", "events": events}},
				"ecosystem_specific": object{"imports": []object{{"path": f.pkg, "symbols": []string{f.symbol}}}},
			}},
			"database_specific": object{"url": "https://vulnerabilities.example/" + planted},
		},
	} {
		text, err := json.Marshal(content)
		noError(t, err)
		path := filepath.Join(dir, filepath.FromSlash(name))
		noError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		noError(t, os.WriteFile(path, text, 0o600))
	}
	return "file://" + dir
}

// harmless is a database of which nothing is for us: the function that we call, in versions of long ago.
func harmless(t *testing.T) string {
	t.Helper()
	long := called
	long.repaired = "1.0.0"
	return database(t, long)
}

// TestVuln: make vuln looks into the database that GOVULNDB names. It fails on a function that our code calls, and names both, after all
// modules have been looked up; it does not for one beside it; and it says so when there is no database.
func TestVuln(t *testing.T) {
	t.Parallel()
	beside := called
	beside.symbol = "NobodyCallsThis"
	for name, one := range map[string]struct {
		database string
		fails    bool
		says     []string
		looks    int // modules
	}{
		"a function that we call":      {database(t, called), true, []string{planted, "status.Error", "Unimplemented"}, 2},
		"one beside it":                {database(t, beside), false, []string{"your code doesn't appear to call"}, 2},
		"one that was repaired before": {harmless(t), false, []string{"No vulnerabilities found."}, 2},
		"no database": {
			"file://" + filepath.Join(t.TempDir(), "absent"), true,
			[]string{"vuln: proto was not looked up: vuln.go.dev must be reachable, or GOVULNDB name a copy of it"},
			1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), lookup)
			defer cancel()
			shell := commands.Shell{Dir: repository(t), Env: append(os.Environ(), "MAKEFLAGS=", "GOVULNDB="+one.database), Here: strings.NewReplacer()}
			out, err := shell.Run(ctx, "make vuln MODULES='proto proto'")
			if (err != nil) != one.fails {
				t.Errorf("it ends with %v:\n%s", err, out)
			}
			for _, want := range one.says {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
			if looks := strings.Count(out, "vuln proto\n"); looks != one.looks {
				t.Errorf("it looks up %d modules, want %d:\n%s", looks, one.looks, out)
			}
		})
	}
}
