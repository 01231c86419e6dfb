package manual_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/test/manual/commands"
)

const root = "../.."

// Who types a block, by the words behind its fence. The test is read for its name only.
var typists = map[string]string{
	"sh":                 "test/manual TestProgramsAsDocumented",
	"sh fails":           "test/manual TestProgramsAsDocumented",
	"sh follows":         "test/manual TestProgramsAsDocumented",
	"sh repository":      "test/manual TestRepositoryAsDocumented",
	"sh node":            "test/e2e TestOperatorLabelOverlayAsDocumented",
	"sh node fails":      "test/e2e TestOperatorLabelOverlayAsDocumented",
	"sh node follows":    "test/e2e TestOperatorLabelOverlayAsDocumented",
	"sh node steps":      "test/e2e TestOperatorLabelOverlayRecovers",
	"sh containerd":      "test/e2e TestShippedArchivesAsDocumented",
	"sh elsewhere":       "", // below, command by command
	"toml":               "", // settings, which configure_test.go and the daemons' own tests look at
	"toml operator.toml": "test/broker TestTheDocumentIsTrue",
	"toml gateway.toml":  "test/e2e TestOperatorLabelOverlayAsDocumented",
	"yaml":               "test/e2e TestOperatorLabelOverlayAsDocumented",
	"text":               "", // pictures
}

// natsDocument is typed as a whole, by test/broker TestTheDocumentIsTrue.
const natsDocument = "docs/nats.md"

// another is a command, by its beginning, that no reader types in its place: the test that has it, and how.
type another struct{ command, test, how string }

// is tells whether a line is the command, with what follows its beginning. A program's name alone is no beginning: whatever it can do would be
// tested by that.
func (a another) is(line string) bool {
	return line == a.command || strings.Contains(a.command, " ") && strings.HasPrefix(line, a.command+" ")
}

// doneBy are the commands of blocks that another test types, or does in its own way.
var doneBy = []another{
	{"make demo", "test/demo/cmd/demo TestRun", "types it without root; TestRunOnANode types it as root, on a node of its own"},
	{"make up", "test/demo/cmd/demo TestUp", "runs the program as make up does, and what it prints"},
	{"make down", "test/demo/cmd/demo TestUp", "runs the program as make down does"},
	{"make check", "", "continuous integration, .ci/run: it runs this"},
	{"make test-long", "", "by hand, before a release: it runs this"},
	{"make test", "", "continuous integration, .ci/run: it runs this"},
	{"make fuzz", "test/manual TestFuzzAsDocumented", "types it with one input for each target"},
	{"make", "test/manual TestTargetsAreThere", "types it"},
	{"supervisorctl fence probe", "test/e2e TestFenceProbe", "runs it as a process, on a node that enforces policies, and on one that does not"},
	{"curl -s 'http://127.0.0.1:9464/readyz?verbose'", "test/manual TestProgramsAsDocumented", "types it for docs/supervisorctl.md; here it needs what the command above it leaves running"},
	{`eval "$(go run ./test/cluster/cmd/kube up node)"`, "test/cluster/nodelife TestNodeLeavesNothingBehind", "starts and ends a node of its own"},
	{"kubectl get nodes", "test/cluster/nodelife TestNodeLeavesNothingBehind", "with the library"},
	{"go run ./test/cluster/cmd/kube down node", "test/cluster/nodelife TestNodeLeavesNothingBehind", "ends it"},
}

// documents are those with commands for readers. Measurements have commands of their own, which whoever measures types.
func documents(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found = slices.DeleteFunc(found, func(path string) bool { return filepath.Base(path) == "performance.md" })
	return append(found, root+"/README.md", root+"/deploy/kustomize/README.md")
}

