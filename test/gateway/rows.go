package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// tries is how often a compare-and-set is tried that a user waits for (contract 2.6). A snapshot has one try (contract 2.8).
const tries = 3

// errUnchanged is returned by an edit that has nothing to change.
var errUnchanged = errors.New("nothing to change")

// Sandbox is a row as users see it.
type Sandbox struct {
	ID, Name, Workspace string
	Phase               phase.Phase
	Cause               phase.Cause
	Message             string
	Conditions          []phase.Condition
	RuntimeIdentity     string
	Run                 record.Run
	CreatedAt, Deadline time.Time
	Reclaimed           bool
	Version             uint64
}

func view(row record.Row) Sandbox {
	return Sandbox{
		ID: row.ID, Name: row.Name, Workspace: row.Workspace, Phase: row.Phase, Cause: row.Cause, Message: row.Message,
		Conditions: slices.Clone(row.Conditions), RuntimeIdentity: row.Annotations[record.AnnotationIdentity], Run: row.Run,
		CreatedAt: row.CreatedAt, Deadline: row.Deadline, Reclaimed: row.Reclaimed, Version: row.Version,
	}
}

// Get returns a sandbox, or NOT_FOUND. It asks the records only.
func (g *Gateway) Get(id string) (Sandbox, error) {
	row, err := g.records.Get(id)
	return view(row), rejected(err)
}

// Find returns the sandbox of a name in a workspace, or NOT_FOUND.
func (g *Gateway) Find(workspace, name string) (Sandbox, error) {
	row, err := g.records.Find(workspace, name)
	return view(row), rejected(err)
}

// List returns all sandboxes, by id.
func (g *Gateway) List() ([]Sandbox, error) {
	rows, err := g.records.List()
	if err != nil {
		return nil, rejected(err)
	}
	all := make([]Sandbox, 0, len(rows))
	for _, row := range rows {
		all = append(all, view(row))
	}
	return all, nil
}

// change edits the newest row and swaps it in, as often as attempts when others change it too. An edit that returns errUnchanged
// makes no write and no error.
func (g *Gateway) change(id string, attempts int, edit func(*record.Row) error) (record.Row, error) {
	for attempt := 1; ; attempt++ {
		old, err := g.records.Get(id)
		if err != nil {
			return record.Row{}, err
		}
		row := old
		row.Annotations = maps.Clone(old.Annotations)
		if err := edit(&row); errors.Is(err, errUnchanged) || err == nil && same(old, row) {
			return old, nil
		} else if err != nil {
			return old, err
		}
		written, err := g.swap(old, row)
		if errors.Is(err, record.ErrConflict) && attempt < attempts {
			continue
		}
		return written, err
	}
}

func same(a, b record.Row) bool {
	one, errOne := json.Marshal(a)
	other, errOther := json.Marshal(b)
	return errOne == nil && errOther == nil && bytes.Equal(one, other)
}

// insert creates the row and tells so.
func (g *Gateway) insert(row record.Row) (record.Row, error) {
	g.commit.Lock()
	defer g.commit.Unlock()
	row, err := g.records.Create(row, func(row *record.Row) { row.Run.Generation = record.Generation(row.Version) })
	if err != nil {
		return row, err
	}
	created := about(row, Created, "", "")
	created.To = row.Phase
	g.emit(created)
	return row, nil
}

// swap writes the row and tells what changed.
func (g *Gateway) swap(old, row record.Row) (record.Row, error) {
	g.commit.Lock()
	defer g.commit.Unlock()
	written, err := g.records.Swap(row)
	if err != nil {
		return record.Row{}, err
	}
	reason, message := reasonOf(written)
	switch e := about(written, StatusChanged, reason, message); {
	case old.Phase != written.Phase:
		e.Kind, e.From, e.To = PhaseChanged, old.Phase, written.Phase
		g.emit(e)
	default:
		if r, m := reasonOf(old); r != reason || m != message {
			e.From, e.To = old.Phase, written.Phase
			g.emit(e)
		}
	}
	if identity := written.Annotations[record.AnnotationIdentity]; identity != old.Annotations[record.AnnotationIdentity] {
		g.emit(about(written, Bound, "", identity))
	}
	return written, nil
}

// reasonOf says why a row is in its phase.
func reasonOf(row record.Row) (reason, message string) {
	ready := phase.Status{Conditions: row.Conditions}.Find("Ready")
	switch {
	case row.Cause != phase.NoCause:
		return string(row.Cause), row.Message
	case row.Phase == phase.Provisioning, row.Phase == phase.Starting, row.Phase == phase.Ready, row.Phase == phase.Error:
		return ready.Reason, ready.Message
	default:
		return "", row.Message
	}
}

// remove removes a row, whatever became of it meanwhile, and tells so. One that is gone is no error, and one that took its id is
// left alone.
func (g *Gateway) remove(row record.Row, reason string) error {
	for {
		now, err := g.records.Get(row.ID)
		if errors.Is(err, record.ErrNotFound) || err == nil && now.Run.Generation != row.Run.Generation {
			return nil
		}
		if err != nil {
			return err
		}
		removed, err := g.removeAt(now, reason)
		if removed || err != nil {
			return err
		}
	}
}

func (g *Gateway) removeAt(row record.Row, reason string) (bool, error) {
	g.commit.Lock()
	defer g.commit.Unlock()
	switch err := g.records.Remove(row.ID, row.Version); {
	case errors.Is(err, record.ErrConflict):
		return false, nil
	case errors.Is(err, record.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	}
	e := about(row, Removed, reason, "")
	e.From = row.Phase
	g.emit(e)
	g.side.Drop(row.ID)
	return true, nil
}

// enterState saves the present state as the one to go back to, and replaces it.
func enterState(row *record.Row, next record.State) {
	before := row.State
	row.Before, row.State = &before, next
}

// restore goes back to the state before the operation.
func restore(row *record.Row) {
	if row.Before != nil {
		row.State, row.Before = *row.Before, nil
	}
}
