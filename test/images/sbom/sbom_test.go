package sbom_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/package-url/packageurl-go"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/portcullis-mesh/portcullis/test/images/sbom"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func subject() sbom.Subject {
	return sbom.Subject{
		Name: "nswatch", Path: "/nswatch", Version: "v1.2.3", License: "Apache-2.0", Platform: "linux/amd64",
		Digest: [32]byte{1, 2, 3}, Created: time.Unix(1_700_000_000, 0), Namespace: "https://example.com/sbom",
	}
}

func built() *debug.BuildInfo {
	return &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Path:      "example.com/ours/services/nswatch/cmd/nswatch",
		Main:      debug.Module{Path: "example.com/ours/services/nswatch", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "k8s.io/api", Version: "v0.37.2", Sum: "h1:c3Vt"},
			{Path: "github.com/Azure/go-ansiterm", Version: "v0.0.0-20250102033503-faa5f7b0171c", Sum: "h1:YW5z"},
			{Path: "example.com/ours/shared", Version: "v0.0.0", Replace: &debug.Module{Path: "../../shared"}},
			{Path: "example.com/dropped", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.0.1", Sum: "h1:Zm9y"}},
			{Path: "github.com/docker/cli", Version: "v29.7.2+incompatible", Sum: "h1:Y2xp"},
		},
	}
}

func write(t *testing.T, s sbom.Subject, info *debug.BuildInfo) []byte {
	t.Helper()
	var text bytes.Buffer
	if err := sbom.Write(&text, s, info); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func TestBill(t *testing.T) {
	t.Parallel()
	text := write(t, subject(), built())
	golden := filepath.Join("testdata", "nswatch.spdx.json")
	if *update {
		if err := os.WriteFile(golden, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("(-golden +now; rewrite with -update):\n%s", diff)
	}
	if again := write(t, subject(), built()); !bytes.Equal(again, text) {
		t.Error("the same program has another bill the second time")
	}
}

// A reader of SPDX finds each module once, with a URL that leads back to it.
func TestBillIsReadable(t *testing.T) {
	t.Parallel()
	var d v2_3.Document
	if err := json.ReadInto(bytes.NewReader(write(t, subject(), built())), &d); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"example.com/ours/services/nswatch": "v1.2.3", // the program's version, since it is made from its work tree
		"example.com/ours/shared":           "v1.2.3",
		"k8s.io/api":                        "v0.37.2",
		"github.com/Azure/go-ansiterm":      "v0.0.0-20250102033503-faa5f7b0171c",
		"example.com/fork":                  "v1.0.1", // what is inside, not what it was taken for
		"github.com/docker/cli":             "v29.7.2+incompatible",
		"stdlib":                            "1.26.8",
	}
	got := map[string]string{}
	for _, p := range d.Packages {
		if p.PackageSPDXIdentifier == "Program" {
			continue
		}
		got[p.PackageName] = p.PackageVersion
		if len(p.PackageExternalReferences) != 1 {
			t.Fatalf("%s has %d references", p.PackageName, len(p.PackageExternalReferences))
		}
		url, err := packageurl.FromString(p.PackageExternalReferences[0].Locator)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(url.Namespace+"/"+url.Name, "/")
		if url.Type != "golang" || !strings.EqualFold(name, p.PackageName) || url.Version != p.PackageVersion {
			t.Errorf("%s %s has the URL %s", p.PackageName, p.PackageVersion, url)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
	if related := len(d.Relationships); related != len(want)+1 {
		t.Errorf("%d relations, want the document's and one for each of %d modules", related, len(want))
	}
}

func TestOtherProgramsHaveOtherBills(t *testing.T) {
	t.Parallel()
	first := write(t, subject(), built())
	for name, change := range map[string]func(*sbom.Subject, *debug.BuildInfo){
		"digest":  func(s *sbom.Subject, _ *debug.BuildInfo) { s.Digest[0]++ },
		"version": func(s *sbom.Subject, _ *debug.BuildInfo) { s.Version = "v1.2.4" },
		"module":  func(_ *sbom.Subject, info *debug.BuildInfo) { info.Deps[0].Version = "v0.37.3" },
		"sum":     func(_ *sbom.Subject, info *debug.BuildInfo) { info.Deps[0].Sum = "h1:b3Ro" },
		"release": func(_ *sbom.Subject, info *debug.BuildInfo) { info.GoVersion = "go1.26.9" },
	} {
		s, info := subject(), built()
		change(&s, info)
		if bytes.Equal(write(t, s, info), first) {
			t.Errorf("another %s is not in the bill", name)
		}
	}
}

func TestProgramsThatSayNothingHaveNoBill(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*debug.BuildInfo) *debug.BuildInfo{
		"no information": func(*debug.BuildInfo) *debug.BuildInfo { return nil },
		"no module":      func(info *debug.BuildInfo) *debug.BuildInfo { info.Main.Path = ""; return info },
		"no release":     func(info *debug.BuildInfo) *debug.BuildInfo { info.GoVersion = ""; return info },
	} {
		err := sbom.Write(&bytes.Buffer{}, subject(), breakIt(built()))
		if err == nil || !strings.Contains(err.Error(), "nswatch") {
			t.Errorf("%s: %v, want an error that names the program", name, err)
		}
	}
}
