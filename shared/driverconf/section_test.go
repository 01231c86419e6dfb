package driverconf_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// hidden stands for a type that redacts itself.
type hidden struct{ text string }

func (h *hidden) UnmarshalText(text []byte) error {
	if len(text) < 4 {
		return errors.New("is shorter than 4 bytes")
	}
	h.text = string(text)
	return nil
}

func (h hidden) MarshalText() ([]byte, error) { return []byte("REDACTED"), nil }

// broker is a section with every kind of field.
type broker struct {
	URLs    []string            `toml:"urls"`
	Wait    driverconf.Duration `toml:"wait"`
	Token   hidden              `toml:"token"`
	Backup  *hidden             `toml:"backup"`
	Retries *int                `toml:"retries"`
	Ratio   float64             `toml:"ratio"`
	Small   int8                `toml:"small"`
	Limits  map[string]uint16   `toml:"limits"`
	TLS     struct {
		Required bool                  `toml:"required"`
		Waits    []driverconf.Duration `toml:"waits"`
	} `toml:"tls"`
	Derived  string `toml:"-"`
	internal int
}

func newBroker() *broker {
	return &broker{URLs: []string{"nats://default"}, Wait: driverconf.Duration(time.Second), Limits: map[string]uint16{"default": 1}, internal: 7}
}

func (b *broker) Validate(report func(key, problem string)) {
	if b.Wait <= 0 {
		report("wait", "must be more than 0s")
	}
	if len(b.URLs) == 0 {
		report("urls", "must name a server")
	}
	if b.TLS.Required && b.Token.text == "" {
		report("token", "must be set while tls.required is true")
	}
	for i, w := range b.TLS.Waits {
		if w < 0 {
			report("tls.waits["+string(rune('0'+i))+"]", "must not be negative")
		}
	}
}

func loadBroker(text string) (*driverconf.Config, *broker, error) {
	b := newBroker()
	c, err := driverconf.Load(driverconf.Source{Bytes: []byte(text), Sections: map[string]driverconf.Section{"nats": b}})
	return c, b, err
}

