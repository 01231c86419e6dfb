package launch_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/launch"
)

var update = flag.Bool("update", false, "write the golden text anew; what it holds is what goes into Secrets")

func parse(t *testing.T, raw string) *launch.Bundle {
	t.Helper()
	b, err := launch.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func describe(b *launch.Bundle) string {
	var s strings.Builder
	fmt.Fprintf(&s, "session %s\ngeneration %s\nrotation %d\nepoch %d\ngateway %s\n", b.SessionID(), b.RuntimeGeneration(),
		b.SessionRotation(), b.AuthEpoch(), b.GatewayID())
	for _, k := range b.Keys() {
		fmt.Fprintf(&s, "key %s\n%s", k.ID, k.PEM)
	}
	fmt.Fprintf(&s, "supervisor %s\n", b.Supervisor().Expose())
	return s.String()
}

func TestGoldenBundle(t *testing.T) {
	path := filepath.Join("testdata", "bundle.txt")
	got := describe(parse(t, valid(t).json()))
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs; -update writes it anew:\nstored:\n%s\nnow:\n%s", path, want, got)
	}
}

// Whatever the writer's order and spaces: they are kept, because auth.json is what the gateway wrote.
func TestSupervisorIsVerbatim(t *testing.T) {
	object := "{ \"auth_epoch\" : 1,\r\n\t\"session_rotation\":2 , \"sandbox_expires_at\":9223372036854775807,\"sandbox_token\":\"" +
		sandboxToken + "\",\"gateway_expires_at\":0,\"gateway_token\":\"" + gatewayToken +
		"\",\"runtime_generation\":\"g\",\"session_id\":\"" + session + "\" }"
	b := parse(t, " {\"verification_keys\" : [ {\"public_key_pem\" : "+octets(publicPEM(t, 'a'))+" , \"key_id\":\"k\"} ]\n,"+
		"\"supervisor\" :\n "+object+" ,\"gateway_id\":\"gw\"}\n ")
	if got := string(b.Supervisor().Expose()); got != object {
		t.Errorf("got %q, want %q", got, object)
	}
	if b.AuthEpoch() != 1 || b.SessionRotation() != 2 {
		t.Error(describe(b))
	}
}

