package commands

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Block is one fenced block of a document.
type Block struct {
	// Document is its path, Line that of the fence.
	Document string
	Line     int
	// Words are those behind the fence; a block of which nothing is said has none.
	Words []string
	// Text are its lines, without what the fence is indented by.
	Text string
}

// Is reports whether just these words are behind the fence.
func (b Block) Is(words string) bool { return strings.Join(b.Words, " ") == words }

// Where is the block's place, for messages.
func (b Block) Where() string { return fmt.Sprintf("%s:%d", b.Document, b.Line) }

// Commands are the lines of a block with commands, each with those that a backslash continues, without comments and empty ones.
func (b Block) Commands() []string {
	var all []string
	open := ""
	for line := range strings.Lines(b.Text) {
		line = strings.TrimRight(line, "\n")
		if before, goesOn := strings.CutSuffix(line, "\\"); goesOn {
			open += before
			continue
		}
		line, _, _ = strings.Cut(open+line, "  #")
		open = ""
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

// Read returns the fenced blocks of a document.
func Read(path string) ([]Block, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	return parse(path, string(text))
}

func parse(path, text string) ([]Block, error) {
	var all []Block
	var open *Block
	indent := ""
	for n, line := range strings.Split(text, "\n") {
		bare := strings.TrimLeft(line, " ")
		fence, found := strings.CutPrefix(bare, "```")
		switch {
		case found && open != nil:
			all, open = append(all, *open), nil
		case found:
			open, indent = &Block{Document: path, Line: n + 1, Words: strings.Fields(fence)}, line[:len(line)-len(bare)]
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s: the block is not closed", open.Where())
	}
	return slices.Clip(all), nil
}
