package claims_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/claims"
)

func jwt(payload string) string {
	return "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2lnbmF0dXJl"
}

const issued = `{"aud":["openshell-gateway"],"exp":1,"kubernetes.io":{"namespace":"team","node":{"name":"n"},"pod":{"name":"os-supervisor-x","uid":"u-1"},"serviceaccount":{"name":"sa","uid":"u-2"}},"sub":"system:serviceaccount:team:sa"}`

func TestHintOfAnIssuedToken(t *testing.T) {
	got, ok := claims.Of([]byte(jwt(issued)))
	if want := (claims.Hint{Namespace: "team", PodName: "os-supervisor-x", PodUID: "u-1"}); !ok || got != want {
		t.Errorf("%+v %t", got, ok)
	}
}

func TestAnythingOddIsNoHint(t *testing.T) {
	valid := jwt(issued)
	parts := strings.Split(valid, ".")
	in := func(old, fresh string) string { return jwt(strings.Replace(issued, old, fresh, 1)) }
	for name, token := range map[string]string{
		"empty":                  "",
		"binary":                 "\x00\xff\xfe",
		"no JWT":                 "opaque",
		"dots only":              "..",
		"unsigned":               parts[0] + "." + parts[1] + ".",
		"no header":              "." + parts[1] + "." + parts[2],
		"four parts":             valid + ".x",
		"no base64":              parts[0] + ".###." + parts[2],
		"base64 with padding":    parts[0] + "." + parts[1] + strings.Repeat("=", 4-len(parts[1])%4) + "." + parts[2],
		"line end in the claims": parts[0] + "." + parts[1][:8] + "\n" + parts[1][8:] + "." + parts[2],
		"too long":               valid + strings.Repeat("x", claims.MaxToken),
		"no object":              jwt(`["kubernetes.io"]`),
		"cut off":                jwt(issued[:len(issued)-2]),
		"two objects":            jwt(issued + issued),
		"trailing text":          jwt(issued + "x"),
		"deep":                   jwt(strings.Repeat("[", 10000)),
		"deep inside":            jwt(`{"x":` + strings.Repeat("[", 10000) + `}`),
		"no Pod":                 in(`"pod"`, `"secret"`),
		"no namespace":           in(`"namespace"`, `"NAMESPACE"`),
		"no uid":                 in(`,"uid":"u-1"`, ``),
		"empty uid":              in(`"u-1"`, `""`),
		"uid with a line end":    in(`"u-1"`, `"u\n1"`),
		"huge uid":               in(`"u-1"`, `"`+strings.Repeat("u", 129)+`"`),
		"name that is no text":   in(`"os-supervisor-x"`, `1`),
		"name that is null":      in(`"os-supervisor-x"`, `null`),
		"name with a path":       in(`"os-supervisor-x"`, `"../secrets/x"`),
		"namespace with a path":  in(`"team"`, `"team/pods"`),
		"claims twice":           in(`"sub":`, `"kubernetes.io":{"namespace":"other","pod":{"name":"p","uid":"u"}},"sub":`),
		"Pod twice":              in(`"node"`, `"pod":{"name":"p","uid":"u"},"node"`),
		"name twice":             in(`"uid":"u-1"`, `"name":"p","uid":"u-1"`),
		"another claim twice":    in(`"exp":1`, `"exp":1,"exp":2`),
		"name twice by escape":   in(`"uid":"u-1"`, `"\u006eame":"p","uid":"u-1"`),
	} {
		if got, ok := claims.Of([]byte(token)); ok || got != (claims.Hint{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// FuzzHint: no token makes it panic, and what it finds is what the standard library finds in the same claims.
func FuzzHint(f *testing.F) {
	for _, seed := range []string{
		issued, `{"Kubernetes.io":{"namespace":"a"},` + issued[1:], strings.Replace(issued, `"pod":`, `"POD":{"name":"x","uid":"y"},"pod":`, 1),
		strings.Replace(issued, `"uid":"u-1"`, `"UID":"u-3","uid":"u-1"`, 1), strings.Replace(issued, `"team"`, `"te\u0061m"`, 1), `{}`, `[`, `{"kubernetes.io":{}}`, `{"kubernetes.io":{"pod":null}}`, "\xff",
	} {
		f.Add([]byte(jwt(seed)))
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, token []byte) {
		got, ok := claims.Of(token)
		if !ok {
			if got != (claims.Hint{}) {
				t.Errorf("no hint, and %+v", got)
			}
			return
		}
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(string(token), ".")[1])
		if err != nil {
			t.Fatal(err)
		}
		inner := object(t, payload, "kubernetes.io")
		pod := object(t, inner, "pod")
		want := claims.Hint{Namespace: word(t, inner, "namespace"), PodName: word(t, pod, "name"), PodUID: word(t, pod, "uid")}
		if got != want {
			t.Errorf("%+v, the standard library reads %+v from %q", got, want, payload)
		}
	})
}

// object is a member of an object, by its exact name: maps have no other, where structs take any case.
func object(t *testing.T, text []byte, name string) json.RawMessage {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return members[name]
}

// word is a member that is a text.
func word(t *testing.T, text []byte, name string) string {
	t.Helper()
	var value string
	if err := json.Unmarshal(object(t, text, name), &value); err != nil {
		t.Fatalf("%q of %q: %v", name, text, err)
	}
	return value
}

// TestManyPartsCostNothing: who presents them decides how many there are.
func TestManyPartsCostNothing(t *testing.T) {
	const runs = 100
	token := bytes.Repeat([]byte("."), claims.MaxToken)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		claims.Of(token)
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / runs; n > 4096 {
		t.Errorf("%d bytes for a token of dots", n)
	}
}
