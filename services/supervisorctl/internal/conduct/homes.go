package conduct

import (
	"context"
	"sync"
)

// home is the uid of a namespace, with the fence that was seen in it before. The zero home is none.
type home struct{ namespace, fence string }

// homes knows the uids of namespaces by the fences in them: a policy with a uid is in one namespace with one uid as long as it is there, so
// whoever sees the policy knows the namespace, also after another one of that name has taken the place of a former one.
type homes struct {
	mu   sync.Mutex
	seen map[string]home // by name of the namespace
}

// mostHomes is how many namespaces are known at once; beyond, one is read again.
const mostHomes = 4096

func newHomes() *homes { return &homes{seen: map[string]home{}} }

// of is the home of a fence that was just seen in a namespace of that name, and zero if it is not known.
func (h *homes) of(name, fence string) home {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.seen[name]; fence != "" && at.fence == fence {
		return at
	}
	return home{}
}

// learn notes a namespace that was read after its fence was seen and before it was seen again.
func (h *homes) learn(name string, at home) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.seen[name]; !ok && len(h.seen) >= mostHomes {
		for other := range h.seen {
			delete(h.seen, other)
			break
		}
	}
	h.seen[name] = at
}

// lookAtNamespace is the home of the fence that was seen: as it is known, or as the namespace is read. It is zero when it cannot be.
func (r *round) lookAtNamespace(ctx context.Context) home {
	fence := r.seen.fence.value
	if fence == nil {
		return home{}
	}
	if at := r.homes.of(r.goal.Ref.Namespace, string(fence.UID)); at != (home{}) {
		return at
	}
	if found, err := r.cluster.Namespace(ctx, r.goal.Ref.Namespace); err == nil {
		return home{namespace: string(found.UID), fence: string(fence.UID)}
	}
	return home{}
}

// namespaceUID is the uid of the namespace that the fence, which was just seen, is in.
func (r *round) namespaceUID(ctx context.Context) (string, error) {
	name, fence := r.goal.Ref.Namespace, string(r.seen.fence.value.UID)
	if at := r.namespace; at.namespace != "" && fence != "" && at.fence == fence {
		r.homes.learn(name, at) // the fence was seen before it was read, and now
		return at.namespace, nil
	}
	if at := r.homes.of(name, fence); at != (home{}) {
		return at.namespace, nil
	}
	found, err := r.cluster.Namespace(ctx, name)
	if err != nil {
		return "", err
	}
	r.namespace = home{namespace: string(found.UID), fence: fence}
	return r.namespace.namespace, nil
}