func TestRefusedFields(t *testing.T) {
	otherKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := publicPEM(t, 'a')
	for _, c := range []struct{ name, field, value, want string }{
		{"nil session", "session_id", `"00000000-0000-0000-0000-000000000000"`, "supervisor.session_id: is no UUID"},
		{"upper-case session", "session_id", quote(strings.ToUpper(session)), "supervisor.session_id: is no UUID"},
		{"session without dashes", "session_id", quote(strings.ReplaceAll(session, "-", "")), "supervisor.session_id: is no UUID"},
		{"session in braces", "session_id", quote("{" + session + "}"), "supervisor.session_id: is longer than 36 bytes"},
		{"session with a dash out of place", "session_id", `"3f2b8c1-e9a4d-4e6f-8b7a-0c1d2e3f4a5b"`, "supervisor.session_id: is no UUID"},
		{"session of other letters", "session_id", `"gf2b8c1e-9a4d-4e6f-8b7a-0c1d2e3f4a5b"`, "supervisor.session_id: is no UUID"},
		{"session of x", "session_id", `"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"`, "supervisor.session_id: is no UUID"},
		{"empty session", "session_id", `""`, "supervisor.session_id: is empty"},
		{"session is null", "session_id", `null`, "supervisor.session_id: is null, want a string"},
		{"session is a number", "session_id", `1`, "supervisor.session_id: is a number, want a string"},
		{"empty generation", "runtime_generation", `""`, "supervisor.runtime_generation: is empty"},
		{"upper-case generation", "runtime_generation", `"G1"`, "supervisor.runtime_generation: holds something other"},
		{"long generation", "runtime_generation", quote(strings.Repeat("a", 65)), "supervisor.runtime_generation: is longer than 64"},
		{"generation is an array", "runtime_generation", `["g"]`, "supervisor.runtime_generation: is an array, want a string"},
		{"rotation 0", "session_rotation", `0`, "supervisor.session_rotation: is no whole number from 1"},
		{"negative rotation", "session_rotation", `-1`, "supervisor.session_rotation: is no whole number"},
		{"rotation with a fraction", "session_rotation", `1.0`, "supervisor.session_rotation: is no whole number"},
		{"rotation with an exponent", "session_rotation", `1e2`, "supervisor.session_rotation: is no whole number"},
		{"rotation is a string", "session_rotation", `"3"`, "supervisor.session_rotation: is a string, want a number"},
		{"epoch 0", "auth_epoch", `0`, "supervisor.auth_epoch: is no whole number from 1"},
		{"epoch beyond 64 bits", "auth_epoch", `18446744073709551616`, "supervisor.auth_epoch: is no whole number"},
		{"epoch is null", "auth_epoch", `null`, "supervisor.auth_epoch: is null, want a number"},
		{"epoch is true", "auth_epoch", `true`, "supervisor.auth_epoch: is a boolean, want a number"},
		{"negative expiry", "gateway_expires_at", `-1`, "supervisor.gateway_expires_at: is no whole number from 0"},
		{"minus zero", "sandbox_expires_at", `-0`, "supervisor.sandbox_expires_at: is no whole number from 0"},
		{"expiry beyond 63 bits", "sandbox_expires_at", `9223372036854775808`, "supervisor.sandbox_expires_at: is no whole number from 0 to 9223372036854775807"},
		{"empty token", "gateway_token", `""`, "supervisor.gateway_token: is empty"},
		{"two parts", "gateway_token", `"a1.b2"`, "supervisor.gateway_token: is no token"},
		{"four parts", "gateway_token", `"aa.bb.cc.dd"`, "supervisor.gateway_token: is no token"},
		{"unsigned", "sandbox_token", `"aa.bb."`, "supervisor.sandbox_token: is no token"},
		{"no header", "sandbox_token", `".bb.cc"`, "supervisor.sandbox_token: is no token"},
		{"padded", "sandbox_token", `"aa==.bb.cc"`, "supervisor.sandbox_token: is no token"},
		{"other alphabet", "sandbox_token", `"a+.b/.cc"`, "supervisor.sandbox_token: is no token"},
		{"half a byte", "sandbox_token", `"aaaaa.bb.cc"`, "supervisor.sandbox_token: is no token"},
		{"token with a scheme", "sandbox_token", quote("Bearer " + sandboxToken), "supervisor.sandbox_token: is no token"},
		{"long token", "gateway_token", quote("aa.bb." + strings.Repeat("c", launch.MaxToken)), "supervisor.gateway_token: is longer than"},
		{"token is an object", "gateway_token", `{}`, "supervisor.gateway_token: is an object, want a string"},
		{"empty gateway", "gateway_id", `""`, "gateway_id: is empty"},
		{"space in gateway", "gateway_id", `"a b"`, "gateway_id: holds whitespace"},
		{"wide space in gateway", "gateway_id", "\"a\u3000b\"", "gateway_id: holds whitespace"},
		{"hidden character in gateway", "gateway_id", "\"a\u200bb\"", "gateway_id: holds whitespace or a character"},
		{"delete in gateway", "gateway_id", "\"a\x7fb\"", "gateway_id: holds whitespace or a character"},
		{"long gateway", "gateway_id", quote(strings.Repeat("a", 254)), "gateway_id: is longer than 253"},
		{"empty key id", "key_id", `""`, "verification_keys[0].key_id: is empty"},
		{"space behind key id", "key_id", `"k "`, "verification_keys[0].key_id: holds whitespace"},
		{"one key id twice", "next_key_id", `"2026-11"`, "verification_keys[1].key_id: is the id of two keys"},
		{"key as a string", "public_key_pem", `"-----BEGIN PUBLIC KEY-----"`, "verification_keys[0].public_key_pem: is a string, want an array"},
		{"empty key", "next_pem", `[]`, "verification_keys[1].public_key_pem: is empty"},
		{"byte beyond 255", "public_key_pem", `[45,256]`, "verification_keys[0].public_key_pem[1]: is no whole number from 0 to 255"},
		{"negative byte", "public_key_pem", `[-45]`, "verification_keys[0].public_key_pem[0]: is no whole number from 0 to 255"},
		{"byte with a fraction", "public_key_pem", `[45.0]`, "verification_keys[0].public_key_pem[0]: is no whole number"},
		{"byte is a string", "public_key_pem", `[45,"45"]`, "verification_keys[0].public_key_pem[1]: is a string, want a number"},
		{"long key", "public_key_pem", octets(good + strings.Repeat("\n", launch.MaxKeyBytes)), "verification_keys[0].public_key_pem: has more than 4096 elements"},
		{"no PEM", "public_key_pem", octets("key"), "verification_keys[0].public_key_pem: does not begin a PEM block"},
		{"text before the key", "public_key_pem", octets("# key\n" + good), "verification_keys[0].public_key_pem: does not begin a PEM block"},
		{"text behind the key", "public_key_pem", octets(good + "x"), "verification_keys[0].public_key_pem: is not exactly one"},
		{"two blocks", "public_key_pem", octets(good + good), "verification_keys[0].public_key_pem: is not exactly one"},
		{"mangled block before a sound one", "public_key_pem", octets("-----BEGIN PUBLIC KEY-----\n????\n-----END PUBLIC KEY-----\n" + good), "verification_keys[0].public_key_pem: is not exactly one"},
		{"block with a header", "public_key_pem", octets(strings.Replace(good, "KEY-----\n", "KEY-----\nA: b\n\n", 1)), "verification_keys[0].public_key_pem: is not exactly one"},
		{"cut-off block", "public_key_pem", octets(good[:len(good)-30]), "verification_keys[0].public_key_pem: is not exactly one"},
		{"private key's label", "public_key_pem", octets(strings.ReplaceAll(good, "PUBLIC", "PRIVATE")), "verification_keys[0].public_key_pem: does not begin a PEM block"},
		{"key of another kind", "public_key_pem", octets(pemOf(t, "PUBLIC KEY", otherKey.Public())), "verification_keys[0].public_key_pem: holds no Ed25519 public key"},
		{"no key in the block", "public_key_pem", octets("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), "verification_keys[0].public_key_pem: holds no Ed25519 public key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := valid(t)
			f[c.field] = c.value
			refused(t, f.json(), c.want)
		})
	}
}

