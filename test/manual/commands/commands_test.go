package commands_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/test/manual/commands"
)

func read(t *testing.T, text string) ([]commands.Block, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.md")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	blocks, err := commands.Read(path)
	for i := range blocks {
		blocks[i].Document = ""
	}
	return blocks, err
}

func TestRead(t *testing.T) {
	t.Parallel()
	got, err := read(t, "Text\n\n```sh node\na  # why\n```\n\n1. Step\n\n   ```yaml f.yaml\n   a:\n     b: c\n   ```\n\n```\nnothing\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []commands.Block{
		{Line: 3, Words: []string{"sh", "node"}, Text: "a  # why\n"},
		{Line: 9, Words: []string{"yaml", "f.yaml"}, Text: "a:\n  b: c\n"},
		{Line: 14, Words: []string{}, Text: "nothing\n"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !got[0].Is("sh node") || got[0].Is("sh") {
		t.Error("a block is not what it says that it is")
	}
}

func TestReadOfABlockThatIsNotClosed(t *testing.T) {
	t.Parallel()
	if _, err := read(t, "```sh\na\n"); err == nil || !strings.Contains(err.Error(), ":1: the block is not closed") {
		t.Errorf("it says %v", err)
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	b := commands.Block{Text: "a b   # why\n\n# nothing\nc \\\n  d\ne '#f'\n"}
	if diff := cmp.Diff([]string{"a b", "c   d", "e '#f'"}, b.Commands()); diff != "" {
		t.Error(diff)
	}
}

func shell(t *testing.T) *commands.Shell {
	t.Helper()
	return &commands.Shell{Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}, Here: strings.NewReplacer("<name>", "box")}
}

func TestRun(t *testing.T) {
	t.Parallel()
	if out, err := shell(t).Run(t.Context(), "echo <name>\n"); err != nil || out != "box\n" {
		t.Errorf("it says %q, %v", out, err)
	}
	for name, text := range map[string]string{
		"one that fails": "echo so; false", "the first of several": "false\ntrue", "within a pipe": "false | cat", "a variable that is not set": "echo $HOME",
	} {
		if _, err := shell(t).Run(t.Context(), text); err == nil {
			t.Errorf("%s: it succeeds", name)
		}
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	if err := shell(t).Follow(t.Context(), "echo <name>; sleep 1000"); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{"true": "it writes nothing", "echo Error: no such thing >&2; sleep 1000": "it writes of an error"} {
		if err := shell(t).Follow(t.Context(), text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
