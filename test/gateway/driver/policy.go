package driver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

const policyPrefix = "v1:"

// AgreedPolicy checks the acknowledgement of a driver against the gateway's own policy, by structure (contract 2.4, startup).
func AgreedPolicy(acknowledged string, own driverconf.AdmissionPolicy) error {
	if acknowledged == "" && !own.ResourceAdmission.Enabled {
		return nil
	}
	text, ok := strings.CutPrefix(acknowledged, policyPrefix)
	if !ok {
		return errors.New("resource_admission_policy: the driver does not acknowledge resource admission v1; upgrade it")
	}
	var theirs driverconf.AdmissionPolicy
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&theirs); err != nil {
		return fmt.Errorf("resource_admission_policy: not readable: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("resource_admission_policy: something follows the policy")
	}
	if !samePolicy(theirs, own) {
		return fmt.Errorf("resource_admission_policy: the policies differ: driver %s, gateway %s; set the same on both sides", encoded(theirs), encoded(own))
	}
	return nil
}

func samePolicy(a, b driverconf.AdmissionPolicy) bool {
	return a.AllowDriverConfig == b.AllowDriverConfig && a.ResourceAdmission.Enabled == b.ResourceAdmission.Enabled &&
		maps.Equal(a.ResourceAdmission.RequiredLabels, b.ResourceAdmission.RequiredLabels)
}

func encoded(p driverconf.AdmissionPolicy) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(p); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}
