package runstate_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// full is a record with every field set.
func full() runstate.Record {
	return runstate.Record{
		Bootstrapping: true, StartedAt: 1796006999405, Operation: runstate.Restart, Phase: runstate.Released,
		Session: "5f0c7a52-8d0a-4a33-9d4e-1b8f6a3f0c11", Epoch: 12, Attempt: "a", Generation: "g0000000000000007", Readiness: runstate.Unavailable,
		WorkloadUID: "w", SupervisorUID: "s", FenceUID: "f", FenceGeneration: 3, MainProcess: `{"version":1}`, LogLevel: "debug",
		Secrets: "s=u", FenceEvidence: `{"generation":"g"}`, StopReason: "run_broke", StopExplanation: "the Service is gone",
	}
}

// annotations of full, written out as contract 4.4 has them.
func annotations() map[string]string {
	const p = "openshell.ai/sandbox-runtime-"
	return map[string]string{
		p + "bootstrapping": "true", p + "bootstrap-started-at-ms": "1796006999405", p + "bootstrap-operation": "restart",
		p + "bootstrap-phase": "released", p + "bootstrap-session": "5f0c7a52-8d0a-4a33-9d4e-1b8f6a3f0c11",
		p + "bootstrap-epoch": "12", p + "bootstrap-attempt": "a",
		p + "generation": "g0000000000000007", p + "readiness": "unavailable", p + "workload-uid": "w", p + "supervisor-uid": "s",
		p + "network-policy-uid": "f", p + "network-policy-generation": "3", p + "main-process-spec": `{"version":1}`, p + "log-level": "debug",
		p + "secrets": "s=u", p + "fence-evidence": `{"generation":"g"}`, p + "stop-reason": "run_broke", p + "stop-explanation": "the Service is gone",
	}
}

func TestTheFullRecord(t *testing.T) {
	if diff := cmp.Diff(annotations(), full().Annotations()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	with := annotations()
	with["openshell.ai/sandbox-id"] = "not of the record"
	got, err := runstate.Of(with)
	if err != nil || got != full() {
		t.Errorf("read %+v, %v", got, err)
	}
	if !got.Began().Equal(time.UnixMilli(1796006999405)) {
		t.Errorf("began %v", got.Began())
	}
}

// TestEveryFieldIsWritten fails when a field is added to Record and to no annotation.
func TestEveryFieldIsWritten(t *testing.T) {
	if fields, keys := reflect.TypeFor[runstate.Record]().NumField(), len(full().Annotations()); fields != keys {
		t.Errorf("%d fields in %d annotations", fields, keys)
	}
}

func TestNothingIsTheZeroRecord(t *testing.T) {
	for name, a := range map[string]map[string]string{
		"none": nil, "others": {"a": "b"}, "empty values": {workspace.AnnotationBootstrapPhase: "", workspace.AnnotationGeneration: ""},
		"not bootstrapping": {workspace.AnnotationBootstrapping: "false"},
	} {
		if got, err := runstate.Of(a); err != nil || got != (runstate.Record{}) || !got.Began().IsZero() {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got := (runstate.Record{}).Annotations(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestARecordThatNobodyWrites(t *testing.T) {
	for name, c := range map[string]struct {
		key, value, want string
	}{
		"bootstrapping":             {workspace.AnnotationBootstrapping, "yes", "bootstrapping"},
		"start in words":            {workspace.AnnotationBootstrapStartedAt, "yesterday", "started-at-ms"},
		"start before 1970":         {workspace.AnnotationBootstrapStartedAt, "-1", "started-at-ms"},
		"start with a plus":         {workspace.AnnotationBootstrapStartedAt, "+5", "started-at-ms"},
		"start too large":           {workspace.AnnotationBootstrapStartedAt, "9223372036854775808", "started-at-ms"},
		"operation":                 {workspace.AnnotationBootstrapOperation, "Restart", "bootstrap-operation"},
		"phase":                     {workspace.AnnotationBootstrapPhase, "done", "bootstrap-phase"},
		"readiness":                 {workspace.AnnotationReadiness, "Ready", "readiness"},
		"fence generation":          {workspace.AnnotationFenceGeneration, "03", "network-policy-generation"},
		"phase without operation":   {workspace.AnnotationBootstrapOperation, "", "operation"},
		"operation without phase":   {workspace.AnnotationBootstrapPhase, "", "phase"},
		"a stop's phase in a start": {workspace.AnnotationBootstrapPhase, "releasing", "stop"},
		"a start's phase in a stop": {workspace.AnnotationBootstrapOperation, "stop", "start"},
		"a fence without a uid":     {workspace.AnnotationFenceUID, "", "fence"},
		"long and hostile":          {workspace.AnnotationBootstrapPhase, strings.Repeat("\n", 1000), "bootstrap-phase"},
	} {
		a := annotations()
		a[c.key] = c.value
		got, err := runstate.Of(a)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		if got != (runstate.Record{}) {
			t.Errorf("%s: half a record: %+v", name, got)
		}
	}
}

func TestStopped(t *testing.T) {
	want := runstate.Record{
		Readiness: runstate.Unavailable, MainProcess: `{"version":1}`, LogLevel: "debug", StopReason: "run_broke", StopExplanation: "the Service is gone",
	}
	if got := full().Stopped(); got != want || got.Stopping() {
		t.Errorf("%+v", got)
	}
	for phase, want := range map[runstate.Phase]bool{"": false, runstate.Preparing: false, runstate.Released: false, runstate.Releasing: true, runstate.Suspending: true} {
		if got := (runstate.Record{Phase: phase}).Stopping(); got != want {
			t.Errorf("%q: %t", phase, got)
		}
	}
}

// TestAPatchMakesOneOfTheOther applies the patch as the API server does.
func TestAPatchMakesOneOfTheOther(t *testing.T) {
	apply := func(from, to runstate.Record) bool {
		have := from.Annotations()
		have["kept"] = "by somebody else"
		for key, value := range runstate.Patch(from, to) {
			if value == nil {
				delete(have, key)
				continue
			}
			have[key] = value.(string)
		}
		want := to.Annotations()
		want["kept"] = "by somebody else"
		return maps.Equal(have, want)
	}
	if err := quick.Check(apply, nil); err != nil {
		t.Error(err)
	}
	if got := runstate.Patch(full(), full()); len(got) != 0 {
		t.Errorf("a patch of nothing: %v", got)
	}
	raw, err := json.Marshal(runstate.Patch(full(), full().Stopped()))
	if err != nil || !strings.Contains(string(raw), `"openshell.ai/sandbox-runtime-bootstrap-phase":null`) {
		t.Errorf("%s %v", raw, err)
	}
}

// FuzzOf holds that what is read is written back the same.
func FuzzOf(f *testing.F) {
	f.Add("true", "5", "create", "preparing", "ready", "u", "1")
	f.Add("false", "", "stop", "releasing", "unavailable", "", "")
	f.Fuzz(func(t *testing.T, boot, start, operation, phase, readiness, uid, generation string) {
		got, err := runstate.Of(map[string]string{
			workspace.AnnotationBootstrapping: boot, workspace.AnnotationBootstrapStartedAt: start,
			workspace.AnnotationBootstrapOperation: operation, workspace.AnnotationBootstrapPhase: phase,
			workspace.AnnotationReadiness: readiness, workspace.AnnotationFenceUID: uid, workspace.AnnotationFenceGeneration: generation,
		})
		if err != nil {
			return
		}
		again, err := runstate.Of(got.Annotations())
		if err != nil || again != got {
			t.Errorf("%+v became %+v, %v", got, again, err)
		}
	})
}
