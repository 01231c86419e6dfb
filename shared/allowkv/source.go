package allowkv

import (
	"context"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// Source is what a Publisher publishes: the namespaces that a label selects, or those in a file. nswatch has both.
type Source interface {
	// Describe is what snapshots say about the source; without a version, which comes with each list.
	Describe() allowlist.Source
	// Run tells report what the source holds and what proves it, as Listed, Proved and SourceFailed, from its first
	// consistent list on and until ctx ends; then it has ended all that it started and returns nil. A source never
	// gives up: any other end is a defect, and ends the term.
	//
	// Each value on relist asks for a consistent list, or a full read of the file, that begins after the value was
	// received and is answered by one Listed or SourceFailed of its own (rules W2, W5). Values that wait together are
	// one wish.
	//
	// report may wait for the publisher, never for long, and must not be called by two goroutines at once. Instants in
	// inputs are on the publisher's Clock, and ProvenAt is when the request, or the read, began.
	Run(ctx context.Context, relist <-chan struct{}, report func(allowlist.Input)) error
}
