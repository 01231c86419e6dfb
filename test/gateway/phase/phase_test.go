package phase_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

func condition(kind, is, reason string) phase.Condition {
	return phase.Condition{Type: kind, Status: is, Reason: reason, Message: "as it is"}
}

func status(conditions ...phase.Condition) phase.Status {
	return phase.Status{Known: true, Conditions: conditions}
}

// TestBackend: the rules of contract 2.10, and the cases that the bug corpus knows.
func TestBackend(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status phase.Status
		want   phase.Phase
	}{
		"nothing said":                   {phase.Status{}, phase.Unknown},
		"nothing said, with conditions":  {phase.Status{Conditions: []phase.Condition{condition("Ready", "True", "")}}, phase.Unknown},
		"no conditions":                  {status(), phase.Provisioning},
		"deleting":                       {phase.Status{Known: true, Deleting: true, Conditions: []phase.Condition{condition("Ready", "True", "")}}, phase.Deleting},
		"ready":                          {status(condition("Ready", "True", "DependenciesReady")), phase.Ready},
		"ready, in any letters":          {status(condition("Ready", "true", "")), phase.Ready},
		"a type in other letters":        {status(condition("ready", "True", "")), phase.Provisioning},
		"the first Ready counts":         {status(condition("Ready", "False", "PodFailed"), condition("Ready", "True", "")), phase.Error},
		"suspended":                      {status(condition("Suspended", "True", "PodTerminated"), condition("Ready", "False", "SandboxSuspended")), phase.Stopped},
		"suspended, in any letters":      {status(condition("SUSPENDED", "TRUE", "")), phase.Stopped},
		"suspended, stale (L16)":         {status(condition("Suspended", "True", "PodTerminated"), condition("Ready", "True", "")), phase.Ready},
		"suspended, Ready in any letter": {status(condition("Suspended", "True", ""), condition("READY", "True", "")), phase.Provisioning},
		"suspending":                     {status(condition("Suspended", "False", "PodTerminating"), condition("Ready", "False", "SandboxSuspended")), phase.Error},
		"unknown readiness":              {status(condition("Ready", "Unknown", "PodFailed")), phase.Provisioning},
		"expired":                        {status(condition("Ready", "False", "SandboxExpired")), phase.Error},
		"a reason of tomorrow":           {status(condition("Ready", "False", "Tomorrow")), phase.Error},
		"no reason":                      {status(condition("Ready", "False", "")), phase.Error},
	} {
		if got := phase.Backend(tc.status); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	for _, reason := range phase.TransientReasons() {
		for _, spelled := range []string{reason, strings.ToUpper(reason)} {
			if got := phase.Backend(status(condition("Ready", "False", spelled))); got != phase.Provisioning || !phase.Transient(spelled) {
				t.Errorf("%s: %s", spelled, got)
			}
		}
	}
	if phase.Transient("") || phase.Transient("PodFailed") {
		t.Error("terminal reasons are transient")
	}
}

// derive is contract 2.10 as a list of questions, written apart from Backend.
func derive(s phase.Status) phase.Phase {
	var suspended, anyReady bool
	var first *phase.Condition
	for i, c := range s.Conditions {
		kind, is := strings.ToLower(c.Type), strings.ToLower(c.Status)
		suspended = suspended || kind == "suspended" && is == "true"
		anyReady = anyReady || kind == "ready" && is == "true"
		if first == nil && c.Type == "Ready" {
			first = &s.Conditions[i]
		}
	}
	transient := func(reason string) bool {
		return strings.Contains(" reconcilererror dependenciesnotready supervisornotconnected starting containerstarting containercreated "+
			"healthcheckstarting inspectfailed ", " "+strings.ToLower(reason)+" ")
	}
	for _, rule := range []struct {
		holds bool
		then  phase.Phase
	}{
		{!s.Known, phase.Unknown},
		{s.Deleting, phase.Deleting},
		{suspended && !anyReady, phase.Stopped},
		{first == nil, phase.Provisioning},
		{first != nil && strings.ToLower(first.Status) == "true", phase.Ready},
		{first != nil && strings.ToLower(first.Status) == "false" && transient(first.Reason), phase.Provisioning},
		{first != nil && strings.ToLower(first.Status) == "false", phase.Error},
	} {
		if rule.holds {
			return rule.then
		}
	}
	return phase.Provisioning
}

