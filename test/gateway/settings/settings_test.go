package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
	"github.com/portcullis-mesh/portcullis/test/gateway/settings"
)

const file = `
[openshell]
version = 2
compute_driver = "kubernetes"

[openshell.gateway]
bind = "x"

[openshell.drivers.kubernetes]
socket_path = "/run/portcullis/driver.sock"
workspace_mode = "operator"
operator_namespace_label = "a=b"
gateway_id = "gw"
allow_driver_config = true
tomorrow = 1

[openshell.drivers.kubernetes.resource_admission.required_labels]
"example.org/attachable" = "yes"

[openshell.drivers.other]
socket_path = "/run/other.sock"
resource_admission = { enabled = false }
`

func TestParse(t *testing.T) {
	t.Parallel()
	k, err := settings.Parse([]byte(file), "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	if k.Socket != "/run/portcullis/driver.sock" || k.GatewayID != "gw" || !k.Policy.AllowDriverConfig || !k.Policy.ResourceAdmission.Enabled {
		t.Errorf("%+v", k)
	}
	// The driver reads the same table with everything in it, and acknowledges the same bytes.
	theirs, err := driverconf.Load(driverconf.Source{Path: "x", Bytes: []byte(strings.Replace(file, "tomorrow = 1", "", 1))})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := k.Policy.Acknowledgement(), theirs.Kubernetes.AdmissionPolicy().Acknowledgement(); got != want {
		t.Errorf("%s, the driver says %s", got, want)
	}
	other, err := settings.Parse([]byte(file), "other")
	if err != nil || other.Socket != "/run/other.sock" || other.Policy.ResourceAdmission.Enabled || other.Name != "other" || other.GatewayID != "openshell" {
		t.Errorf("%+v, %v", other, err)
	}
	none, err := settings.Parse(nil, "none")
	if err != nil || none.Socket != "" || none.Policy.Acknowledgement() != scripted.Policy {
		t.Errorf("%+v, %v", none, err)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[openshell": "TOML",
		"[openshell.drivers.kubernetes]\nallow_driver_config = 1":                                                "allow_driver_config",
		"[openshell.drivers.kubernetes.resource_admission.required_labels]\na = \"${workspace}\"":                "required_labels",
		"[openshell.drivers.kubernetes.resource_admission.required_labels]\n\"openshell.ai/managed-by\" = \"x\"": "managed-by",
	} {
		if d, err := settings.Parse([]byte(text), "kubernetes"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v", text, d, err)
		}
	}
	if _, err := settings.Parse(nil, ""); err == nil {
		t.Error("a driver without a name")
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.toml")
	if _, err := settings.Load(path, "kubernetes"); err == nil {
		t.Error("no file")
	}
	for text, want := range map[string]string{file: "", "#" + strings.Repeat("x", driverconf.MaxFileBytes): "longer"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := settings.Load(path, "kubernetes"); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}
