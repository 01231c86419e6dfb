package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

func TestKeysGenerate(t *testing.T) {
	dir := t.TempDir()
	private, public := filepath.Join(dir, "key"), filepath.Join(dir, "pub")
	got := program.Run(t.Context(), "keys", "generate", "--private", private, "--public", public)
	if got.Code != 0 || got.Stderr != "" {
		t.Fatalf("%+v", got)
	}
	id := strings.TrimSpace(got.Stdout)
	text, err := os.ReadFile(public)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := allowlist.ParseKeySet(text)
	if err != nil || len(keys.IDs()) != 1 || string(keys.IDs()[0]) != id || !keys.Has(signer(t, private).Public()) {
		t.Errorf("printed %q, the file has %v, %v", id, keys.IDs(), err)
	}
	info, err := os.Stat(private)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the private key has mode %v, %v", info.Mode(), err)
	}
	secretPart, err := os.ReadFile(private)
	if err != nil || strings.Contains(got.Stdout, strings.Fields(string(secretPart))[2]) {
		t.Error("the private key is printed")
	}
}

// TestKeysAreNeverOverwritten: neither file is touched, and no half of a pair stays behind.
func TestKeysAreNeverOverwritten(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "target"), dangling); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(dir, "fresh")
	for name, args := range map[string][]string{
		"private exists":   {"--private", old, "--public", fresh},
		"public exists":    {"--private", fresh, "--public", old},
		"private is link":  {"--private", dangling, "--public", fresh},
		"public is link":   {"--private", fresh, "--public", dangling},
		"the same file":    {"--private", fresh, "--public", fresh},
		"no directory":     {"--private", fresh, "--public", filepath.Join(dir, "none", "pub")},
		"no public":        {"--private", fresh},
		"nothing is named": {},
		"stray argument":   {"--private", fresh, "--public", filepath.Join(dir, "p"), "x"},
	} {
		t.Run(name, func(t *testing.T) {
			got := program.Run(t.Context(), append([]string{"keys", "generate"}, args...)...)
			if got.Code == 0 || got.Stdout != "" || strings.Count(got.Stderr, "\n") != 1 {
				t.Errorf("%+v", got)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 2 {
				t.Errorf("the directory holds %v, %v", entries, err)
			}
			if text, err := os.ReadFile(old); err != nil || string(text) != "precious" {
				t.Errorf("the old file has %q, %v", text, err)
			}
		})
	}
}
