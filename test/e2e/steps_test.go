package e2e_test

import (
	"path/filepath"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/manual/commands"
)

// stepsOfDocuments are the words behind the fence of a block that is one step of several, between which the document has the reader wait.
const stepsOfDocuments = "sh node steps"

// TestStepsAreTyped: no section of a document has steps but those that TestOperatorLabelOverlayChanges and TestOperatorLabelOverlayRecovers type.
func TestStepsAreTyped(t *testing.T) {
	t.Parallel()
	known := map[string]int{"certificates.md": 7, "upgrade.md": 3, "nats.md": 2, "backup.md": 5}
	documents, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	noError(t, err)
	for _, document := range documents {
		all, err := commands.Read(document)
		noError(t, err)
		found := 0
		for _, b := range all {
			if b.Is(stepsOfDocuments) {
				found++
			}
		}
		if want := known[filepath.Base(document)]; found != want {
			t.Errorf("%s has %d blocks of steps, and %d are typed", document, found, want)
		}
	}
}
