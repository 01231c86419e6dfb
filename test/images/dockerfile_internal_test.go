package images

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// recorded is what a container engine makes of a stage and of those below it.
type recorded struct {
	User       string
	Entrypoint []string
	Labels     map[string]string
	Files      map[string]string // path in the image -> stage and path that it comes from
	Base       string            // image that all of it stands on
}

// file is a Dockerfile, read by BuildKit's own parser.
type file struct {
	stages []instructions.Stage
	global []instructions.ArgCommand
}

func readDockerfile(t *testing.T, text []byte) file {
	t.Helper()
	read, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var f file
	if f.stages, f.global, err = instructions.Parse(read.AST, nil); err != nil {
		t.Fatal(err)
	}
	return f
}

// variables resolves words as BuildKit does: arguments of a stage that declares them, and nothing of another.
type variables map[string]string

// Get implements shell.EnvGetter.
func (v variables) Get(name string) (string, bool) { value, found := v[name]; return value, found }

// Keys implements shell.EnvGetter.
func (v variables) Keys() []string { return slices.Collect(maps.Keys(v)) }

func (v variables) expand(word string) (string, error) {
	result, _, err := shell.NewLex('\\').ProcessWord(word, v)
	return result, err
}

func (v variables) declare(args []instructions.KeyValuePairOptional, given, defaults map[string]string) {
	for _, arg := range args {
		if value, found := given[arg.Key]; found {
			v[arg.Key] = value
		} else if arg.Value != nil {
			v[arg.Key] = *arg.Value
		} else if value, found := defaults[arg.Key]; found {
			v[arg.Key] = value
		}
	}
}

// stage evaluates a stage and what it stands on.
func (f file) stage(t *testing.T, name string, given map[string]string) recorded {
	t.Helper()
	globals := variables{}
	for _, arg := range f.global {
		globals.declare(arg.Args, given, nil)
	}
	i := slices.IndexFunc(f.stages, func(s instructions.Stage) bool { return s.Name == name })
	if i < 0 {
		return recorded{Labels: map[string]string{}, Files: map[string]string{}, Base: name}
	}
	base, err := globals.expand(f.stages[i].BaseName)
	if err != nil {
		t.Fatal(err)
	}
	r, local := f.stage(t, base, given), variables{}
	for _, command := range f.stages[i].Commands {
		if arg, ok := command.(*instructions.ArgCommand); ok {
			local.declare(arg.Args, given, globals)
			continue
		}
		if e, ok := command.(interface {
			Expand(expander instructions.SingleWordExpander) error
		}); ok {
			if err := e.Expand(local.expand); err != nil {
				t.Fatal(err)
			}
		}
		switch c := command.(type) {
		case *instructions.UserCommand:
			r.User = c.User
		case *instructions.EntrypointCommand:
			if c.PrependShell {
				t.Fatalf("stage %s: the entry point needs a shell, and there is none", name)
			}
			r.Entrypoint = c.CmdLine
		case *instructions.LabelCommand:
			for _, label := range c.Labels {
				r.Labels[label.Key] = label.Value
			}
		case *instructions.CopyCommand:
			r.Files[c.DestPath] = c.From + ":" + strings.Join(c.SourcePaths, " ")
		default:
			t.Fatalf("stage %s: nobody has looked at what %s does to the image", name, command.Name())
		}
	}
	return r
}

var fixedStamp = Stamp{Version: "v1.2.3-4-gabc", Commit: strings.Repeat("0a", 20), Time: time.Unix(1_700_000_000, 0)}

