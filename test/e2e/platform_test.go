package e2e_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/gateway"
)

// platformEvents: what scheduler and kubelet say about both Pods of a sandbox reaches the users of the gateway, and what they say of the
// workload's Pod moves the progress display (contract 10). Package platform shows the same in the other modes.
func platformEvents(t *testing.T, h *house) {
	ns := h.workspace(t, "platform")
	events := h.gateway.Subscribe()
	defer events.Close()
	s, err := h.create(t, h.wish(t, ns, "box"))
	noError(t, err)
	supervisor := workspace.SupervisorPod(s.ID)
	missing := map[string]map[string]string{
		s.Name + " Scheduled":     {"complete_step": "requesting_sandbox", "complete_label": "Sandbox allocated", "active_step": "pulling_image"},
		s.Name + " Pulled":        {"complete_step": "pulling_image", "complete_label": "Image pulled", "active_step": "starting_sandbox"},
		s.Name + " Started":       {},
		supervisor + " Scheduled": {},
		supervisor + " Pulled":    {},
		supervisor + " Started":   {},
	}
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	_, err = events.Await(ctx, func(e gateway.Event) bool {
		if e.Kind != gateway.Platform || e.SandboxID != s.ID {
			return false
		}
		about := e.Platform.GetMetadata()["involved_name"] + " " + e.Reason
		want, asked := missing[about]
		if !asked {
			return false
		}
		got := map[string]string{}
		for key, value := range e.Platform.GetMetadata() {
			if step, isProgress := strings.CutPrefix(key, "openshell.progress."); isProgress {
				got[step] = value
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", about, diff)
		}
		if e.Platform.GetMetadata()["namespace"] != ns || e.Platform.GetSource() != "kubernetes" || e.Platform.GetEventTime().AsTime().Year() < 2000 {
			t.Errorf("%s: %v", about, e.Platform)
		}
		delete(missing, about)
		return len(missing) == 0
	})
	if err != nil {
		t.Errorf("the gateway is not told of %v: %v", slices.Sorted(maps.Keys(missing)), err)
	}
	h.remove(t, s)
}