// refused checks the refusal and that it tells nothing of a value.
func refused(t *testing.T, raw, want string) {
	t.Helper()
	b, err := launch.Parse([]byte(raw))
	if err == nil {
		t.Fatalf("accepted:\n%s", describe(b))
	}
	var e *launch.Error
	if b != nil || !errors.As(err, &e) || e.Field == "" || e.Problem == "" {
		t.Fatalf("bundle %v, error %#v", b, err)
	}
	if text := strings.TrimPrefix(err.Error(), "launch_authentication: "); !strings.HasPrefix(text, want) || text == err.Error() {
		t.Errorf("got %q, want %q", err, want)
	}
	for _, s := range []string{gatewayToken, sandboxToken, session, "c2FuZGJveC1", "\n"} {
		if strings.Contains(err.Error(), s) {
			t.Errorf("the error holds %q: %v", s, err)
		}
	}
}

func TestRefusedDocuments(t *testing.T) {
	good := valid(t).json()
	replaced := func(old, by string) string {
		if strings.Count(good, old) < 1 {
			t.Fatalf("%q is not in the bundle", old)
		}
		return strings.Replace(good, old, by, 1)
	}
	keys := good[strings.Index(good, `"verification_keys"`):]
	one := `{"key_id":"k","public_key_pem":` + octets(publicPEM(t, 'a')) + `}`
	for _, c := range []struct{ name, raw, want string }{
		{"nothing", "", "is empty; "},
		{"too long", good + strings.Repeat(" ", launch.MaxBytes), "is longer than 262144 bytes"},
		{"not UTF-8", replaced("openshell", "open\xffshell"), "is not valid UTF-8"},
		{"surrogate in UTF-8", replaced("openshell", "\xed\xa0\x80"), "is not valid UTF-8"},
		{"no JSON", "bundle", "is not one JSON value"},
		{"cut off", good[:len(good)-1], "is not one JSON value"},
		{"trailing value", good + "{}", "is not one JSON value"},
		{"trailing byte", good + "\x00", "is not one JSON value"},
		{"mark of byte order", "\ufeff" + good, "is not one JSON value"},
		{"comment", "/**/" + good, "is not one JSON value"},
		{"trailing comma", good[:len(good)-1] + ",}", "is not one JSON value"},
		{"number with a leading zero", replaced(`"session_rotation":3`, `"session_rotation":03`), "is not one JSON value"},
		{"control character in a string", replaced("openshell", "open\nshell"), "is not one JSON value"},
		{"deep", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), "is not one JSON value"},
		{"nested where nothing nests", replaced(`"openshell"`, strings.Repeat(`{"a":`, 1000)+"1"+strings.Repeat("}", 1000)), "gateway_id: is an object, want a string"},
		{"escape in a value", replaced("openshell", `open\u0073hell`), "holds a string with an escape"},
		{"escape in a name", replaced(`"gateway_id"`, `"gateway\u005fid"`), "holds a string with an escape"},
		{"null", "null", "is null, want an object"},
		{"array", "[" + good + "]", "is an array, want an object"},
		{"string", quote("x"), "is a string, want an object"},
		{"empty object", "{}", "supervisor: is missing"},
		{"supervisor is null", `{"supervisor":null,` + good[strings.Index(good, `"gateway_id"`):], "supervisor: is null, want an object"},
		{"supervisor is empty", `{"supervisor":{},` + good[strings.Index(good, `"gateway_id"`):], "supervisor.session_id: is missing"},
		{"no keys", strings.Replace(good, ","+keys, "}", 1), "verification_keys: is missing"},
		{"keys are empty", strings.Replace(good, keys, `"verification_keys":[]}`, 1), "verification_keys: is empty"},
		{"keys are an object", strings.Replace(good, keys, `"verification_keys":`+one+`}`, 1), "verification_keys: is an object, want an array"},
		{"a key is null", strings.Replace(good, keys, `"verification_keys":[null]}`, 1), "verification_keys[0]: is null, want an object"},
		{"too many keys", strings.Replace(good, keys, `"verification_keys":[`+many(one, 17)+`]}`, 1), "verification_keys: has more than 16 elements"},
		{"name in capitals", replaced(`"gateway_id"`, `"GATEWAY_ID"`), "has the unknown field (its name is not shown)"},
		{"name in other letters", replaced(`"gateway_id"`, `"gateway_ıd"`), "has the unknown field (its name is not shown)"},
		{"capital twin", replaced(`{"supervisor":`, `{"Supervisor":{},"supervisor":`), "has the unknown field (its name is not shown)"},
		{"twin", replaced(`"gateway_id":"openshell"`, `"gateway_id":"openshell","gateway_id":"openshell"`), "gateway_id: is there twice"},
		{"supervisor twice", replaced(`"gateway_id"`, `"supervisor":{},"gateway_id"`), "supervisor: is there twice"},
		{"twin below", replaced(`"auth_epoch"`, `"session_rotation":3,"auth_epoch"`), "supervisor.session_rotation: is there twice"},
		{"twin in a key", replaced(`{"key_id":"2026-12"`, `{"key_id":"2026-12","key_id":"2026-13"`), "verification_keys[1].key_id: is there twice"},
		{"unknown field", replaced(`"gateway_id"`, `"driver_hint":1,"gateway_id"`), `has the unknown field "driver_hint"`},
		{"unknown field below", replaced(`"auth_epoch"`, `"issued_at":1,"auth_epoch"`), `supervisor: has the unknown field "issued_at"`},
		{"token as a name", replaced(`"auth_epoch"`, quote(sandboxToken)+`:1,"auth_epoch"`), `supervisor: has the unknown field (its name is not shown)`},
		{"long name", replaced(`"auth_epoch"`, quote(strings.Repeat("a", 33))+`:1,"auth_epoch"`), `supervisor: has the unknown field (its name is not shown)`},
		{"empty name", replaced(`"auth_epoch"`, `"":1,"auth_epoch"`), `supervisor: has the unknown field ""`},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.raw, c.want) })
	}
}

