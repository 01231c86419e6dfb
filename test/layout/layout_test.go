package layout_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const prefix = "github.com/portcullis-mesh/portcullis/"

// longest is how many lines a hand-written file may have.
const longest = 450

// pkg is what the go command tells about a package.
type pkg struct {
	ImportPath, Dir, Doc               string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// allowed lists, for each part of the repository, the parts that it may import besides itself.
var allowed = map[string][]string{
	"proto":                  {},
	"shared":                 {"proto"},
	"services/lifecycle":     {"proto", "shared"},
	"services/nswatch":       {"proto", "shared"},
	"services/supervisorctl": {"proto", "shared"},
	"services/tokenauth":     {"proto", "shared"},
	"test":                   {"proto", "shared"},
}

// testOnly are packages that production code must not import.
var testOnly = regexp.MustCompile(`/(certtest|meshtest|natstest|netfault|test)(/|$)`)

// generated matches the mark of generated files.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// vague are names that say nothing about what a package is for.
var vague = []string{"util", "utils", "common", "misc", "base", "helper", "helpers", "types", "consts", "manager"}

// part returns which part of the repository an import path belongs to, or "" for others' packages.
func part(path string) string {
	rest, ours := strings.CutPrefix(path, prefix)
	if !ours {
		return ""
	}
	for name := range allowed {
		if rest == name || strings.HasPrefix(rest, name+"/") {
			return name
		}
	}
	return "unknown part of " + path
}

// breaches returns what is wrong with a package, one sentence each.
func breaches(p pkg) []string {
	var found []string
	from := part(p.ImportPath)
	all := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
	for _, imported := range all {
		to := part(imported)
		if to != "" && to != from && !slices.Contains(allowed[from], to) {
			found = append(found, fmt.Sprintf("imports %s: %s may import only %v", imported, from, allowed[from]))
		}
	}
	for _, imported := range p.Imports {
		if from != "test" && !testOnly.MatchString(p.ImportPath) && part(imported) != "" && testOnly.MatchString(imported) {
			found = append(found, fmt.Sprintf("imports %s outside of tests", imported))
		}
	}
	if strings.TrimSpace(p.Doc) == "" && len(p.GoFiles) > 0 {
		found = append(found, "has no package comment")
	}
	if name := filepath.Base(p.ImportPath); slices.Contains(vague, name) {
		found = append(found, fmt.Sprintf("is called %s, which says nothing", name))
	}
	return found
}

// packages lists every package of the workspace.
func packages(t *testing.T) []pkg {
	t.Helper()
	args := []string{"list", "-e", "-json=ImportPath,Dir,Doc,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"}
	for name := range allowed {
		args = append(args, "./"+name+"/...")
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the packages: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestShape(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, p := range packages(t) {
		seen[part(p.ImportPath)]++
		for _, breach := range breaches(p) {
			t.Errorf("%s %s", strings.TrimPrefix(p.ImportPath, prefix), breach)
		}
		for _, file := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			if lines := lines(t, filepath.Join(p.Dir, file)); lines > longest {
				t.Errorf("%s/%s has %d lines, more than %d", strings.TrimPrefix(p.ImportPath, prefix), file, lines, longest)
			}
		}
	}
	for name := range allowed {
		if seen[name] == 0 {
			t.Errorf("no package of %s was looked at", name)
		}
	}
}

// lines counts the lines of a hand-written file; generated ones count as none.
func lines(t *testing.T, path string) int {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if generated.Match(body) {
		return 0
	}
	return bytes.Count(body, []byte("\n"))
}

func TestBreachesAreFound(t *testing.T) {
	t.Parallel()
	valid := func() pkg {
		return pkg{
			ImportPath: prefix + "shared/allowlist",
			Doc:        "Package allowlist decides.",
			GoFiles:    []string{"allowlist.go"},
			Imports:    []string{"context", prefix + "proto/contract", prefix + "shared/verdict"},
		}
	}
	if found := breaches(valid()); len(found) > 0 {
		t.Fatalf("the valid package is refused: %v", found)
	}
	for name, breakIt := range map[string]func(*pkg){
		"proto imports shared":          func(p *pkg) { p.ImportPath, p.Imports = prefix+"proto/contract", []string{prefix + "shared/verdict"} },
		"shared imports a service":      func(p *pkg) { p.Imports = []string{prefix + "services/nswatch/internal/app"} },
		"shared imports test":           func(p *pkg) { p.Imports = []string{prefix + "test/cluster"} },
		"a test in shared imports test": func(p *pkg) { p.XTestImports = []string{prefix + "test/cluster"} },
		"service imports service": func(p *pkg) {
			p.ImportPath, p.Imports = prefix+"services/nswatch/internal/app", []string{prefix + "services/tokenauth/api"}
		},
		"a new part nobody allowed":  func(p *pkg) { p.Imports = []string{prefix + "tools/gen"} },
		"test equipment in a daemon": func(p *pkg) { p.Imports = []string{prefix + "shared/natsconn/natstest"} },
		"no package comment":         func(p *pkg) { p.Doc = " \n" },
		"a vague name":               func(p *pkg) { p.ImportPath = prefix + "shared/utils" },
	} {
		t.Run(name, func(t *testing.T) {
			p := valid()
			breakIt(&p)
			if len(breaches(p)) == 0 {
				t.Error("the breach is not found")
			}
		})
	}
}
