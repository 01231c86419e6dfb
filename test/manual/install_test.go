package manual_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/test/manual/commands"
)

// installation are README.md's blocks between a heading and the next table.
func installation(t *testing.T) (found []commands.Block) {
	t.Helper()
	const heading, end = "## Install\n", "\n| Document |"
	text := handbook.Read(t, root+"/README.md")
	from := strings.Index(text, heading)
	to := from + strings.Index(text[max(from, 0):], end)
	if from < 0 || to < from {
		t.Fatal("README.md has no installation that ends in a table of documents")
	}
	first, last := strings.Count(text[:from], "\n")+1, strings.Count(text[:to], "\n")+1
	for _, b := range blocks(t, root+"/README.md") {
		if b.Line > first && b.Line < last {
			found = append(found, b)
		}
	}
	return found
}

// TestInstallation: README.md has all that it takes, from the settings to a sandbox that is ready, and docs/install.md has the same steps, word by word.
// test/e2e types them.
func TestInstallation(t *testing.T) {
	t.Parallel()
	short, long := installation(t), blocks(t, root+"/docs/install.md")
	at := 0
	for _, b := range short {
		n := slices.IndexFunc(long[at:], func(o commands.Block) bool { return o.Text == b.Text && slices.Equal(o.Words, b.Words) })
		if n < 0 {
			t.Errorf("%s: docs/install.md does not have this, or not in this order:\n%s", b.Where(), b.Text)
			continue
		}
		at += n + 1
	}
	for _, must := range []string{"overlays/operator-label\n", "gateway-sidecar/relay", "network_policy_enforced = true", "kubectl apply -k .", "openshell.ai/sandboxes=allowed", "--for=condition=Ready sandbox"} {
		if !slices.ContainsFunc(short, func(b commands.Block) bool { return strings.Contains(b.Text, must) }) {
			t.Errorf("README.md does not say how to install without %q", must)
		}
	}
}
