package driverconf_test

import (
	"slices"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// wantKeys demands problems of exactly these keys, in order.
func wantKeys(t *testing.T, err error, keys ...string) {
	t.Helper()
	var got []string
	for _, p := range problems(t, err) {
		got = append(got, p.Key)
	}
	if !slices.Equal(got, keys) {
		t.Errorf("problems of %q, want of %q:\n%v", got, keys, err)
	}
}

// TestNoFollowUpProblems: what was not understood is told, and nothing that a rule
// would make of the value in its place.
func TestNoFollowUpProblems(t *testing.T) {
	managed := everyKey()
	operator := with(managed, "workspace_mode", `"operator"`, "operator_namespace_file", "")
	byFile := with(managed, "workspace_mode", `"operator"`, "operator_namespace_label", "")
	admits := with(managed, "resource_admission.enabled", "true")
	tests := []struct {
		name string
		keys map[string]string
		want []string
	}{
		{"operator: wrong file", with(byFile, "operator_namespace_file", "5"), []string{stock + "operator_namespace_file"}},
		{"operator: wrong label", with(operator, "operator_namespace_label", "5"), []string{stock + "operator_namespace_label"}},
		{"operator: wrong file and label", with(operator, "operator_namespace_file", "5", "operator_namespace_label", "5"), []string{stock + "operator_namespace_file", stock + "operator_namespace_label"}},
		{"operator: misspelt file", with(byFile, "operator_namespace_file", "", "operator_namespace_fil", `"/f"`), []string{stock + "operator_namespace_fil"}},
		{"operator: misspelt label", with(operator, "operator_namespace_label", "", "operator-namespace-label", `"a"`), []string{stock + "operator-namespace-label"}},
		{"wrong entry of the selector", with(managed, "managed_ssh_ingress.gateway_pod_selector", "{ a = 5 }"), []string{stock + "managed_ssh_ingress.gateway_pod_selector.a"}},
		{"wrong selector", with(managed, "managed_ssh_ingress.gateway_pod_selector", "5"), []string{stock + "managed_ssh_ingress.gateway_pod_selector"}},
		{"wrong ssh switch", with(managed, "managed_ssh_ingress.enabled", "5", "managed_ssh_ingress.gateway_namespace", ""), []string{stock + "managed_ssh_ingress.enabled"}},
		{"wrong secret name and key", with(managed, "proxy_auth_secret_name", "5", "proxy_auth_secret_key", "5"), []string{stock + "proxy_auth_secret_key", stock + "proxy_auth_secret_name"}},
		{"wrong secret name", with(managed, "proxy_auth_secret_name", "5"), []string{stock + "proxy_auth_secret_name"}},
		{"wrong secret key", with(managed, "proxy_auth_secret_key", "5"), []string{stock + "proxy_auth_secret_key"}},
		{"misspelt secret key", with(managed, "proxy_auth_secret_key", "", "proxy_auth_secret_kye", `"k"`), []string{stock + "proxy_auth_secret_kye"}},
		{"wrong proxy", with(managed, "https_proxy", "5"), []string{stock + "https_proxy"}},
		{"wrong consent", with(managed, "proxy_auth_allow_insecure", "5"), []string{stock + "proxy_auth_allow_insecure"}},
		{"wrong admission switch", with(managed, "resource_admission.enabled", "5", "resource_admission.required_labels", "{}"), []string{stock + "resource_admission.enabled"}},
		{"wrong entry of the labels", with(admits, "resource_admission.required_labels", "{ a = 5 }"), []string{stock + "resource_admission.required_labels.a"}},
		{"wrong element", with(managed, "image_pull_secrets", "[5]"), []string{stock + "image_pull_secrets[0]"}},
		{"misspelt key beside the right one", with(managed, "gateway_idd", `"a"`, "gateway_id", `""`), []string{stock + "gateway_id", stock + "gateway_idd"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := load(file(tc.keys))
			wantKeys(t, err, tc.want...)
		})
	}
}

// TestNoFollowUpProblemsOfTables: a table that was not understood may have held
// what a rule misses.
func TestNoFollowUpProblemsOfTables(t *testing.T) {
	demanding := func(_ *driverconf.Config, report driverconf.Report) {
		report(stock+"socket_path", "is not set")
		report("portcullis.nats.urls", "is not set", stock+"workspace_mode")
	}
	tests := []struct {
		text string
		want []string
	}{
		{"", []string{stock + "socket_path", "portcullis.nats.urls"}},
		{"openshell = 1\n", []string{"openshell"}},
		{"[openshell]\ndrivers = 1\n", []string{"openshell.drivers"}},
		{"[openshel.drivers.kubernetes]\n", []string{"openshel"}},
		{"[openshell.driver.kubernetes]\n", []string{"openshell.driver"}},
		{"[openshell.drivers.kubernets]\n", []string{"openshell.drivers.kubernets"}},
		{"[portcullis.natss]\n", []string{stock + "socket_path", "portcullis.natss"}},
		{"[portcullis]\nnats = 1\n", []string{stock + "socket_path", "portcullis.nats"}},
		{"[portculis]\n", []string{stock + "socket_path", "portculis"}},
		{"openshell.drivers.kubernetes.mode = 1\n", []string{stock + "mode", stock + "socket_path", "portcullis.nats.urls"}},
		{"openshell.drivers.kubernetes.workspace_mode = 1\n", []string{stock + "socket_path", stock + "workspace_mode"}},
	}
	for _, tc := range tests {
		_, err := driverconf.Load(driverconf.Source{
			Bytes: []byte(tc.text), Validate: demanding, Sections: map[string]driverconf.Section{"nats": newBroker()},
		})
		wantKeys(t, err, tc.want...)
	}
}

// TestNoFollowUpProblemsOfOverrides: a bad flag may have been meant to replace what
// the file says, and a good one settles the key whatever the file says.
func TestNoFollowUpProblemsOfOverrides(t *testing.T) {
	managed := everyKey()
	noLabels := with(managed, "resource_admission.enabled", "true", "resource_admission.required_labels", "{}")
	tests := map[string]struct {
		keys map[string]string
		arg  string
		want []string
	}{
		"bad mode":                  {with(managed, "gateway_id", `"A"`), "--workspace-mode=both", []string{stock + "workspace_mode"}},
		"bad mode, operator":        {with(managed, "workspace_mode", `"operator"`), "--workspace-mode=both", []string{stock + "workspace_mode"}},
		"bad policy":                {noLabels, "--admission-config-json=[]", []string{"--admission-config-json"}},
		"bad key in the policy":     {noLabels, `--admission-config-json={"x":1}`, []string{stock + "x"}},
		"good flag over wrong type": {with(managed, "gateway_id", "5"), "--gateway-id=", []string{stock + "gateway_id", stock + "gateway_id"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := driverconf.Load(driverconf.Source{Bytes: []byte(file(tc.keys)), Flags: flags(t, tc.arg)})
			wantKeys(t, err, tc.want...)
		})
	}
}
