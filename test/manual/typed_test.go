package manual_test

import (
	"os"
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
	"sh elsewhere":       "", // below, command by command
	"toml":               "", // settings, which configure_test.go and the daemons' own tests look at
	"toml operator.toml": "test/broker TestTheDocumentIsTrue",
	"toml gateway.toml":  "test/e2e TestOperatorLabelOverlayAsDocumented",
	"yaml":               "test/e2e TestOperatorLabelOverlayAsDocumented",
	"text":               "", // pictures
}

// natsDocument is typed as a whole, by test/broker TestTheDocumentIsTrue.
const natsDocument = "docs/nats.md"

// doneBy are the commands that another test does, in its own way: by their beginning, the test and what it runs.
var doneBy = []struct{ command, test, how string }{
	{"make demo", "test/demo/cmd/demo TestRun", "types it without root; TestRunOnANode types it as root, on a node of its own"},
	{"make up", "test/demo/cmd/demo TestUp", "runs the program as make up does, and what it prints"},
	{"make down", "test/demo/cmd/demo TestUp", "runs the program as make down does"},
	{"make images", "test/images TestShippedImages", "builds all images as the command does, and looks into them"},
	{"make check", "", "continuous integration, .ci/run"},
	{"make test-long", "", "by hand, before a release: it runs this"},
	{"make test", "", "continuous integration, .ci/run: it runs this"},
	{"make fuzz", "test/manual TestTargetsAreThere", "is a target of the Makefile; the fuzz targets' seeds run with make test"},
	{"make", "test/manual TestTargetsAreThere", "lists the targets"},
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
					i := slices.IndexFunc(doneBy, func(e struct{ command, test, how string }) bool {
						return line == e.command || strings.HasPrefix(line, e.command+" ")
					})
					if i < 0 {
						t.Errorf("%s: no test does %s", b.Where(), line)
						continue
					}
					used[doneBy[i].command] = true
				}
			}
		}
	}
	for _, e := range doneBy {
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

// mentioned are commands within a text that are no advice to type them as they stand.
var mentioned = []string{
	"kubectl debug",                   // what ends a run
	"make vuln",                       // needs the vulnerability database
	"make demo KUBE=current",          // test/demo/cmd/demo TestRun types it, on a control plane of its own
	"nats server check kv",            // what is refused
	"go run ./test/images/cmd/images", // --help
	"kubectl create secret generic --type=kubernetes.io/tls", // a part of a step that services/nswatch/internal/provision does whole
	// Programs of others that take OCI archives. test/images TestShippedImages holds the archives to the format, and test/e2e has containerd
	// import each of them.
	"skopeo copy", "ctr --namespace k8s.io images import",
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
	for _, document := range documents(t) {
		for _, found := range inline.FindAllStringSubmatch(handbook.Read(t, document), -1) {
			if !strings.Contains(typed.String(), found[1]) && !slices.ContainsFunc(mentioned, func(m string) bool { return strings.HasPrefix(found[1], m) }) {
				t.Errorf("%s: nobody types `%s`", document, found[1])
			}
		}
	}
}

// TestTargetsAreThere: every target of make that a document names is in the Makefile, with what it is for.
func TestTargetsAreThere(t *testing.T) {
	t.Parallel()
	makefile := handbook.Read(t, root+"/Makefile")
	for _, document := range documents(t) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`(?m)^` + found[1] + `:.*## `).MatchString(makefile) {
				t.Errorf("%s: there is no make %s", document, found[1])
			}
		}
	}
}
