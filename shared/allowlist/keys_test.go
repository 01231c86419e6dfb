package allowlist

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

func TestSeveralKeysAreActive(t *testing.T) {
	old, next, stranger := testSigner(t, 1), testSigner(t, 2), testSigner(t, 3)
	both := testKeys(t, old, next)
	for name, c := range map[string]struct {
		signer *Signer
		keys   KeySet
		want   Cause
	}{
		"old key while both are active":  {old, both, 0},
		"new key while both are active":  {next, both, 0},
		"old key after the rotation":     {old, testKeys(t, next), UnknownKey},
		"new key before the rotation":    {next, testKeys(t, old), UnknownKey},
		"key that was never active":      {stranger, both, UnknownKey},
		"zero key set verifies nothing":  {old, KeySet{}, UnknownKey},
		"own key of a set with one more": {stranger, testKeys(t, old, next, stranger), 0},
	} {
		record, err := SealHeartbeat(validHeartbeat(t), c.signer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := OpenHeartbeat(record, c.keys, gateway); CauseOf(err) != c.want || (err == nil) != (c.want == 0) {
			t.Errorf("%s: %v, want cause %s", name, err, c.want)
		}
	}
}

func TestKeySets(t *testing.T) {
	a, b := testSigner(t, 1).Public(), testSigner(t, 2).Public()
	for name, keys := range map[string][]PublicKey{"none": {}, "zero key": {{}}, "twice": {a, b, a}} {
		if _, err := NewKeySet(keys...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	given := []PublicKey{a}
	set, err := NewKeySet(given...)
	if err != nil {
		t.Fatal(err)
	}
	given[0] = b
	if !set.Has(a) || set.Has(b) || set.Has(PublicKey{}) || !slices.Equal(set.IDs(), []KeyID{a.ID()}) {
		t.Errorf("the set changed with the slice it was made from: %v", set.IDs())
	}
	raw := ed25519.PublicKey(bytes.Repeat([]byte{7}, 32))
	k, err := NewPublicKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	raw[0] = 0
	if k.key[0] != 7 {
		t.Error("the key changed with the slice it was made from")
	}
	if _, err := NewPublicKey(raw[:31]); err == nil {
		t.Error("a key of 31 bytes is accepted")
	}
}

func TestSignerIsWipedAndRefusesShortRandomness(t *testing.T) {
	s := testSigner(t, 1)
	s.Wipe()
	if _, err := SealHeartbeat(validHeartbeat(t), s); !errors.Is(err, errNoKey) {
		t.Errorf("a wiped signer: %v", err)
	}
	if _, err := GenerateSigner(bytes.NewReader(make([]byte, 31))); err == nil {
		t.Error("31 random bytes make a key")
	}
}

func TestPrivateKeyIsNeverPrinted(t *testing.T) {
	s := testSigner(t, 0x5a)
	file, err := s.PrivateFile()
	if err != nil {
		t.Fatal(err)
	}
	encoded, _ := json.Marshal(map[string]any{"signer": s, "file": file})
	out := fmt.Sprintf("%v %+v %#v %s %x %s %s", s, *s, *s, s, s, file, encoded)
	seed := bytes.Repeat([]byte{0x5a}, 32)
	for name, secret := range map[string]string{"raw": string(seed), "hex": hex.EncodeToString(seed), "base64": "WlpaWlpa", "decimal": "90 90 90"} {
		if strings.Contains(out, secret) {
			t.Errorf("the private key shows as %s in %q", name, out)
		}
	}
}

func TestKeyFiles(t *testing.T) {
	s := testSigner(t, 1)
	private, err := s.PrivateFile()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	if again.Public() != s.Public() {
		t.Error("another key came back")
	}
	public := "# rotation\n\n" + s.Public().FileLine() + testSigner(t, 2).Public().FileLine()
	for _, text := range []string{public, strings.ReplaceAll(public, "\n", "\r\n"), strings.TrimSuffix(public, "\n")} {
		set, err := ParseKeySet([]byte(text))
		if err != nil || !set.Has(s.Public()) || len(set.IDs()) != 2 {
			t.Errorf("%q gives %v, %v", text, set.IDs(), err)
		}
	}
	const golden = "portcullis-ed25519-public-v1 34750f98bd59fcfc iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=\n"
	if got := s.Public().FileLine(); got != golden {
		t.Errorf("public line %q, want %q", got, golden)
	}
	const goldenPrivate = "portcullis-ed25519-private-v1 34750f98bd59fcfc AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n"
	if got := string(private.Expose()); got != goldenPrivate {
		t.Errorf("private line %q, want %q", got, goldenPrivate)
	}
}

func TestBadKeyFiles(t *testing.T) {
	private, err := testSigner(t, 1).PrivateFile()
	if err != nil {
		t.Fatal(err)
	}
	privateLine := string(private.Expose())
	publicLine := testSigner(t, 1).Public().FileLine()
	for _, c := range []struct{ name, old, with, want string }{
		{"empty", "LINE", "", "no public key|0 keys"},
		{"only comments", "LINE", "# nothing\n", "no public key|0 keys"},
		{"two words", " 34750f98bd59fcfc ", " ", "three words"},
		{"four words", " 34750f98bd59fcfc ", " 34750f98bd59fcfc x ", "three words"},
		{"other version", "-v1 ", "-v2 ", "three words"},
		{"key id of another key", "34750f98bd59fcfc", "34750f98bd59fcfd", "damaged"},
		{"key id too short", "34750f98bd59fcfc", "34750f98", "lower-case hex"},
		{"not base64", "=\n", "*\n", "base64 of 32 bytes"},
		{"too short", "=\n", "\n", "base64 of 32 bytes"},
		{"same key twice", "LINE", "TWICE", "twice|2 keys"},
		{"too large", "LINE", "LARGE", "at most 65536"},
		{"binary", "LINE", "\x00\x01\x02", "three words"},
	} {
		for kind, line := range map[string]string{"private": privateLine, "public": publicLine} {
			t.Run(kind+" "+c.name, func(t *testing.T) {
				text := line
				switch {
				case c.with == "TWICE":
					text += line
				case c.with == "LARGE":
					text += strings.Repeat("#", MaxKeyFile)
				case c.old == "LINE":
					text = c.with
				default:
					text = replaceOnce(t, line, c.old, c.with)
				}
				_, err := ParseKeySet([]byte(text))
				if kind == "private" {
					_, err = ParseSigner(secret.New([]byte(text)))
				}
				if err == nil || !slices.ContainsFunc(strings.Split(c.want, "|"), func(w string) bool { return strings.Contains(err.Error(), w) }) {
					t.Fatalf("error %v, want %q", err, c.want)
				}
				if strings.Contains(err.Error(), "AQEB") {
					t.Errorf("the error shows the key: %v", err)
				}
			})
		}
	}
	if _, err := ParseKeySet([]byte(privateLine)); err == nil || !strings.Contains(err.Error(), "must not be handed out") {
		t.Errorf("a private key where a public one is due: %v", err)
	}
	if _, err := ParseSigner(secret.New([]byte(publicLine))); err == nil || !strings.Contains(err.Error(), "a private key is due") {
		t.Errorf("a public key where a private one is due: %v", err)
	}
	var many strings.Builder
	for i := range maxKeys + 1 {
		many.WriteString(testSigner(t, byte(i)).Public().FileLine())
	}
	if _, err := ParseKeySet([]byte(many.String())); err == nil || !strings.Contains(err.Error(), "more than 32") {
		t.Errorf("too many keys: %v", err)
	}
}