func TestSection(t *testing.T) {
	c, b, err := loadBroker(`
[portcullis]
log_level = "warn"
[portcullis.nswatch]
anything = "of another daemon"
[portcullis.nats]
urls = ["nats://a", "nats://b"]
wait = "1m30s"
token = "hunter2"
backup = "hunter3"
retries = 0
ratio = 0.5
small = -128
limits = { a = 65535 }
[portcullis.nats.tls]
required = true
waits = ["1s", "2s"]
`)
	if err != nil {
		t.Fatal(err)
	}
	zero := 0
	want := newBroker()
	want.URLs, want.Wait, want.Retries, want.Ratio, want.Small = []string{"nats://a", "nats://b"}, driverconf.Duration(90*time.Second), &zero, 0.5, -128
	want.Token, want.Backup, want.Limits = hidden{"hunter2"}, &hidden{"hunter3"}, map[string]uint16{"a": 65535}
	want.TLS.Required, want.TLS.Waits = true, []driverconf.Duration{driverconf.Duration(time.Second), driverconf.Duration(2 * time.Second)}
	if diff := cmp.Diff(want, b, cmp.AllowUnexported(broker{}, hidden{})); diff != "" {
		t.Error(diff)
	}
	if c.Portcullis.LogLevel != driverconf.LogWarn || b.Wait.Std() != 90*time.Second {
		t.Errorf("log level %s, wait %s", c.Portcullis.LogLevel, b.Wait.Std())
	}
	if got := c.Origin("portcullis.nats.tls.waits"); got.Line != 17 {
		t.Errorf("origin %v, want line 17", got)
	}
	var out bytes.Buffer
	if err := c.WriteEffective(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "hunter") {
		t.Errorf("the output shows a secret:\n%s", out.String())
	}
	for _, want := range []string{
		"[portcullis.nats]\n", "token = 'REDACTED' # settings:9\n", "backup = 'REDACTED' # settings:10\n", "wait = '1m30s' # settings:8\n",
		"[portcullis.nats.tls]\n", "waits = ['1s', '2s'] # settings:17\n", "log_level = 'warn' # settings:3\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestSectionProblems(t *testing.T) {
	const table = "[portcullis.nats]\n"
	const in = "portcullis.nats."
	tests := []struct{ name, text, want string }{
		{"rule", table + "wait = \"0s\"", in + "wait (settings:2): must be more than 0s"},
		{"rule on a key nobody set", table + "tls.required = true", in + "token: must be set while tls.required is true"},
		{"rule on an element", table + "tls.waits = [\"1s\", \"-1s\"]", in + "tls.waits[1] (settings:2): must not be negative"},
		{"unknown key", table + "url = \"x\"", in + "url (settings:2): unknown key; did you mean urls?"},
		{"duration without unit", table + "wait = \"15\"", in + `wait (settings:2): "15" is not a duration; use a number with a unit, such as "15s" or "2m"`},
		{"duration as a number", table + "wait = 15", in + "wait (settings:2): must be a string, but is an integer"},
		{"own text type", table + "token = \"abc\"", in + "token (settings:2): is shorter than 4 bytes"},
		{"element", table + "tls.waits = [\"1s\", \"x\"]", in + `tls.waits[1] (settings:2): "x" is not a duration; use a number with a unit, such as "15s" or "2m"`},
		{"text for a number", table + "ratio = \"1\"", in + "ratio (settings:2): must be a number, but is a string"},
		{"not a number", table + "ratio = nan", in + "ratio (settings:2): must be a finite number"},
		{"infinite", table + "ratio = -inf", in + "ratio (settings:2): must be a finite number"},
		{"signed range", table + "small = 128", in + "small (settings:2): 128 is out of range; use an integer from -128 to 127"},
		{"map value range", table + "limits = { a = -1 }", in + "limits.a (settings:2): -1 is out of range; use an integer from 0 to 65535"},
		{"field that is no setting", table + "Derived = \"x\"", in + "Derived (settings:2): unknown key"},
		{"unexported field", table + "internal = 1", in + "internal (settings:2): unknown key"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := loadBroker(tc.text)
			if diff := cmp.Diff(tc.want, problems(t, err).Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUnparsedKeysAreToldOnce: a rule is not asked about a value that did not parse.
func TestUnparsedKeysAreToldOnce(t *testing.T) {
	b := newBroker()
	b.Wait = 0 // a default that its own rule refuses
	_, err := driverconf.Load(driverconf.Source{
		Bytes: []byte("[portcullis.nats]\nwait = 15\n"), Sections: map[string]driverconf.Section{"nats": b},
	})
	if ps := problems(t, err); len(ps) != 1 || !strings.Contains(err.Error(), "must be a string") {
		t.Errorf("got:\n%v", err)
	}
}

// TestEverySectionName: each name of the list is skipped by who does not use it.
func TestEverySectionName(t *testing.T) {
	for _, name := range []string{"audit", "nats", "mesh", "kubernetes", "telemetry", "lifecycle", "nswatch", "tokenauth", "supervisorctl"} {
		mustLoad(t, driverconf.Source{Bytes: []byte("[portcullis." + name + "]\nx = 1\n")})
		_, err := driverconf.Load(driverconf.Source{
			Bytes: []byte("[portcullis." + name + "]\nx = 1\n"), Sections: map[string]driverconf.Section{name: newBroker()},
		})
		if ps := problems(t, err); len(ps) != 1 || ps[0].Key != "portcullis."+name+".x" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

type noValidation struct{}

func (noValidation) Validate(func(string, string)) {}

type untagged struct {
	noValidation
	Field string
}

type twice struct {
	noValidation `toml:"-"`
	A            string `toml:"a"`
	B            string `toml:"a"`
}

type nanoseconds struct {
	noValidation `toml:"-"`
	Wait         time.Duration `toml:"wait"`
}

type channel struct {
	noValidation `toml:"-"`
	C            chan int `toml:"c"`
}

type nestedList struct {
	noValidation `toml:"-"`
	L            []struct{} `toml:"l"`
}

type readOnly struct{ noValidation }

func (*readOnly) UnmarshalText([]byte) error { return nil }

type holdsReadOnly struct {
	noValidation `toml:"-"`
	R            readOnly `toml:"r"`
}

// TestSectionMistakes: what only a programmer can get wrong fails every load.
func TestSectionMistakes(t *testing.T) {
	tests := map[string]struct {
		name    string
		section driverconf.Section
		want    string
	}{
		"name":         {"natts", newBroker(), `"natts" is not one of`},
		"nil":          {"nats", nil, "pass a pointer to a struct"},
		"nil pointer":  {"nats", (*broker)(nil), "pass a pointer to a struct"},
		"value":        {"nats", noValidation{}, "pass a pointer to a struct"},
		"no tag":       {"nats", &untagged{}, "needs a toml tag"},
		"key twice":    {"nats", &twice{}, "portcullis.nats.a: two fields have this key"},
		"nanoseconds":  {"nats", &nanoseconds{}, "use driverconf.Duration"},
		"channel":      {"nats", &channel{}, "type chan int cannot be a setting"},
		"nested list":  {"nats", &nestedList{}, "cannot be a setting"},
		"cannot write": {"nats", &holdsReadOnly{}, "reads text but does not write it"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := driverconf.Load(driverconf.Source{Sections: map[string]driverconf.Section{tc.name: tc.section}})
			var ps driverconf.Problems
			if err == nil || errors.As(err, &ps) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// Common is what several sections share by embedding it.
type Common struct {
	Address string              `toml:"address"`
	Grace   driverconf.Duration `toml:"grace"`
}

type election struct {
	Common
	Leases int `toml:"leases"`
}

func (e *election) Validate(report func(key, problem string)) {
	if e.Grace < 0 {
		report("grace", "must not be negative")
	}
}

func TestEmbeddedStructIsTheSectionsOwn(t *testing.T) {
	load := func(text string) (*election, *driverconf.Config, error) {
		e := &election{Common: Common{Address: "default", Grace: driverconf.Duration(time.Second)}}
		cfg, err := driverconf.Load(driverconf.Source{Bytes: []byte(text), Sections: map[string]driverconf.Section{"nswatch": e}})
		return e, cfg, err
	}
	got, cfg, err := load("[portcullis.nswatch]\naddress = \"a\"\nleases = 3\n")
	if err != nil {
		t.Fatal(err)
	}
	want := &election{Common: Common{Address: "a", Grace: driverconf.Duration(time.Second)}, Leases: 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("section (-want +got):\n%s", diff)
	}
	var printed bytes.Buffer
	if err := cfg.WriteEffective(&printed); err != nil {
		t.Fatal(err)
	}
	if again, _, err := load(printed.String()); err != nil || !cmp.Equal(got, again) {
		t.Errorf("what was printed loads as %+v, %v:\n%s", again, err, printed.String())
	}
	for text, want := range map[string]string{
		"grace = \"-1s\"":   "portcullis.nswatch.grace",
		"adress = \"typo\"": "did you mean address?",
	} {
		if _, _, err := load("[portcullis.nswatch]\n" + text + "\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a problem that names %s", text, err, want)
		}
	}
}

func TestWholeNumberIsAFloatToo(t *testing.T) {
	for text, want := range map[string]float64{"1": 1, "-3": -3, "1.0": 1, "0.25": 0.25} {
		_, b, err := loadBroker("[portcullis.nats]\nratio = " + text + "\n")
		if err != nil || b.Ratio != want {
			t.Errorf("ratio = %s gives %v, %v", text, b.Ratio, err)
		}
	}
}