func blocks(t *testing.T, document string) []commands.Block {
	t.Helper()
	all, err := commands.Read(document)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// begins are those of a line of commands.
var begins = regexp.MustCompile(`^(kubectl|nswatch|tokenauth|supervisorctl|lifecycle|nats|make|go|curl|bin/\S+|jq|ctr|skopeo|docker|eval|cp|rm)( |$)`)

// TestEveryCommandIsTyped: nothing stands in a document that looks like a command and that no test types.
func TestEveryCommandIsTyped(t *testing.T) {
	t.Parallel()
	for _, test := range typists {
		demandTest(t, test)
	}
	used := map[string]bool{}
	for _, document := range documents(t) {
		if strings.HasSuffix(document, natsDocument) {
			continue
		}
		for _, b := range blocks(t, document) {
			words := strings.Join(b.Words, " ")
			if len(b.Words) > 0 && b.Words[0] == "yaml" {
				words = "yaml"
			}
			if _, known := typists[words]; !known {
				t.Errorf("%s: nobody knows what a block %q is", b.Where(), words)
			}
			for _, line := range b.Commands() {
				switch {
				case words == "text" && begins.MatchString(line) && !strings.ContainsAny(line, "►◄"):
					t.Errorf("%s: nobody types %s", b.Where(), line)
				case words == "sh elsewhere":
					i := slices.IndexFunc(doneBy, func(e another) bool { return e.is(line) })
					if i < 0 {
						t.Errorf("%s: no test does %s", b.Where(), line)
						continue
					}
					used[doneBy[i].command] = true
				}
			}
		}
	}
	demandUse(t, doneBy, used)
}

// demandUse demands that the tests are there, and that some document has each of the commands.
func demandUse(t *testing.T, all []another, used map[string]bool) {
	t.Helper()
	for _, e := range all {
		if demandTest(t, e.test); !used[e.command] {
			t.Errorf("no document has the command %s, which is said to be tested", e.command)
		}
	}
}

// demandTest demands that there is a test, named as "directory TestName"; a name may go on.
func demandTest(t *testing.T, test string) {
	t.Helper()
	if test == "" {
		return
	}
	directory, name, _ := strings.Cut(test, " ")
	files, err := filepath.Glob(filepath.Join(root, directory, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.Contains(handbook.Read(t, file), "\nfunc "+name) {
			return
		}
	}
	t.Errorf("there is no %s", test)
}

// inline are the commands within a text or a table, with arguments.
var inline = regexp.MustCompile("`((?:kubectl|nswatch|tokenauth|supervisorctl|lifecycle|nats|make|go run|curl|skopeo|ctr) [^`]+)`")

// mentioned are commands within a text that stand in no block.
var mentioned = []another{
	{"kubectl debug", "test/supervisor TestDamage", "adds a container to a Pod by the same subresource, and has the run end"},
	{"make demo KUBE=current", "test/demo/cmd/demo TestRun", "types it, on a control plane of its own"},
	{"nats server check kv", "test/broker TestEverythingElseIsDenied", "has the server refuse whatever goes without the prefix, which is what the document says of it"},
}

// TestCommandsInTexts: a command within a text is, or begins or ends, one that stands in a block somewhere and is typed.
func TestCommandsInTexts(t *testing.T) {
	t.Parallel()
	var typed strings.Builder
	for _, document := range documents(t) {
		for _, b := range blocks(t, document) {
			if len(b.Words) > 0 && b.Words[0] == "sh" {
				for _, line := range b.Commands() {
					typed.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
				}
			}
		}
	}
	used := map[string]bool{}
	for _, document := range documents(t) {
		for _, found := range inline.FindAllStringSubmatch(handbook.Read(t, document), -1) {
			if strings.Contains(typed.String(), found[1]) {
				continue
			}
			i := slices.IndexFunc(mentioned, func(e another) bool { return strings.HasPrefix(found[1], e.command) })
			if i < 0 {
				t.Errorf("%s: nobody types `%s`", document, found[1])
				continue
			}
			used[mentioned[i].command] = true
		}
	}
	demandUse(t, mentioned, used)
}

// TestTargetsAreThere types make, which lists the targets with what each is for: those that a document names are there.
func TestTargetsAreThere(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "make", "--no-print-directory")
	list.Dir, list.Env = root, append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	targets, err := list.Output()
	if err != nil {
		t.Fatalf("make: %v\n%s", err, targets)
	}
	for _, document := range append(documents(t), root+"/docs/performance.md") {
		for _, found := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllStringSubmatch(handbook.Read(t, document), -1) {
			if !regexp.MustCompile(`(?m)^ +` + found[1] + ` +[A-Z]`).Match(targets) {
				t.Errorf("%s: there is no make %s in\n%s", document, found[1], targets)
			}
		}
	}
}
