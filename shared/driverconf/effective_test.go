package driverconf_test

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// roundTrip prints c, loads the output and compares.
func roundTrip(t *testing.T, c *driverconf.Config) {
	t.Helper()
	var out bytes.Buffer
	if err := c.WriteEffective(&out); err != nil {
		t.Fatalf("print: %v", err)
	}
	var plain map[string]any
	if err := toml.Unmarshal(out.Bytes(), &plain); err != nil {
		t.Fatalf("the output is not TOML: %v\n%s", err, out.String())
	}
	back, err := driverconf.Load(driverconf.Source{Bytes: out.Bytes()})
	if err != nil {
		t.Fatalf("the output does not load: %v\n%s", err, out.String())
	}
	back.Standalone = c.Standalone // only flags hold it
	if diff := diffSettings(c, back); diff != "" {
		t.Fatalf("the output loads to other settings:\n%s\n%s", diff, out.String())
	}
}

// units are groups of keys that are valid only together.
func units() [][]string {
	together := []string{"https_proxy", "proxy_auth_secret_name", "proxy_auth_secret_key", "proxy_auth_allow_insecure"}
	all := [][]string{together}
	for _, key := range slices.Sorted(maps.Keys(everyKey())) {
		if !slices.Contains(together, key) {
			all = append(all, []string{key})
		}
	}
	return all
}

// TestAnySubsetRoundTrips: any subset of keys loads, prints and loads again to
// the same settings, and the keys left out have their defaults.
func TestAnySubsetRoundTrips(t *testing.T) {
	base := with(everyKey(), "workspace_mode", `"shared"`) // managed needs more than a subset
	random := rand.New(rand.NewPCG(1, 2))
	all := units()
	try := func(take func(i int) bool) {
		keys := map[string]string{}
		for i, unit := range all {
			for _, key := range unit {
				if take(i) {
					keys[key] = base[key]
				}
			}
		}
		c := mustLoad(t, driverconf.Source{Bytes: []byte(file(keys))})
		for key := range base {
			want := driverconf.OriginDefault
			if _, ok := keys[key]; ok {
				want = driverconf.OriginFile
			}
			if got := c.Origin(stock + key).Kind; got != want {
				t.Fatalf("%s has origin %v, want %v in\n%s", key, got, want, file(keys))
			}
		}
		roundTrip(t, c)
	}
	for i := range all {
		try(func(j int) bool { return j == i })
		try(func(j int) bool { return j != i })
	}
	for range 200 {
		taken := make([]bool, len(all))
		for i := range taken {
			taken[i] = random.IntN(2) == 0
		}
		try(func(i int) bool { return taken[i] })
	}
}

func TestRoundTripOfOverrides(t *testing.T) {
	roundTrip(t, mustLoad(t, driverconf.Source{}))
	roundTrip(t, mustLoad(t, driverconf.Source{Bytes: []byte(file(everyKey()))}))
	odd := "a'b\"c\\d\te\u007f\u2028\n#é"
	roundTrip(t, mustLoad(t, driverconf.Source{
		Bytes:     []byte(file(everyKey())),
		LookupEnv: env(map[string]string{"OPENSHELL_UPSTREAM_NO_PROXY": odd, "OPENSHELL_GATEWAY_NAME": odd, "OPENSHELL_LOG_LEVEL": "trace"}),
		Flags:     flags(t, "--sandbox-image", odd, "--admission-config-json", "{}"),
	}))
}

// TestEffectiveOutput holds the form that people read.
func TestEffectiveOutput(t *testing.T) {
	c := mustLoad(t, driverconf.Source{
		Path:      "odd\nname.toml",
		Bytes:     []byte("[openshell.drivers.kubernetes]\nimage_pull_secrets = ['a', 'b']\nmanaged_ssh_ingress.gateway_pod_selector = { \"a.b/c\" = 'd', a = 'b' }\n"),
		LookupEnv: env(map[string]string{"OPENSHELL_GATEWAY_ID": "blue"}),
		Flags:     flags(t, "--sandbox-uid=5", "--gateway-name=one"),
	})
	var out bytes.Buffer
	if err := c.WriteEffective(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n[openshell]\nversion = 2\n",
		"\n[openshell.drivers.kubernetes]\nsocket_path = '' # default\n",
		"\ngateway_id = 'blue' # environment variable OPENSHELL_GATEWAY_ID\n",
		"\nsandbox_uid = 5 # flag --sandbox-uid\n",
		"\n# sandbox_gid is not set # default\n",
		"\nimage_pull_secrets = ['a', 'b'] # odd name.toml:2\n",
		"\ngateway_pod_selector = { 'a' = 'b', 'a.b/c' = 'd' } # odd name.toml:3\n",
		"\n# Set by flags and environment variables only:\n# gateway-name = 'one' # flag --gateway-name\n",
		"\n[portcullis]\nlog_level = 'info' # default\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestEffectiveReportsWriteErrors(t *testing.T) {
	if err := mustLoad(t, driverconf.Source{}).WriteEffective(brokenWriter{}); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}
