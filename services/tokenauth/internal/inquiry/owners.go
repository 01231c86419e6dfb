package inquiry

import (
	"k8s.io/utils/lru"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/claims"
)

// mostOwners is how many Pods' Sandboxes are remembered, below 1 KiB each. Those that were not asked about for longest go first.
const mostOwners = 4096

// owners remembers which Sandbox a Pod belonged to when it was last granted, so that the next inquiry about this Pod can read
// both at once. It is a hint of where to look, like the claims of a token: what is read there is an answer only if the live Pod
// names the same Sandbox. Only a grant puts something in, so a token that is not accepted cannot drive out what is remembered of
// others. Safe for concurrent use.
type owners struct{ byPod *lru.Cache }

func newOwners() owners { return owners{lru.New(mostOwners)} }

// remember takes the question about the Sandbox of a Pod that was granted.
func (o owners) remember(podUID string, q authenticate.Question) { o.byPod.Add(podUID, q) }

// of is the question about the Sandbox of the Pod in a hint, and the zero Question when it is not known.
func (o owners) of(hint claims.Hint) authenticate.Question {
	if found, ok := o.byPod.Get(hint.PodUID); ok {
		if q, ok := found.(authenticate.Question); ok && q.Namespace == hint.Namespace {
			return q
		}
	}
	return authenticate.Question{}
}
