package driverconf_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// defaultAcknowledgement is the string of contract 2.4, byte for byte.
const defaultAcknowledgement = `v1:{"allow_driver_config":false,"resource_admission":{"enabled":true,"required_labels":{"openshell.ai/sandbox-attachable":"true","openshell.ai/sandbox-attachable-workspace":"${workspace}"}}}`

func TestAcknowledgement(t *testing.T) {
	stockPolicy := mustLoad(t, driverconf.Source{}).Kubernetes.AdmissionPolicy()
	tests := []struct {
		name   string
		policy driverconf.AdmissionPolicy
		want   string
	}{
		{"default", stockPolicy, defaultAcknowledgement},
		{"zero", driverconf.AdmissionPolicy{}, `v1:{"allow_driver_config":false,"resource_admission":{"enabled":false,"required_labels":{}}}`},
		{
			"sorted, nothing escaped",
			driverconf.AdmissionPolicy{AllowDriverConfig: true, ResourceAdmission: driverconf.ResourceAdmission{
				RequiredLabels: map[string]string{"b": "<&>", "a": "2", "a.b/c": "1", "B": "3"},
			}},
			`v1:{"allow_driver_config":true,"resource_admission":{"enabled":false,"required_labels":{"B":"3","a":"2","a.b/c":"1","b":"<&>"}}}`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for range 20 { // map order is random
				if got := tc.policy.Acknowledgement(); got != tc.want {
					t.Fatalf("got  %s\nwant %s", got, tc.want)
				}
			}
			body, ok := strings.CutPrefix(tc.want, "v1:")
			var back driverconf.AdmissionPolicy
			if err := json.Unmarshal([]byte(body), &back); !ok || err != nil {
				t.Errorf("the rest is not JSON: %v", err)
			}
		})
	}
}

func TestAdmissionPolicyIsACopy(t *testing.T) {
	c := mustLoad(t, driverconf.Source{})
	c.Kubernetes.AdmissionPolicy().ResourceAdmission.RequiredLabels["x"] = "y"
	if got := c.Kubernetes.AdmissionPolicy().Acknowledgement(); got != defaultAcknowledgement {
		t.Errorf("a caller changed the policy: %s", got)
	}
}

const (
	admissionEnv  = "OPENSHELL_DRIVER_ADMISSION_CONFIG_JSON"
	admissionFlag = "--admission-config-json"
)

// TestAdmissionJSON: the text replaces the file's policy as one unit.
func TestAdmissionJSON(t *testing.T) {
	inFile := file(map[string]string{
		"allow_driver_config":                "true",
		"resource_admission.enabled":         "false",
		"resource_admission.required_labels": `{ a = "b" }`,
	})
	const fromFile = `v1:{"allow_driver_config":true,"resource_admission":{"enabled":false,"required_labels":{"a":"b"}}}`
	const labelled = `v1:{"allow_driver_config":true,"resource_admission":{"enabled":true,"required_labels":{"c":"d"}}}`
	labelledJSON := ` {"resource_admission": {"required_labels": {"c": "d"}}, "allow_driver_config": true} `
	tests := []struct {
		name      string
		env, flag string
		want      string
		kind      driverconf.OriginKind
	}{
		{"nothing", "", "", fromFile, driverconf.OriginFile},
		{"empty object", "{}", "", defaultAcknowledgement, driverconf.OriginEnv},
		{"variable", labelledJSON, "", labelled, driverconf.OriginEnv},
		{"flag over variable", "{}", labelledJSON, labelled, driverconf.OriginFlag},
		{"parts that are left out", `{"resource_admission":{"enabled":false}}`, "", strings.Replace(defaultAcknowledgement, `"enabled":true`, `"enabled":false`, 1), driverconf.OriginEnv},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			src := driverconf.Source{Bytes: []byte(inFile), LookupEnv: env(map[string]string{admissionEnv: tc.env})}
			if tc.flag != "" {
				src.Flags = flags(t, admissionFlag, tc.flag)
			}
			c := mustLoad(t, src)
			if got := c.Kubernetes.AdmissionPolicy().Acknowledgement(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			for _, key := range []string{"allow_driver_config", "resource_admission.enabled", "resource_admission.required_labels"} {
				if got := c.Origin(stock + key).Kind; got != tc.kind {
					t.Errorf("%s has origin %v, want %v", key, got, tc.kind)
				}
			}
		})
	}
}

func TestBadAdmissionJSON(t *testing.T) {
	const whole = "--admission-config-json (environment variable " + admissionEnv + "): "
	at := func(key string) string {
		return stock + key + " (environment variable " + admissionEnv + "): "
	}
	tests := []struct{ name, text, want string }{
		{"no JSON", `yes`, whole + "is not valid JSON at byte 1: "},
		{"cut off", `{"allow_driver_config":`, whole + "is not valid JSON: it ends too early"},
		{"cut off in an object", `{"allow_driver_config":true`, whole + "is not valid JSON"},
		{"blank", ` `, whole + "is not valid JSON: it ends too early"},
		{"list", `[]`, whole + "must be a JSON object such as {}, but is an array"},
		{"null", `null`, whole + "must be a JSON object such as {}, but is null"},
		{"trailing object", `{} {}`, whole + "has text after the JSON object; remove it"},
		{"trailing brace", `{}}`, whole + "has text after the JSON object; remove it"},
		{"key twice", `{"allow_driver_config":true,"allow_driver_config":false}`, whole + `has the key "allow_driver_config" twice`},
		{"label twice", `{"resource_admission":{"required_labels":{"a":"b","a":"c"}}}`, whole + `has the key "a" twice`},
		{"too deep", strings.Repeat(`{"a":`, 10) + "1" + strings.Repeat("}", 10), whole + "is nested more than 4 levels deep"},
		{"unknown key", `{"allow_driver_confg":true}`, at("allow_driver_confg") + "unknown key; did you mean allow_driver_config?"},
		{"key in capitals", `{"Allow_Driver_Config":true}`, at("Allow_Driver_Config") + "unknown key; names are case-sensitive: use allow_driver_config"},
		{"key of the table", `{"namespace":"x"}`, at("namespace") + "unknown key"},
		{"wrong type", `{"allow_driver_config":1}`, at("allow_driver_config") + "must be a boolean (true or false), but is a number"},
		{"null part", `{"resource_admission":null}`, at("resource_admission") + "must be a table, but is null"},
		{"rule", `{"resource_admission":{"required_labels":{}}}`, at("resource_admission.required_labels") + "must not be empty while"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := driverconf.Load(driverconf.Source{LookupEnv: env(map[string]string{admissionEnv: tc.text})})
			if ps := problems(t, err); len(ps) != 1 || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got:\n%v\nwant:\n%s", err, tc.want)
			}
		})
	}
	t.Run("flag", func(t *testing.T) {
		_, err := driverconf.Load(driverconf.Source{Flags: flags(t, admissionFlag, "[]")})
		want := "--admission-config-json (flag --admission-config-json): must be a JSON object such as {}, but is an array"
		if diff := cmp.Diff(want, problems(t, err).Error()); diff != "" {
			t.Error(diff)
		}
	})
}
