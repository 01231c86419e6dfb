package apitest

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// List is an allowlist that a test changes while calls run. Its answers are those of the real reader of package allowlist:
// nothing else can say yes.
type List struct {
	mu      sync.Mutex
	view    *allowlist.View
	now     allowlist.Instant
	asked   int
	onCheck func(asked int)
	t       testing.TB
}

// NewList is a list that holds the bearer's namespace with its uid.
func NewList(t testing.TB) *List {
	l := &List{t: t}
	l.Hold(Entry())
	return l
}

// Hold replaces what is listed.
func (l *List) Hold(entries ...allowlist.Entry) {
	l.t.Helper()
	view, now, err := viewOf(entries)
	if err != nil {
		l.t.Error(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view, l.now = view, now
}

// Forget makes the reader one that has seen nothing.
func (l *List) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view = &allowlist.View{}
}

// OnCheck calls f before each answer, with the number of the question.
func (l *List) OnCheck(f func(asked int)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onCheck = f
}

// Asked is how many questions there were.
func (l *List) Asked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// Check answers as allowkv.Reader does.
func (l *List) Check(namespace string) allowlist.Answer {
	l.mu.Lock()
	l.asked++
	f, n := l.onCheck, l.asked
	l.mu.Unlock()
	if f != nil {
		f(n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.Check(namespace, l.now)
}

// viewOf is what a reader says, and when, once a writer has published entries and vouched for them.
func viewOf(entries []allowlist.Entry) (*allowlist.View, allowlist.Instant, error) {
	now := allowlist.Instant{Mono: time.Hour, Wall: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	signer, err := allowlist.GenerateSigner(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		return nil, now, err
	}
	keys, err := allowlist.NewKeySet(signer.Public())
	if err != nil {
		return nil, now, err
	}
	writer, err := allowlist.NewWriter(allowlist.WriterConfig{
		GatewayID: GatewayID, Name: "nswatch-0", Settings: allowlist.DefaultSettings(),
		Source: allowlist.Source{Kind: allowlist.SourceLabel, Selector: "sandboxes=allowed"},
	}, signer, keys)
	if err != nil {
		return nil, now, err
	}
	reader, err := allowlist.NewReader(GatewayID, keys, allowlist.DefaultSettings(), allowlist.Marks{})
	if err != nil {
		return nil, now, err
	}
	list, err := allowlist.NewList(entries)
	if err != nil {
		return nil, now, err
	}
	stored := uint64(0)
	for input := allowlist.Input(allowlist.Tick{}); input != nil && stored < 3; {
		switch action := writer.Step(now, input).Action.(type) {
		case allowlist.Look:
			input = allowlist.Looked{}
		case allowlist.Relist:
			input = allowlist.Listed{List: list, Version: "1", Order: 1, Kind: allowlist.ProofList, ProvenAt: now.Mono}
		case allowlist.Write:
			stored++
			reader.Step(now, allowlist.Record{Key: action.Key, Operation: allowlist.OperationPut, Value: action.Record})
			input = allowlist.Written{Result: allowlist.WriteStored, Sequence: stored}
		default:
			now.Mono, now.Wall = now.Mono+time.Second, now.Wall.Add(time.Second)
			input = allowlist.Tick{}
		}
	}
	return reader.View(), now, nil
}

// Entry is the bearer's namespace as it is listed.
func Entry() allowlist.Entry { return allowlist.Entry{Name: Team, UID: NamespaceUID} }
