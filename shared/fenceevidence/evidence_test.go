package fenceevidence_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/shared/fenceevidence"
)

func valid() fenceevidence.Evidence {
	return fenceevidence.Evidence{
		Generation: "g000000000000002a", Digest: strings.Repeat("0a", 32),
		Claims: map[fenceevidence.Claim]string{
			fenceevidence.NamespaceUID: "n", fenceevidence.SandboxUID: "b", fenceevidence.WorkloadUID: "w",
			fenceevidence.SupervisorUID: "s", fenceevidence.PolicyUID: "p", fenceevidence.PolicyVersion: "1945",
		},
	}
}

const written = `{"generation":"g000000000000002a","evidence_digest":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a",` +
	`"resource_claims":{"kubernetes.egress_policy_resource_version":"1945","kubernetes.egress_policy_uid":"p","kubernetes.namespace_uid":"n",` +
	`"kubernetes.sandbox_resource_uid":"b","kubernetes.supervisor_pod_uid":"s","kubernetes.workload_pod_uid":"w"}}`

func TestEncode(t *testing.T) {
	text, err := fenceevidence.Encode(valid())
	if err != nil || text != written {
		t.Fatalf("got %s, %v", text, err)
	}
	back, err := fenceevidence.Decode(text)
	if diff := cmp.Diff(valid(), back); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
}

func TestIncomplete(t *testing.T) {
	for name, breaks := range map[string]func(e *fenceevidence.Evidence){
		"nothing":               func(e *fenceevidence.Evidence) { *e = fenceevidence.Evidence{} },
		"no generation":         func(e *fenceevidence.Evidence) { e.Generation = "" },
		"space in generation":   func(e *fenceevidence.Evidence) { e.Generation = "g 1" },
		"long generation":       func(e *fenceevidence.Evidence) { e.Generation = strings.Repeat("g", fenceevidence.MaxValue+1) },
		"no digest":             func(e *fenceevidence.Evidence) { e.Digest = "" },
		"short digest":          func(e *fenceevidence.Evidence) { e.Digest = e.Digest[1:] },
		"upper-case digest":     func(e *fenceevidence.Evidence) { e.Digest = strings.ToUpper(e.Digest) },
		"no claims":             func(e *fenceevidence.Evidence) { e.Claims = nil },
		"a claim is missing":    func(e *fenceevidence.Evidence) { delete(e.Claims, fenceevidence.PolicyVersion) },
		"a claim is empty":      func(e *fenceevidence.Evidence) { e.Claims[fenceevidence.NamespaceUID] = "" },
		"a claim has a newline": func(e *fenceevidence.Evidence) { e.Claims[fenceevidence.WorkloadUID] = "w\n" },
		"a claim that is none":  func(e *fenceevidence.Evidence) { e.Claims["kubernetes.node"] = "n" },
	} {
		t.Run(name, func(t *testing.T) {
			e := valid()
			e.Claims = maps.Clone(e.Claims)
			breaks(&e)
			if text, err := fenceevidence.Encode(e); err == nil {
				t.Errorf("it is encoded: %s", text)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":          "",
		"null":             "null",
		"a list":           "[]",
		"an unknown field": strings.Replace(written, `"generation"`, `"node":"n","generation"`, 1),
		"something behind": written + "{}",
		"a digest short":   strings.Replace(written, "0a0a", "0a", 1),
		"too long":         written + strings.Repeat(" ", fenceevidence.MaxSize),
	} {
		t.Run(name, func(t *testing.T) {
			if e, err := fenceevidence.Decode(text); err == nil {
				t.Errorf("it is taken: %+v", e)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(written)
	f.Add(`{"generation":"g"}`)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := fenceevidence.Decode(text)
		if err != nil {
			return
		}
		again, err := fenceevidence.Encode(e)
		if err != nil {
			t.Fatalf("%q is decoded, and cannot be encoded: %v", text, err)
		}
		back, err := fenceevidence.Decode(again)
		if diff := cmp.Diff(e, back); err != nil || diff != "" {
			t.Fatalf("%v, %s", err, diff)
		}
	})
}