func dockerfile(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "images", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func arguments(daemon string) map[string]string {
	return map[string]string{"DAEMON": daemon, "VERSION": fixedStamp.Version, "COMMIT": fixedStamp.Commit, "CREATED": fixedStamp.created()}
}

func wanted(r Recipe) recorded {
	return recorded{
		User: User, Entrypoint: []string{r.Entrypoint()}, Labels: r.labels(fixedStamp, fixedStamp.Version),
		Files: map[string]string{r.Entrypoint(): "compiled:/out/" + r.program}, Base: "scratch",
	}
}

func daemons() []Recipe {
	return slices.DeleteFunc(Recipes(), func(r Recipe) bool { return !r.ours() })
}

// The Dockerfile and this package make the same image of each daemon.
func TestDockerfileMakesTheSameImages(t *testing.T) {
	t.Parallel()
	for _, r := range daemons() {
		got := readDockerfile(t, dockerfile(t)).stage(t, "shipped", arguments(r.Name))
		if diff := cmp.Diff(wanted(r), got); diff != "" {
			t.Errorf("%s (-here +Dockerfile):\n%s", r.Name, diff)
		}
	}
}

// A difference of any kind is noticed.
func TestDockerfileDifferencesAreNoticed(t *testing.T) {
	t.Parallel()
	text := string(dockerfile(t))
	r := daemons()[0]
	for name, change := range map[string][2]string{
		"user":        {"USER 65532:65532", "USER 0"},
		"entry point": {`ENTRYPOINT ["/nswatch"]`, `ENTRYPOINT ["/tokenauth"]`},
		"label":       {`image.licenses="Apache-2.0"`, `image.licenses="MIT"`},
		"description": {"Publishes which", "Publishes"},
		"a file more": {"COPY --from=compiled", "COPY --from=compiled /etc/passwd /etc/passwd\nCOPY --from=compiled"},
		"base":        {"FROM scratch AS empty", "FROM alpine AS empty"},
		"revision":    {"ARG COMMIT\nARG CREATED", "ARG CREATED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Count(text, change[0]) != 1 {
				t.Fatalf("%q is there %d times", change[0], strings.Count(text, change[0]))
			}
			changed := strings.Replace(text, change[0], change[1], 1)
			if cmp.Equal(wanted(r), readDockerfile(t, []byte(changed)).stage(t, "shipped", arguments(r.Name))) {
				t.Error("nothing is noticed")
			}
		})
	}
}

// The Dockerfile and this package compile with the same flags in the same environment.
func TestDockerfileCompilesTheSameWay(t *testing.T) {
	t.Parallel()
	f := readDockerfile(t, dockerfile(t))
	i := slices.IndexFunc(f.stages, func(s instructions.Stage) bool { return s.Name == "compiled" })
	if i < 0 {
		t.Fatal("there is no stage compiled")
	}
	for _, r := range daemons() {
		for _, platform := range Platforms() {
			args := arguments(r.Name)
			args["TARGETOS"], args["TARGETARCH"] = platform.OS, platform.Architecture
			var environment []string
			run := ""
			for _, command := range f.stages[i].Commands {
				switch c := command.(type) {
				case *instructions.EnvCommand:
					for _, pair := range c.Env {
						environment = append(environment, pair.Key+"="+pair.Value)
					}
				case *instructions.RunCommand:
					run += strings.Join(strings.Fields(strings.ReplaceAll(strings.Join(c.CmdLine, " "), "\\\n", " ")), " ")
				}
			}
			environment = append(environment, "GOOS="+platform.OS, "GOARCH="+platform.Architecture)
			want := settings(platform)
			slices.Sort(environment)
			slices.Sort(want)
			if diff := cmp.Diff(want, environment); diff != "" {
				t.Errorf("%s: environment (-here +Dockerfile):\n%s", r.Name, diff)
			}
			flags := r.flags(fixedStamp)
			flags[len(flags)-1] = fmt.Sprintf("%q", flags[len(flags)-1])
			line := fmt.Sprintf("GOOS=%s GOARCH=%s go build -C %s %s -o /out/%s %s && chmod 0555 /out/%s",
				platform.OS, platform.Architecture, r.module, strings.Join(flags, " "), r.program, r.pkg, r.program)
			if got := os.Expand(run, func(name string) string { return args[name] }); got != line {
				t.Errorf("%s:\n%s\nbut the Dockerfile runs\n%s", r.Name, line, got)
			}
		}
	}
}

// The release of Go that the Dockerfile names is one that the modules accept.
func TestDockerfileNamesAWholeRelease(t *testing.T) {
	t.Parallel()
	f := readDockerfile(t, dockerfile(t))
	globals := variables{}
	for _, arg := range f.global {
		globals.declare(arg.Args, nil, nil)
	}
	if parts := strings.Split(globals["GO_VERSION"], "."); len(parts) != 3 {
		t.Errorf("GO_VERSION is %q: without its third number it names another compiler every few weeks", globals["GO_VERSION"])
	}
	if base, err := globals.expand(f.stages[0].BaseName); err != nil || base != "golang:"+globals["GO_VERSION"] {
		t.Errorf("it compiles with %q, %v", base, err)
	}
}
