package natsidentity_test

import (
	"encoding/pem"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/natsidentity"
)

var update = flag.Bool("update", false, "write the golden files anew")

// directory is a valid one that is still empty.
func directory(t *testing.T) natsidentity.Directory {
	t.Helper()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), 0o600); err != nil {
		t.Fatal(err)
	}
	return natsidentity.Directory{Path: filepath.Join(t.TempDir(), "new", "identities"), GatewayID: "openshell", Namespace: "portcullis", Authority: authority}
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFilesAreThese compares what is written with the golden files; keys are all alike there.
func TestFilesAreThese(t *testing.T) {
	d := directory(t)
	if _, err := d.Fill(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{natsidentity.File, "kustomization.yaml"} {
		got := regexp.MustCompile(`U[A-Z2-7]{55}`).ReplaceAllString(content(t, filepath.Join(d.Path, name)), "U…")
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want := content(t, golden); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
	entries, err := os.ReadDir(d.Path)
	if err != nil || len(entries) != len(natsidentity.Names())+3 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

// TestSeedsAreKept: what is there stays, what is missing is made, and every seed is the one that the servers know.
func TestSeedsAreKept(t *testing.T) {
	d := directory(t)
	first, err := d.Fill()
	if err != nil {
		t.Fatal(err)
	}
	for _, made := range first {
		path := filepath.Join(d.Path, made.Name+".seed")
		pair, err := nkeys.FromSeed([]byte(content(t, path)))
		if err != nil {
			t.Fatal(err)
		}
		if public, err := pair.PublicKey(); err != nil || public != made.Public || !made.New {
			t.Errorf("%+v: the seed is of %s, %v", made, public, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
	if err := os.Remove(filepath.Join(d.Path, "gateway.seed")); err != nil {
		t.Fatal(err)
	}
	second, err := d.Fill()
	if err != nil {
		t.Fatal(err)
	}
	for i, made := range second {
		changed := made.Name == "gateway"
		if made.New != changed || (made.Public != first[i].Public) != changed {
			t.Errorf("before %+v, now %+v", first[i], made)
		}
		if !strings.Contains(content(t, filepath.Join(d.Path, natsidentity.File)), made.Public) {
			t.Errorf("the servers do not know %s", made.Name)
		}
	}
}

// TestBadDirectories: what cannot be used is named, and no seed is in an error.
func TestBadDirectories(t *testing.T) {
	seedOf := func(d natsidentity.Directory) string { return filepath.Join(d.Path, "tokenauth.seed") }
	write := func(content string, mode os.FileMode) func(*testing.T, *natsidentity.Directory) {
		return func(t *testing.T, d *natsidentity.Directory) {
			t.Helper()
			if err := os.WriteFile(seedOf(*d), []byte(content), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	accountSeed, err := account.Seed()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(*testing.T, *natsidentity.Directory)
		says  string
	}{
		"no directory":          {func(_ *testing.T, d *natsidentity.Directory) { d.Path = "" }, "--dir"},
		"no gateway":            {func(_ *testing.T, d *natsidentity.Directory) { d.GatewayID = "" }, "--gateway-id"},
		"a gateway of spaces":   {func(_ *testing.T, d *natsidentity.Directory) { d.GatewayID = "a b" }, "--gateway-id"},
		"a gateway that quotes": {func(_ *testing.T, d *natsidentity.Directory) { d.GatewayID = `a"b` }, "--gateway-id"},
		"a gateway of dots":     {func(_ *testing.T, d *natsidentity.Directory) { d.GatewayID = "a..b" }, "--gateway-id"},
		"a wildcard":            {func(_ *testing.T, d *natsidentity.Directory) { d.GatewayID = "*" }, "--gateway-id"},
		"no namespace":          {func(_ *testing.T, d *natsidentity.Directory) { d.Namespace = "" }, "--namespace"},
		"no authority":          {func(_ *testing.T, d *natsidentity.Directory) { d.Authority = "/nowhere" }, "--ca-file"},
		"a key as authority":    {func(_ *testing.T, d *natsidentity.Directory) { d.Authority = seedOf(*d) }, "--ca-file"},
		"a seed for all":        {write("x", 0o604), "tokenauth"},
		"no seed":               {write("SUNOTHING", 0o600), "tokenauth"},
		"an empty seed":         {write("", 0o600), "tokenauth"},
		"a seed of an account":  {write(string(accountSeed), 0o600), "tokenauth"},
		"a large seed":          {write(strings.Repeat("S", 1<<20), 0o600), "tokenauth"},
		"a directory as seed": {func(t *testing.T, d *natsidentity.Directory) {
			t.Helper()
			if err := os.Mkdir(seedOf(*d), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "tokenauth"},
	} {
		t.Run(name, func(t *testing.T) {
			d := directory(t)
			if _, err := d.Fill(); err != nil {
				t.Fatal(err)
			}
			known := content(t, filepath.Join(d.Path, natsidentity.File))
			seed := content(t, seedOf(d))
			if c.says == "tokenauth" { // else the fault is elsewhere
				if err := os.Remove(seedOf(d)); err != nil {
					t.Fatal(err)
				}
			}
			c.spoil(t, &d)
			_, err := d.Fill()
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want %q", err, c.says)
			}
			if strings.Contains(err.Error(), seed) || strings.Contains(err.Error(), string(accountSeed)) || strings.Contains(err.Error(), "SUNOTHING") {
				t.Errorf("a seed is in the error: %v", err)
			}
			if d.Path != "" && content(t, filepath.Join(d.Path, natsidentity.File)) != known {
				t.Error("the servers would know others now")
			}
		})
	}
}

// TestNobodyIsLeftOut: a missing public key is an error rather than a variable without a value.
func TestNobodyIsLeftOut(t *testing.T) {
	for _, name := range natsidentity.Names() {
		publics := map[string]string{}
		for _, other := range natsidentity.Names() {
			publics[other] = "U"
		}
		delete(publics, name)
		if text, err := natsidentity.Config("openshell", publics); err == nil || !strings.Contains(err.Error(), name) || text != "" {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
	}
}

// TestPublic: what Config writes, Public reads, and nothing else.
func TestPublic(t *testing.T) {
	t.Parallel()
	publics := map[string]string{}
	for i, name := range natsidentity.Names() {
		publics[name] = fmt.Sprintf("U%d", i)
	}
	text, err := natsidentity.Config("openshell", publics)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range publics {
		if got := natsidentity.Public(text, name); got != want {
			t.Errorf("the key of %s is %q, not %q", name, got, want)
		}
	}
	for _, none := range []string{"", "GATEWAY_NKEY: U1\n", "GATEWAY_NKEY\n", "# GATEWAY_NKEY: \"U1\"\n"} {
		if got := natsidentity.Public(none, "gateway"); got != "" {
			t.Errorf("%q gives the key %q", none, got)
		}
	}
}