// everyStatus is every combination of what the rules look at.
func everyStatus() []phase.Status {
	var conditions [][]phase.Condition
	readies := [][]phase.Condition{nil}
	for _, kind := range []string{"Ready", "ready"} {
		for _, is := range []string{"True", "tRUE", "False", "Unknown", ""} {
			for _, reason := range []string{"DependenciesNotReady", "starting", "PodFailed", "ContainerExited", "ContainerRuntimeRestart", ""} {
				readies = append(readies, []phase.Condition{condition(kind, is, reason)})
			}
		}
	}
	for _, ready := range readies {
		for _, suspended := range [][]phase.Condition{
			nil, {condition("Suspended", "True", "PodTerminated")}, {condition("suspended", "true", "")}, {condition("Suspended", "False", "PodTerminating")},
		} {
			for _, more := range [][]phase.Condition{nil, {condition("Bootstrapping", "True", "")}, {condition("Ready", "True", "")}} {
				conditions = append(conditions, slices.Concat(suspended, ready, more))
			}
		}
	}
	var all []phase.Status
	for _, c := range conditions {
		for _, known := range []bool{true, false} {
			for _, deleting := range []bool{true, false} {
				all = append(all, phase.Status{Known: known, Deleting: deleting, Conditions: c})
			}
		}
	}
	return all
}

func TestBackendIsTheDerivation(t *testing.T) {
	t.Parallel()
	for _, s := range everyStatus() {
		if got, want := phase.Backend(s), derive(s); got != want {
			t.Fatalf("%+v: %s, want %s", s, got, want)
		}
	}
}

// TestCompose: the whole table of contract 2.11.
func TestCompose(t *testing.T) {
	t.Parallel()
	backends := map[phase.Phase]phase.Status{
		phase.Error: status(condition("Ready", "False", "PodFailed")), phase.Deleting: {Known: true, Deleting: true},
		phase.Stopped: status(condition("Suspended", "True", "")), phase.Ready: status(condition("Ready", "True", "DependenciesReady")),
		phase.Provisioning: status(condition("Ready", "False", "Starting")), phase.Unknown: {},
	}
	for backend, s := range backends {
		for _, reports := range []bool{true, false} {
			for _, connected := range []bool{true, false} {
				want, reason := backend, ""
				switch {
				case backend == phase.Ready && !reports && !connected:
					want, reason = phase.Provisioning, "SupervisorNotConnected"
				case backend == phase.Provisioning && connected, backend == phase.Unknown && connected:
					want, reason = phase.Ready, "DependenciesReady"
				case backend == phase.Unknown:
					want = phase.Provisioning
				}
				got := phase.Compose(phase.Observation{Status: s, ReportsReadiness: reports, Connected: connected})
				ready := phase.Status{Conditions: got.Conditions}.Find("Ready")
				if got.Phase != want || reason != "" && ready.Reason != reason {
					t.Errorf("%s, reports %v, connected %v: %s %+v, want %s %s", backend, reports, connected, got.Phase, ready, want, reason)
				}
				if len(s.Conditions) > 0 && s.Conditions[0].Message != "as it is" {
					t.Fatal("the observation was changed")
				}
			}
		}
	}
	waiting := phase.Compose(phase.Observation{Status: backends[phase.Ready]})
	if m := waiting.Conditions[0].Message; m != "Backend ready; waiting for supervisor session" {
		t.Errorf("message %q", m)
	}
	unschedulable := status(condition("Ready", "False", "Unschedulable"))
	with := phase.Compose(phase.Observation{Status: unschedulable, GPU: true}).Conditions[0]
	without := phase.Compose(phase.Observation{Status: unschedulable}).Conditions[0]
	if !strings.Contains(with.Message, "GPU") || without.Message != "as it is" {
		t.Errorf("%q, %q", with.Message, without.Message)
	}
}

// TestNext: stored phases are sticky as contract 2.11 and 2.8 say, for every observation.
func TestNext(t *testing.T) {
	t.Parallel()
	for _, s := range everyStatus() {
		for _, connected := range []bool{true, false} {
			for _, stored := range phase.All() {
				o := phase.Observation{Status: s, Connected: connected}
				got, verdict := phase.Next(stored, phase.NoCause, o)
				want := next(stored, o)
				after := stored
				if verdict == phase.Moved {
					after = got.Phase
				}
				if after != want || verdict == phase.Kept && got.Phase != stored || verdict == phase.Moved && got.Phase == stored {
					t.Fatalf("%s with %+v, connected %v: %s (%d), want %s", stored, s, connected, after, verdict, want)
				}
				if (stored == phase.Error || stored == phase.Completed || stored == phase.Deleting) && verdict != phase.Ignored {
					t.Fatalf("%s: verdict %d", stored, verdict)
				}
			}
		}
	}
}

// next is the table of stored phases, written apart from Next.
func next(stored phase.Phase, o phase.Observation) phase.Phase {
	s, backend, public := o.Status, derive(o.Status), phase.Compose(o).Phase
	has := func(kind, is string, reasons ...string) bool {
		return slices.ContainsFunc(s.Conditions, func(c phase.Condition) bool {
			return strings.EqualFold(c.Type, kind) && strings.EqualFold(c.Status, is) && (len(reasons) == 0 || slices.Contains(reasons, c.Reason))
		})
	}
	silent := !s.Known && !o.Connected
	switch fmt.Sprint(stored) {
	case "Error", "Completed", "Deleting":
		return stored
	case "Stopping":
		if !silent && (backend == phase.Stopped || has("Ready", "False", "ContainerExited", "ContainerStopped")) {
			return phase.Stopped
		}
		if !silent && backend == phase.Error {
			return phase.Error
		}
		return stored
	case "Stopped":
		if !silent && has("Bootstrapping", "True") && !has("Suspended", "True") && !s.Deleting {
			return public
		}
		return stored
	case "Starting":
		if !silent && (public == phase.Ready || public == phase.Error) {
			return public
		}
		return stored
	}
	if silent {
		return stored
	}
	return public
}

