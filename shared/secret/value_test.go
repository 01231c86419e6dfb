package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

const plain = "hunter2-Zq9\x00\xffé"

// encodings returns the forms in which formatters print bytes.
func encodings(b []byte) []string {
	quoted := fmt.Sprintf("%q", b)
	decimal := fmt.Sprint(b)
	return []string{
		string(b),
		quoted[1 : len(quoted)-1],
		hex.EncodeToString(b),
		strings.ToUpper(hex.EncodeToString(b)),
		fmt.Sprintf("% x", b),
		base64.StdEncoding.EncodeToString(b),
		base64.RawURLEncoding.EncodeToString(b),
		decimal[1 : len(decimal)-1],
		strings.Trim(fmt.Sprintf("%#v", b), "[]byte{}"),
		fmt.Sprintf("%o", b),
		fmt.Sprintf("%b", b),
	}
}

func noLeak(t *testing.T, what, out string, b []byte) {
	t.Helper()
	for _, form := range encodings(b) {
		if strings.Contains(out, form) {
			t.Errorf("%s leaks %q in %q", what, form, out)
		}
	}
}

// hidden keeps secrets where fmt cannot call their methods.
type hidden struct {
	name  string
	value secret.Value
	ptr   *secret.Value
	list  []secret.Value
	named map[string]secret.Value
	any   any
	deep  struct{ inner *hidden }
}

type shown struct {
	Name  string
	Value secret.Value
	Ptr   *secret.Value
	List  []secret.Value
	Named map[string]secret.Value
	Any   any
}

// record is a shape that every encoder can take.
type record struct {
	Name  string
	Value secret.Value
	Attr  secret.Value `xml:"attr,attr"`
}

func holders(v secret.Value) (hidden, shown) {
	h := hidden{
		name: "outer", value: v, ptr: &v, list: []secret.Value{v},
		named: map[string]secret.Value{"k": v}, any: v,
	}
	inner := h
	h.deep.inner = &inner
	return h, shown{
		Name: "outer", Value: v, Ptr: &v, List: []secret.Value{v},
		Named: map[string]secret.Value{"k": v}, Any: v,
	}
}

// TestFormatNeverLeaks tries every verb with every flag on the value itself and on
// everything that can contain it. Wrong verbs matter: fmt's reports of them bypass
// methods.
func TestFormatNeverLeaks(t *testing.T) {
	v := secret.New([]byte(plain))
	h, s := holders(v)
	subjects := map[string]any{
		"value": v, "pointer": &v, "slice": []secret.Value{v}, "array": [1]secret.Value{v},
		"map": map[string]secret.Value{"k": v}, "pointers": []*secret.Value{&v},
		"hidden": h, "hidden pointer": &h, "shown": s, "shown pointer": &s,
		"nested": struct{ h any }{h}, "error": fmt.Errorf("wrapped: %w", fmt.Errorf("%v", v)),
	}
	for name, subject := range subjects {
		for verb := '!'; verb <= '~'; verb++ {
			if verb == '*' || verb == '[' || verb == '.' || (verb >= '0' && verb <= '9') {
				continue
			}
			for _, flags := range []string{"", "+", "#", "-", " ", "0", "+#", "8", ".40", "#+ 040.40"} {
				format := "%" + flags + string(verb)
				noLeak(t, name+" with "+format, fmt.Sprintf(format, subject), []byte(plain))
			}
		}
	}
}

func TestFormatPrintsMarker(t *testing.T) {
	for _, v := range []secret.Value{{}, secret.New([]byte(plain))} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%U", "%t", "%z"} {
			if got := fmt.Sprintf(format, v); got != secret.Marker {
				t.Errorf("Sprintf(%q) = %q, want the marker", format, got)
			}
			if got := fmt.Sprintf(format, &v); got != secret.Marker {
				t.Errorf("Sprintf(%q) of a pointer = %q, want the marker", format, got)
			}
		}
		if v.String() != secret.Marker || v.GoString() != secret.Marker {
			t.Errorf("String, GoString = %q, %q, want the marker", v.String(), v.GoString())
		}
	}
}

func TestEncodersNeverLeak(t *testing.T) {
	v := secret.New([]byte(plain))
	h, s := holders(v)
	exported := record{"outer", v, v}
	encoders := map[string]func(w *bytes.Buffer) error{
		"json":        func(w *bytes.Buffer) error { return json.NewEncoder(w).Encode(s) },
		"json hidden": func(w *bytes.Buffer) error { return json.NewEncoder(w).Encode(h) },
		"xml":         func(w *bytes.Buffer) error { return xml.NewEncoder(w).Encode(exported) },
		"gob":         func(w *bytes.Buffer) error { return gob.NewEncoder(w).Encode(exported) },
		"toml":        func(w *bytes.Buffer) error { return toml.NewEncoder(w).Encode(exported) },
		"template": func(w *bytes.Buffer) error {
			return template.Must(template.New("").Parse("{{.Value}} {{printf `%x` .Value}} {{.Any}}")).Execute(w, s)
		},
		"slog text": func(w *bytes.Buffer) error {
			slog.New(slog.NewTextHandler(w, nil)).Info("m", "v", v, "s", s, "h", h)
			return nil
		},
		"slog json": func(w *bytes.Buffer) error {
			slog.New(slog.NewJSONHandler(w, nil)).Info("m", "v", v, "s", s, "h", h)
			return nil
		},
		"zerolog": func(w *bytes.Buffer) error {
			log := zerolog.New(w)
			log.Info().Interface("v", v).Any("s", s).Stringer("t", v).
				Fields(map[string]any{"f": v, "p": &v}).Err(fmt.Errorf("bad %v", v)).Msgf("%v", h)
			return nil
		},
	}
	for name, encode := range encoders {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := encode(&out); err != nil {
				t.Fatalf("encode: %v", err)
			}
			noLeak(t, name, out.String(), []byte(plain))
			if name != "json hidden" && !strings.Contains(out.String(), secret.Marker) {
				t.Errorf("output has no marker: %q", out.String())
			}
		})
	}
	if got, err := v.MarshalYAML(); err != nil || got != secret.Marker {
		t.Errorf("MarshalYAML = %v, %v", got, err)
	}
}

