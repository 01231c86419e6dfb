package material_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/material"
)

func fence(t *testing.T, generation, uid, version string) material.Fence {
	t.Helper()
	f, err := material.FenceOf(generation, uid, version)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// byHand is contract 13.4 without encoding/json and encoding/binary.
func byHand(generation, uid, version string) string {
	text := `{"network_policy_uid":"` + uid + `","network_policy_resource_version":"` + version +
		`","ingress_isolated":true,"egress_isolated":true,"egress_rule_count":0}`
	length := []byte{0, 0, 0, 0, 0, 0, byte(len(generation) >> 8), byte(len(generation))}
	sum := sha256.Sum256([]byte(string(length) + generation + text))
	return hex.EncodeToString(sum[:])
}

func TestEvidenceDigest(t *testing.T) {
	// Made once with printf and sha256sum, without a line of Go.
	const stored = "73cf8253c42ad29d008447aa1742ab203c53ead04b58be178ef2ed258115979e"
	got := fence(t, "g000000000000002a", "44444444-0000-4000-8000-000000000004", "1945")
	if got.EvidenceDigest != stored {
		t.Errorf("got %s, want %s", got.EvidenceDigest, stored)
	}
	if got.Generation != "g000000000000002a" || strings.Join(got.Established, " ") !=
		"default_deny_egress no_unmanaged_egress_path revocation_verified controller_loss_fails_closed" {
		t.Errorf("got %+v", got)
	}
	for _, c := range [][3]string{
		{"g000000000000002a", "44444444-0000-4000-8000-000000000004", "1945"},
		{"", "u", "1"},
		{strings.Repeat("g", 64), "u", "1"},
		{strings.Repeat("g", 300), "<&>", "é"},
	} {
		if got, want := fence(t, c[0], c[1], c[2]).EvidenceDigest, byHand(c[0], c[1], c[2]); got != want {
			t.Errorf("%q: got %s, want %s", c, got, want)
		}
	}
}

// No two different facts have one digest, also where their texts, put together, are equal.
func TestEvidenceDigestsDiffer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string][3]string{}
	word := func() string {
		b := make([]byte, r.IntN(5))
		for i := range b {
			b[i] = `01"{:,}n`[r.IntN(8)]
		}
		return string(b)
	}
	for range 20_000 {
		facts := [3]string{word(), word(), word()}
		digest := fence(t, facts[0], facts[1], facts[2]).EvidenceDigest
		if before, ok := seen[digest]; ok && before != facts {
			t.Fatalf("%q and %q have one digest", before, facts)
		}
		seen[digest] = facts
	}
	if len(seen) < 10_000 {
		t.Errorf("only %d different facts were tried", len(seen))
	}
}

// Each of the three facts reaches both files, and the same fence is in both.
func TestFenceOfMaterial(t *testing.T) {
	base := produce(t, valid(t), fixed(1)).Fence
	for name, do := range map[string]func(f *material.Facts){
		"uid":        func(f *material.Facts) { f.FenceUID = "another" },
		"version":    func(f *material.Facts) { f.FenceResourceVersion = "1946" },
		"generation": func(f *material.Facts) { f.Bundle = bundle(t, strings.Replace(supervisor, "2a", "2b", 1)) },
	} {
		f := valid(t)
		do(f)
		m := produce(t, f, fixed(1))
		if m.Fence.EvidenceDigest == base.EvidenceDigest {
			t.Errorf("%s does not change the digest", name)
		}
		for _, text := range []string{string(m.Sandbox[material.FileBoundary].Expose()), string(m.Supervisor[material.FileDescriptor].Expose())} {
			if !strings.Contains(text, `"outer_fence":{"generation":"`+f.Bundle.RuntimeGeneration()+`","established":["default_deny_egress",`+
				`"no_unmanaged_egress_path","revocation_verified","controller_loss_fails_closed"],"evidence_digest":"`+m.Fence.EvidenceDigest+`"}`) {
				t.Errorf("%s: another fence in %s", name, text)
			}
		}
	}
}
