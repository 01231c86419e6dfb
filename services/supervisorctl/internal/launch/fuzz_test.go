package launch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/launch"
)

// FuzzParse: no input panics; what is accepted is what a plain reader of JSON sees too; it survives being written and read
// again; and one more field, anywhere, is refused.
func FuzzParse(f *testing.F) {
	good := valid(f).json()
	f.Add([]byte(good))
	f.Add([]byte(strings.ReplaceAll(good, ",", " ,\n ")))
	f.Add([]byte(strings.Replace(good, `"gateway_id"`, `"Gateway_id"`, 1)))
	f.Add([]byte(strings.Replace(good, "3", "3.5", 1)))
	f.Add([]byte(`{"supervisor":{"session_id":"`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		b, err := launch.Parse(raw)
		if !bytes.Equal(before, raw) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			return
		}
		naive(t, raw, b)
		again, err := launch.Parse([]byte(rewritten(b)))
		if err != nil || describe(again) != describe(b) {
			t.Fatalf("written and read again: %v\n%s\nwas\n%s", err, describe(again), describe(b))
		}
		for at, c := range raw {
			if c != '{' {
				continue
			}
			more := string(raw[:at+1]) + `"x":0,` + string(raw[at+1:])
			if _, err := launch.Parse([]byte(more)); err == nil {
				t.Fatalf("accepted with one more field at %d", at)
			}
		}
	})
}

// naive compares with what encoding/json reads.
func naive(t *testing.T, raw []byte, b *launch.Bundle) {
	t.Helper()
	var doc struct {
		Supervisor json.RawMessage `json:"supervisor"`
		GatewayID  string          `json:"gateway_id"`
		Keys       []struct {
			ID  string `json:"key_id"`
			PEM []int  `json:"public_key_pem"`
		} `json:"verification_keys"`
	}
	var s struct {
		Session    string `json:"session_id"`
		Generation string `json:"runtime_generation"`
		Rotation   uint64 `json:"session_rotation"`
		Epoch      uint64 `json:"auth_epoch"`
		Gateway    string `json:"gateway_token"`
		GatewayAt  int64  `json:"gateway_expires_at"`
		Sandbox    string `json:"sandbox_token"`
		SandboxAt  int64  `json:"sandbox_expires_at"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc.Supervisor, &s); err != nil {
		t.Fatal(err)
	}
	if s.Session != b.SessionID() || s.Generation != b.RuntimeGeneration() || s.Rotation != b.SessionRotation() || s.Epoch != b.AuthEpoch() ||
		doc.GatewayID != b.GatewayID() || !bytes.Equal(doc.Supervisor, b.Supervisor().Expose()) {
		t.Fatalf("another reading of\n%s\n%s", raw, describe(b))
	}
	if s.Rotation == 0 || s.Epoch == 0 || s.GatewayAt < 0 || s.SandboxAt < 0 || s.Gateway == "" || s.Sandbox == "" || s.Session == "" || s.Generation == "" || doc.GatewayID == "" {
		t.Fatalf("out of range:\n%s", describe(b))
	}
	if len(doc.Keys) == 0 || len(doc.Keys) != len(b.Keys()) {
		t.Fatalf("%d keys, read %d", len(doc.Keys), len(b.Keys()))
	}
	for i, k := range b.Keys() {
		if !utf8.ValidString(k.PEM) || octets(k.PEM) != strings.ReplaceAll(fmt.Sprint(doc.Keys[i].PEM), " ", ",") || k.ID != doc.Keys[i].ID {
			t.Fatalf("another key %d: %q", i, k.PEM)
		}
	}
}

// rewritten writes what the accessors tell as a bundle of its own.
func rewritten(b *launch.Bundle) string {
	var keys []string
	for _, k := range b.Keys() {
		keys = append(keys, `{"key_id":`+plain(k.ID)+`,"public_key_pem":`+octets(k.PEM)+`}`)
	}
	return `{"supervisor":` + string(b.Supervisor().Expose()) + `,"gateway_id":` + plain(b.GatewayID()) + `,"verification_keys":[` +
		strings.Join(keys, ",") + `]}`
}

// plain quotes without the escapes that json.Marshal makes for <, > and &.
func plain(s string) string { return `"` + s + `"` }
