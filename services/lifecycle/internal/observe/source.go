package observe

import (
	"context"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/progress"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// Source lists and watches one resource. Its versions are numbers that grow with every change of it. It need not be safe for
// concurrent use.
type Source[T any] interface {
	// List gives everything in its newest state: an answer that may be out of date is an error. after is the newest version that was
	// seen, zero at first; a source whose items are only passed on may leave out what is not newer, and at first everything.
	List(ctx context.Context, after uint64) (Listing[T], error)
	// Watch tells everything that happens after the version from, in order, until tell says no, the cluster ends it (nil), or it
	// fails. The error wraps ErrRelist when the version is of no use.
	Watch(ctx context.Context, from uint64, tell func(Change[T]) bool) error
}

// Listing is the answer to a list.
type Listing[T any] struct {
	// Version is that of the whole.
	Version uint64
	Items   []Item[T]
}

// Item is one object.
type Item[T any] struct {
	UID     string
	Version uint64
	// Value is what is kept of it; zero when Problem says why nothing is.
	Value   T
	Problem error
}

// Form is what a change is. The zero Form is none.
type Form uint8

// The forms.
const (
	// Opened: the watch runs. The Item is zero.
	Opened Form = iota + 1
	// Put: the object was made or changed, or is selected now.
	Put
	// Dropped: the object is gone, or is not selected any more. Only UID and Version are set.
	Dropped
	// Reached: nothing happened up to the Version. Only that is set.
	Reached
)

// Change is what a watch tells.
type Change[T any] struct {
	Form Form
	Item[T]
}

// Sources feed an Observer.
type Sources struct {
	Sandboxes Source[snapshot.Sandbox]
	Pods      Source[snapshot.Pod]
	Events    Source[progress.Event]
}

// Finder looks for a sandbox live.
type Finder interface {
	// Find gives all Sandbox objects of the gateway with the id, from a consistent read; none is a proven absence. With ErrUnreadable it
	// may give them too, all of them, as far as their metadata say.
	Find(ctx context.Context, sandboxID string) ([]sandboxapi.Object, error)
}

// kind is one of the three resources.
type kind uint8

const (
	boxes kind = iota
	pods
	events
	kinds // how many there are
)

var kindNames = [kinds]string{sandboxapi.Resource, "pods", "events"}

func (k kind) String() string { return kindNames[k] }