func many(one string, n int) string {
	var all []string
	for i := range n {
		all = append(all, strings.Replace(one, `"k"`, quote(fmt.Sprint("k", i)), 1))
	}
	return strings.Join(all, ",")
}

// Each field is asked for, and each is refused under a second, unknown name.
func TestEveryFieldIsRequired(t *testing.T) {
	for _, name := range []string{
		"session_id", "runtime_generation", "session_rotation", "auth_epoch", "gateway_token", "gateway_expires_at", "sandbox_token",
		"sandbox_expires_at", "gateway_id", "key_id", "public_key_pem",
	} {
		t.Run(name, func(t *testing.T) {
			f := valid(t)
			member := quote(name) + ":" + f[name]
			without := strings.Replace(strings.Replace(strings.Replace(f.json(), member, "", 1), "{,", "{", 1), ",,", ",", 1)
			without = strings.Replace(strings.Replace(without, ",}", "}", 1), ",]", "]", 1)
			var e *launch.Error
			if _, err := launch.Parse([]byte(without)); !errors.As(err, &e) || e.Problem != "is missing" || !strings.HasSuffix(e.Field, name) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestLimitsAreReached(t *testing.T) {
	f := valid(t)
	f["runtime_generation"] = quote(strings.Repeat("-", launch.MaxGeneration))
	f["gateway_id"] = quote(strings.Repeat("é", launch.MaxID/2) + "a")
	f["gateway_token"] = quote("aa.bb." + strings.Repeat("c", launch.MaxToken-6))
	f["public_key_pem"] = octets(publicPEM(t, 'a') + strings.Repeat("\r\n", (launch.MaxKeyBytes-len(publicPEM(t, 'a')))/2))
	raw := f.json()
	parse(t, raw+strings.Repeat(" ", launch.MaxBytes-len(raw)))
}

func TestKeysAreTheCallersOwn(t *testing.T) {
	b := parse(t, valid(t).json())
	b.Keys()[0].ID = "another"
	if b.Keys()[0].ID != "2026-11" {
		t.Error("the bundle changed")
	}
}

func TestWipe(t *testing.T) {
	b := parse(t, valid(t).json())
	held := b.Supervisor()
	b.Wipe()
	b.Wipe()
	if !held.IsZero() || !b.Supervisor().IsZero() || b.SessionID() != "" {
		t.Error("something is left")
	}
}

func TestBundlePrintsNoToken(t *testing.T) {
	b := parse(t, valid(t).json())
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if text := fmt.Sprintf(verb, b); strings.Contains(text, "eyJ") || strings.Contains(text, fmt.Sprintf("%x", "eyJ")) {
			t.Errorf("%s prints a token", verb)
		}
	}
}
