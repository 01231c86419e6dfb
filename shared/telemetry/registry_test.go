package telemetry

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestRegistry(t *testing.T) {
	registry, err := NewRegistry("nswatch", Build{Version: "v1.2.3", Commit: "0123abc", GoVersion: "go1.26.8"})
	if err != nil {
		t.Fatal(err)
	}
	want := `
# HELP portcullis_build_info Always 1; the labels say what program runs.
# TYPE portcullis_build_info gauge
portcullis_build_info{commit="0123abc",daemon="nswatch",go_version="go1.26.8",version="v1.2.3"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "portcullis_build_info"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if n, err := testutil.GatherAndCount(registry, name); n != 1 || err != nil {
			t.Errorf("registry has %d of %s, %v", n, name, err)
		}
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("metric %s: %s", p.Metric, p.Text)
	}
}

func TestRegistryRefusesBadLabels(t *testing.T) {
	if _, err := NewRegistry("\xff", Build{}); err == nil || !strings.Contains(err.Error(), "metric labels") {
		t.Errorf("a daemon name that is no label value gave %v", err)
	}
}

func TestBuild(t *testing.T) {
	recorded := func(settings ...debug.BuildSetting) *debug.BuildInfo {
		info := &debug.BuildInfo{Settings: settings}
		info.Main.Version = "v0.9.0"
		return info
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "beef"}
	modified := func(v string) debug.BuildSetting { return debug.BuildSetting{Key: "vcs.modified", Value: v} }
	for _, c := range []struct {
		name            string
		info            *debug.BuildInfo
		version, commit string
		want            Build
	}{
		{"recorded", recorded(revision, modified("false")), "", "", Build{Version: "v0.9.0", Commit: "beef"}},
		{"changed tree", recorded(modified("true"), revision), "", "", Build{Version: "v0.9.0", Commit: "beef-dirty"}},
		{"no revision", recorded(modified("true")), "", "", Build{Version: "v0.9.0", Commit: "unknown"}},
		{"linker wins", recorded(revision), "v1.0.0", "cafe", Build{Version: "v1.0.0", Commit: "cafe"}},
		{"linker version only", recorded(revision), "v1.0.0", "", Build{Version: "v1.0.0", Commit: "beef"}},
		{"nothing recorded", nil, "", "", Build{Version: "unknown", Commit: "unknown"}},
		{"linker without record", nil, "v1.0.0", "cafe", Build{Version: "v1.0.0", Commit: "cafe"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.GoVersion = runtime.Version()
			if diff := cmp.Diff(c.want, buildFrom(c.info, c.version, c.commit)); diff != "" {
				t.Errorf("build (-want +got):\n%s", diff)
			}
		})
	}
	if b := ReadBuild(); b.Version == "" || b.Commit == "" || b.GoVersion == "" {
		t.Errorf("ReadBuild leaves a field empty: %+v", b)
	}
}