// TestLate: what becomes ready behind its deadline is noticed and changes nothing.
func TestLate(t *testing.T) {
	t.Parallel()
	ready, coming := status(condition("Ready", "True", "")), status(condition("Ready", "False", "Starting"))
	for _, tc := range []struct {
		cause phase.Cause
		o     phase.Observation
		want  phase.Verdict
	}{
		{phase.ProvisioningTimedOut, phase.Observation{Status: ready}, phase.Late},
		{phase.ProvisioningTimedOut, phase.Observation{Status: coming, Connected: true}, phase.Late},
		{phase.ProvisioningTimedOut, phase.Observation{Status: coming}, phase.Ignored},
		{phase.MainProcessFailed, phase.Observation{Status: ready, Connected: true}, phase.Ignored},
	} {
		if _, got := phase.Next(phase.Error, tc.cause, tc.o); got != tc.want {
			t.Errorf("%+v: %d", tc, got)
		}
	}
}

// TestAllowed: which operation each phase allows (contract 2.6), and what the sweep makes of each (2.9).
func TestAllowed(t *testing.T) {
	t.Parallel()
	causes := []phase.Cause{phase.NoCause, phase.MainProcessFailed, phase.ProvisioningTimedOut, phase.ComputeResourceMissing}
	for _, p := range phase.All() {
		for _, cause := range causes {
			for _, reclaimed := range []bool{true, false} {
				start := slices.Contains([]phase.Phase{phase.Stopped, phase.Completed, phase.Starting}, p) ||
					p == phase.Error && (cause == phase.MainProcessFailed || cause == phase.ProvisioningTimedOut && reclaimed)
				if phase.MayStart(p, cause, reclaimed) != start {
					t.Errorf("start from %s %s %v", p, cause, reclaimed)
				}
			}
			want := phase.Remove
			switch {
			case p == phase.Completed, p == phase.Error && cause == phase.MainProcessFailed, p == phase.Error && cause == phase.ProvisioningTimedOut:
				want = phase.Keep
			case p == phase.Stopping, p == phase.Stopped, p == phase.Starting:
				want = phase.Fail
			}
			if phase.Missing(p, cause) != want {
				t.Errorf("missing in %s %s", p, cause)
			}
		}
		if phase.MayStop(p) != (p == phase.Ready || p == phase.Stopping) {
			t.Errorf("stop from %s", p)
		}
		if phase.Bindable(p, false) != (p == phase.Provisioning || p == phase.Ready) || phase.Bindable(p, true) != (p == phase.Starting || p == phase.Ready) {
			t.Errorf("bind in %s", p)
		}
	}
}

func TestStillStopping(t *testing.T) {
	t.Parallel()
	for _, s := range everyStatus() {
		want := slices.ContainsFunc(s.Conditions, func(c phase.Condition) bool {
			return c.Type == "Suspended" && c.Status == "False" || strings.EqualFold(c.Type, "Ready") && c.Status == "False" && c.Reason == "ContainerRuntimeRestart"
		})
		if phase.StillStopping(s) != want {
			t.Fatalf("%+v", s)
		}
	}
}

func TestFromDriver(t *testing.T) {
	t.Parallel()
	if s, err := phase.FromDriver(nil); err != nil || s.Known {
		t.Errorf("%+v, %v", s, err)
	}
	at := time.Date(2026, 11, 30, 1, 2, 3, 4, time.UTC)
	s, err := phase.FromDriver(&computev1.DriverSandboxStatus{Deleting: true, Conditions: []*computev1.DriverCondition{
		{Type: "Ready", Status: "False", Reason: "r", Message: "m", TransitionTime: timestamppb.New(at)}, {Type: "Other"},
	}})
	if err != nil || !s.Known || !s.Deleting || s.Find("Ready") != (phase.Condition{Type: "Ready", Status: "False", Reason: "r", Message: "m", Since: at}) ||
		!s.Find("Other").Since.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
	_, err = phase.FromDriver(&computev1.DriverSandboxStatus{Conditions: []*computev1.DriverCondition{
		{Type: "Ready", TransitionTime: &timestamppb.Timestamp{Nanos: -1}},
	}})
	if err == nil || !strings.Contains(err.Error(), "conditions[0].transition_time") {
		t.Error(err)
	}
}