func TestValueHoldsItsOwnCopy(t *testing.T) {
	source := []byte("abc")
	v := secret.New(source)
	source[0] = 'X'
	exposed := v.Expose()
	exposed[1] = 'X'
	if got := string(v.Expose()); got != "abc" {
		t.Errorf("Expose = %q after the source and an exposed copy changed, want abc", got)
	}
}

func TestEqual(t *testing.T) {
	of := func(s string) secret.Value { return secret.New([]byte(s)) }
	for _, c := range []struct {
		name string
		a, b secret.Value
		want bool
	}{
		{"same bytes", of("token"), of("token"), true},
		{"last byte differs", of("token"), of("tokem"), false},
		{"prefix", of("token"), of("toke"), false},
		{"empty against set", of(""), of("token"), false},
		{"set against empty", of("token"), secret.Value{}, false},
		{"both empty", secret.Value{}, of(""), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.a.Equal(c.b); got != c.want {
				t.Errorf("Equal = %v, want %v", got, c.want)
			}
		})
	}
	if diff := cmp.Diff(of("token"), of("token")); diff != "" {
		t.Errorf("go-cmp sees a difference between equal values: %s", diff)
	}
	noLeak(t, "go-cmp", cmp.Diff(of(plain), of("other")), []byte(plain))
}

func TestWipe(t *testing.T) {
	v := secret.New([]byte("token"))
	sibling, exposed := v, v.Expose()
	v.Wipe()
	for name, each := range map[string]secret.Value{"wiped": v, "copy": sibling} {
		if !each.IsZero() || each.Expose() != nil || each.Equal(secret.New([]byte("token"))) {
			t.Errorf("%s value still holds bytes", name)
		}
	}
	if string(exposed) != "token" {
		t.Errorf("an exposed copy changed to %q", exposed)
	}
	secret.Value{}.Wipe()
	v.Wipe()
}

func TestConcurrentUse(t *testing.T) {
	v := secret.New([]byte("token"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := string(v.Expose()); got != "token" && got != "" {
				t.Errorf("Expose = %q, want all bytes or none", got)
			}
			v.Equal(v)
			v.Wipe()
		})
	}
	wg.Wait()
}

func TestUnmarshalText(t *testing.T) {
	var settings struct {
		Token secret.Value `toml:"token" json:"token"`
	}
	if err := toml.Unmarshal([]byte(`token = " s3cret "`), &settings); err != nil {
		t.Fatalf("toml: %v", err)
	}
	if got := string(settings.Token.Expose()); got != " s3cret " {
		t.Errorf("toml gave %q, want the text untouched", got)
	}
	if err := json.Unmarshal([]byte(`{"token":"other"}`), &settings); err != nil {
		t.Fatalf("json: %v", err)
	}
	if got := string(settings.Token.Expose()); got != "other" {
		t.Errorf("json gave %q, want other", got)
	}
	printed, err := toml.Marshal(settings)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	if err := toml.Unmarshal(printed, &settings); err == nil || !strings.Contains(err.Error(), "hidden secret") {
		t.Errorf("printed settings loaded again gave %v, want a refusal", err)
	}
	if got := string(settings.Token.Expose()); got != "other" {
		t.Errorf("a refused text changed the value to %q", got)
	}
}

// FuzzValue: whatever the bytes, no output depends on them.
func FuzzValue(f *testing.F) {
	f.Add([]byte(plain))
	f.Add([]byte(secret.Marker))
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, b []byte) {
		v := secret.New(b)
		if !bytes.Equal(v.Expose(), b) {
			t.Fatalf("Expose differs from what was put in")
		}
		if v.IsZero() != (len(b) == 0) || v.Equal(secret.New(b)) != (len(b) > 0) {
			t.Fatalf("IsZero or Equal is wrong for %d bytes", len(b))
		}
		encoded, err := json.Marshal(map[string]any{"v": v, "p": &v})
		if err != nil {
			t.Fatal(err)
		}
		out := fmt.Sprintf("%v %+v %#v %s %q %x %d %s %v", v, v, v, v, v, v, v, encoded, errors.Join(fmt.Errorf("%v", v)))
		m := secret.Marker
		want := strings.Repeat(m+" ", 7) + fmt.Sprintf(`{"p":"%s","v":"%s"} %s`, m, m, m)
		if out != want {
			t.Fatalf("output depends on the bytes: %q", out)
		}
	})
}

func ExampleValue() {
	type settings struct{ Token secret.Value }
	s := settings{Token: secret.New([]byte("hunter2"))}
	fmt.Printf("%+v\n", s)
	fmt.Println("Authorization: Bearer " + string(s.Token.Expose()))
	// Output:
	// {Token:[redacted]}
	// Authorization: Bearer hunter2
}
