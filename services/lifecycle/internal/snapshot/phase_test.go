package snapshot

import (
	"strings"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// phaseOf derives the phase as a gateway does, written from contract 2.10 rule by rule.
func phaseOf(d *computev1.DriverSandbox) string {
	status := d.GetStatus()
	if status == nil {
		return "Unknown"
	}
	if status.GetDeleting() {
		return "Deleting"
	}
	some := func(kind string) bool {
		for _, c := range status.GetConditions() {
			if strings.EqualFold(c.GetType(), kind) && strings.EqualFold(c.GetStatus(), "true") {
				return true
			}
		}
		return false
	}
	if some("suspended") && !some("ready") {
		return "Stopped"
	}
	for _, c := range status.GetConditions() {
		if c.GetType() != "Ready" {
			continue
		}
		switch strings.ToLower(c.GetStatus()) {
		case "true":
			return "Ready"
		case "false":
			switch strings.ToLower(c.GetReason()) {
			case "reconcilererror", "dependenciesnotready", "supervisornotconnected", "starting", "containerstarting", "containercreated",
				"healthcheckstarting", "inspectfailed":
				return "Provisioning"
			}
			return "Error"
		}
		return "Provisioning"
	}
	return "Provisioning"
}
