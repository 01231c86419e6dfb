package reconcile

import (
	"strings"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
)

// opener is a policy of somebody else that opens fences, and of how many sandboxes. Its name is kept once for all of them, and what it
// opens is not kept: a sandbox costs a pointer for each, of which there are as many as policies that are listed in a namespace at most.
type opener struct {
	policy    string
	sandboxes int
}

// news are the policies that open a fence of a namespace since, or do not any more.
type news struct {
	namespace string
	opened    []plan.Opening
	closed    []string
}

// reopen notes which policies open the fence of a sandbox. To be told are those that were not known to open one in this namespace before,
// and those that do not open any there any more, also because the last sandbox has gone.
func (l *ledger) reopen(e *entry, now []plan.Opening) {
	n := news{namespace: e.key.namespace}
	former := e.openers
	e.openers = nil
	for _, o := range now {
		at := [2]string{e.key.namespace, o.Policy}
		p := l.opened[at]
		if p == nil {
			p = &opener{policy: strings.Clone(o.Policy)}
			l.opened[[2]string{e.key.namespace, p.policy}] = p
			n.opened = append(n.opened, o)
		}
		p.sandboxes++
		e.openers = append(e.openers, p)
	}
	for _, p := range former {
		if p.sandboxes--; p.sandboxes == 0 {
			delete(l.opened, [2]string{e.key.namespace, p.policy})
			n.closed = append(n.closed, p.policy)
		}
	}
	if len(n.opened)+len(n.closed) > 0 {
		l.heard = append(l.heard, n)
	}
}
