package layout_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// generated matches the mark of generated files.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// repository is what the files of a repository say. Build tags do not count: a file that this system
// does not build is read like any other.
type repository struct {
	modules   []module
	packages  []pkg
	documents []document
}

// module is a directory with a go.mod.
type module struct {
	name        string // the directory, from the root of the repository
	path        string // as go.mod says
	inWorkspace bool
}

// pkg is a directory with Go files. A package and its external tests are one.
type pkg struct {
	path  string // import path
	files []file
}

type file struct {
	name       string
	imports    []string
	documented bool // has a package comment
	lines      int  // 0 for a generated file
}

func (f file) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// document is a text for readers, from the root of the repository.
type document struct {
	name  string
	lines int
}

// moduleOf returns the name of the module that an import path belongs to, or "" for others' packages.
func (r repository) moduleOf(imported string) string {
	rest, ours := strings.CutPrefix(imported, prefix)
	if !ours {
		return ""
	}
	innermost := ""
	for _, m := range r.modules {
		if len(m.name) > len(innermost) && strings.HasPrefix(rest+"/", m.name+"/") {
			innermost = m.name
		}
	}
	if innermost == "" {
		return "no module for " + imported
	}
	return innermost
}

// read reads the repository at root. It passes over the directories that the go command does not look into either.
func read(t *testing.T, root string) repository {
	t.Helper()
	var r repository
	used := workspace(t, root)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		hidden := path != root && (entry.Name() == "testdata" || strings.ContainsAny(entry.Name()[:1], "._"))
		switch {
		case err != nil:
			return err
		case hidden && entry.IsDir():
			return fs.SkipDir
		case hidden || entry.IsDir():
			return nil
		}
		name, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case entry.Name() == "go.mod":
			r.modules = append(r.modules, module{name: name, path: modulePath(t, path), inWorkspace: used[name]})
			delete(used, name)
		case filepath.Ext(path) == ".go":
			r.add(prefix+name, readFile(t, path))
		case filepath.Ext(path) == ".md":
			body, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			r.documents = append(r.documents, document{filepath.ToSlash(filepath.Join(name, entry.Name())), bytes.Count(body, []byte("\n"))})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range used {
		t.Errorf("go.work uses %s, where no module was found", name)
	}
	return r
}

// add adds a file to its package. The files of a directory come one after the other, but for those of subdirectories
// that sort between them.
func (r *repository) add(path string, f file) {
	for i := range r.packages {
		if r.packages[i].path == path {
			r.packages[i].files = append(r.packages[i].files, f)
			return
		}
	}
	r.packages = append(r.packages, pkg{path: path, files: []file{f}})
}

func readFile(t *testing.T, path string) file {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), path, body, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	f := file{name: filepath.Base(path), documented: says(parsed.Doc)}
	for _, i := range parsed.Imports {
		imported, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatalf("%s: import %s: %v", path, i.Path.Value, err)
		}
		f.imports = append(f.imports, imported)
	}
	if !generated.Match(body) {
		f.lines = bytes.Count(body, []byte("\n"))
	}
	return f
}

// says tells whether a comment has words; directives are none.
func says(comment *ast.CommentGroup) bool { return strings.TrimSpace(comment.Text()) != "" }

// workspace returns the directories that go.work uses.
func workspace(t *testing.T, root string) map[string]bool {
	t.Helper()
	var work struct{ Use []struct{ DiskPath string } }
	goJSON(t, &work, "work", "edit", "-json", filepath.Join(root, "go.work"))
	used := map[string]bool{}
	for _, u := range work.Use {
		used[path.Clean(u.DiskPath)] = true
	}
	return used
}

func modulePath(t *testing.T, file string) string {
	t.Helper()
	var mod struct{ Module struct{ Path string } }
	goJSON(t, &mod, "mod", "edit", "-json", file)
	return mod.Module.Path
}

// goJSON runs the go command and decodes what it prints.
func goJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.String())
	}
}
