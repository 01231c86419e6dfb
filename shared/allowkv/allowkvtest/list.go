package allowkvtest

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// List is a list of these namespaces, each with the uid "uid-" and its name.
func List(tb testing.TB, names ...string) allowlist.List {
	tb.Helper()
	entries := make([]allowlist.Entry, len(names))
	for i, name := range names {
		entries[i] = allowlist.Entry{Name: name, UID: "uid-" + name}
	}
	list, err := allowlist.NewList(entries)
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

// Signer is a new signer.
func Signer(tb testing.TB) *allowlist.Signer {
	tb.Helper()
	signer, err := allowlist.GenerateSigner(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return signer
}

// KeysFile writes the public keys of the signers to a file that goes with the test, and returns its path.
func KeysFile(tb testing.TB, signers ...*allowlist.Signer) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "public.keys")
	WriteKeys(tb, path, signers...)
	return path
}

// WriteKeys makes the public keys of the signers the content of a file of public keys.
func WriteKeys(tb testing.TB, path string, signers ...*allowlist.Signer) {
	tb.Helper()
	var lines strings.Builder
	for _, signer := range signers {
		lines.WriteString(signer.Public().FileLine())
	}
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		tb.Fatal(err)
	}
}
