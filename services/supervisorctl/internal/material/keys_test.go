package material_test

import (
	"bytes"
	"crypto/ed25519"
	cryptorand "crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/material"
)

// record keeps what is read through it.
type record struct {
	from io.Reader
	read []byte
}

func (r *record) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.read = append(r.read, p[:n]...)
	return n, err
}

func TestSessionCAKeyIsNowhere(t *testing.T) {
	r := &record{from: cryptorand.Reader}
	p := partsOf(t, produce(t, valid(t), r))
	var seed []byte
	for at := 0; at+ed25519.SeedSize <= len(r.read); at++ {
		if s := r.read[at : at+ed25519.SeedSize]; ed25519.NewKeyFromSeed(s).Public().(ed25519.PublicKey).Equal(p.ca.PublicKey) {
			seed = s
		}
	}
	if seed == nil {
		t.Fatal("the key was not made from the randomness, so this test cannot look for it")
	}
	for _, files := range []map[string]string{p.sandbox, p.super} {
		for name, text := range files {
			for what, needle := range map[string]string{"bytes": string(seed), "hex": hex.EncodeToString(seed)} {
				if strings.Contains(strings.ToLower(text), needle) || strings.Contains(text, needle) {
					t.Errorf("%s holds the key as %s", name, what)
				}
			}
			// Base64 of the key, wherever it begins in a group of three, without the ends that depend on neighbours and without line ends.
			flat := strings.NewReplacer("\n", "", `\n`, "", "-", "+", "_", "/").Replace(text)
			for skip := range 3 {
				if middle := base64.StdEncoding.EncodeToString(append(make([]byte, skip), seed...)); strings.Contains(flat, middle[4:40]) {
					t.Errorf("%s holds the key in base64", name)
				}
			}
		}
	}
	// The needle finds what is there: the leaf's key.
	flat := strings.ReplaceAll(p.sandbox[material.FileKey], "\n", "")
	found := false
	for skip := range 3 {
		found = found || strings.Contains(flat, base64.StdEncoding.EncodeToString(append(make([]byte, skip), p.leafKey.Seed()...))[4:40])
	}
	if !found {
		t.Error("the search does not find the key of the leaf either")
	}
}

func TestNothingIsShared(t *testing.T) {
	seen := map[string]string{}
	for i := range 8 {
		p := partsOf(t, produce(t, valid(t), cryptorand.Reader))
		for name, c := range map[string]*x509.Certificate{"session CA": p.ca, "leaf": p.leaf, "proxy CA": p.proxyCA} {
			for what, value := range map[string]string{"key": string(c.RawSubjectPublicKeyInfo), "serial": c.SerialNumber.String()} {
				here := fmt.Sprintf("%s of %s in run %d", what, name, i)
				if before, ok := seen[value]; ok {
					t.Errorf("%s is %s", here, before)
				}
				seen[value] = here
			}
		}
	}
}

func TestWorkloadGetsNoSecretOfTheSupervisor(t *testing.T) {
	f := valid(t)
	ca, leaf, key := foreignCA(t)
	f.UpstreamProxyCA, f.ClientCA, f.ClientCertificate, f.ClientKey = ca, ca, leaf, secretOf(key)
	m := produce(t, f, cryptorand.Reader)
	sandbox, super := texts(m.Sandbox), texts(m.Supervisor)
	for name, text := range sandbox {
		for _, forbidden := range []string{gatewayToken, sandboxToken, super[material.FileProxyCAKey], string(key), super[material.FileAuth]} {
			if strings.Contains(text, forbidden) {
				t.Errorf("%s holds what is the supervisor's", name)
			}
		}
	}
	for name, text := range super {
		if strings.Contains(text, sandbox[material.FileKey]) || strings.Contains(text, sandbox[material.FileBoundary]) {
			t.Errorf("%s holds what is the workload's", name)
		}
	}
}

func TestSameRandomnessSameMaterial(t *testing.T) {
	first, again, other := produce(t, valid(t), fixed(1)), produce(t, valid(t), fixed(1)), produce(t, valid(t), fixed(3))
	if !maps.Equal(texts(first.Sandbox), texts(again.Sandbox)) || !maps.Equal(texts(first.Supervisor), texts(again.Supervisor)) {
		t.Error("the material is not a function of facts and randomness")
	}
	for _, name := range []string{material.FileCertificate, material.FileKey} {
		if first.Sandbox[name].Equal(other.Sandbox[name]) {
			t.Errorf("%s does not depend on the randomness", name)
		}
	}
}

// zeros is the worst source of randomness.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// notKeys are sound bytes but for the numbers of P-256, of which the first so many are too great to be a key.
type notKeys struct {
	good  io.Reader
	reads int
	bad   int
}

func (n *notKeys) Read(p []byte) (int, error) {
	n.reads++
	if n.reads <= 4 || n.bad == 0 {
		return n.good.Read(p)
	}
	for i := range p {
		p[i] = 0xff
	}
	p[len(p)-1] = byte(n.bad)
	n.bad--
	return len(p), nil
}

func TestBadRandomness(t *testing.T) {
	r := &record{from: fixed(1)}
	produce(t, valid(t), r)
	broken := errors.New("no entropy")
	for n := range len(r.read) {
		m, err := material.Make(valid(t), io.MultiReader(bytes.NewReader(r.read[:n]), failing{broken}))
		if m != nil || !errors.Is(err, broken) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
		if m, err := material.Make(valid(t), bytes.NewReader(r.read[:n])); m != nil || err == nil {
			t.Fatalf("only %d bytes: accepted", n)
		}
	}
	for name, c := range map[string]struct {
		random io.Reader
		want   string
	}{
		"none":    {nil, "no source of randomness"},
		"zeros":   {zeros{}, "repeats itself"},
		"no keys": {&notKeys{good: fixed(1), bad: 100}, "no number that is a key"},
	} {
		if m, err := material.Make(valid(t), c.random); m != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	partsOf(t, produce(t, valid(t), &notKeys{good: fixed(1), bad: 3})) // a rare draw costs another draw
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestWipeLeavesTheFacts(t *testing.T) {
	f := valid(t)
	ca, leaf, key := foreignCA(t)
	f.ClientCA, f.ClientCertificate, f.ClientKey = ca, leaf, secretOf(key)
	m := produce(t, f, fixed(1))
	held := slices.Collect(maps.Values(m.Sandbox))
	held = slices.AppendSeq(held, maps.Values(m.Supervisor))
	m.Wipe()
	m.Wipe()
	for _, v := range held {
		if !v.IsZero() {
			t.Error("a value is left")
		}
	}
	if f.Bundle.Supervisor().IsZero() || f.ClientKey.IsZero() {
		t.Error("the facts were wiped too")
	}
	produce(t, f, fixed(2))
}

func TestMaterialPrintsNothing(t *testing.T) {
	m := produce(t, valid(t), fixed(1))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, m); strings.Contains(text, "BEGIN") || strings.Contains(text, "eyJ") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}
