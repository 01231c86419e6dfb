package apitest

import (
	"sync"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/allowlist/allowlisttest"
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
	view, now := allowlisttest.View(l.t, GatewayID, entries...)
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

// Entry is the bearer's namespace as it is listed.
func Entry() allowlist.Entry { return allowlist.Entry{Name: Team, UID: NamespaceUID} }
