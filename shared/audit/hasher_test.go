package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

func keyFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func hasher(t *testing.T, file string) *Hasher {
	t.Helper()
	h, err := NewHasher(file)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestFingerprint(t *testing.T) {
	key := strings.Repeat("k", 32)
	token := secret.New([]byte("the token"))
	a, b := hasher(t, keyFile(t, key)), hasher(t, keyFile(t, key))
	f := a.Fingerprint(token)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte("portcullis audit token\x00the token"))
	if want := hex.EncodeToString(mac.Sum(nil))[:32]; f.Hash() != want || len(f.Key()) != 8 || f.String() != want {
		t.Errorf("%+v, want hash %s", f, want)
	}
	if f != b.Fingerprint(token) || f != a.Fingerprint(token) {
		t.Error("one key gives a token two fingerprints")
	}
	if other := a.Fingerprint(secret.New([]byte("the token."))); other == f || other.Key() != f.Key() {
		t.Errorf("another token: %+v", other)
	}
	if other := hasher(t, keyFile(t, key+"k")).Fingerprint(token); other.Hash() == f.Hash() || other.Key() == f.Key() {
		t.Errorf("another key: %+v", other)
	}
	if !a.Fingerprint(secret.Value{}).IsZero() || f.IsZero() {
		t.Error("no token has a fingerprint, or a token has none")
	}
	x, y := hasher(t, "").Fingerprint(token), hasher(t, "").Fingerprint(token)
	if x == y || x.Key() == y.Key() || x.IsZero() {
		t.Errorf("two processes without a key file: %+v, %+v", x, y)
	}
	if text := fmt.Sprintf("%v %+v %#v", a, *a, a); strings.Contains(text, key[:8]) || strings.Contains(text, hex.EncodeToString([]byte(key[:8]))) {
		t.Errorf("the key is printed: %s", text)
	}
}

func TestKeyFileRefused(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"absent":    {filepath.Join(t.TempDir(), "none"), "no such file"},
		"short":     {keyFile(t, strings.Repeat("k", 31)), "has 31 bytes, must have 32"},
		"empty":     {keyFile(t, ""), "has 0 bytes"},
		"large":     {keyFile(t, strings.Repeat("k", maxKeyFile+1)), "larger than"},
		"directory": {t.TempDir(), "not a regular file"},
	} {
		if _, err := NewHasher(test.file); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "kkk") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
