package conduct

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
)

// comparison remembers how an object compared with what the Sandbox asks for. A round asks at each of its steps, of an object that
// changes at few of them, and comparing is the most costly thing that it computes. The zero comparison remembers nothing.
type comparison struct {
	uid     types.UID
	version string
	box     companion.Sandbox
	found   companion.Comparison
}

// of is compare's answer. It is remembered for this state of the object, which its resourceVersion stands for, and for this Sandbox.
func (c *comparison) of(found *metav1.ObjectMeta, box companion.Sandbox, compare func() companion.Comparison) companion.Comparison {
	if found.ResourceVersion == "" || found.UID == "" {
		return compare()
	}
	if c.uid != found.UID || c.version != found.ResourceVersion || c.box != box {
		*c = comparison{found.UID, found.ResourceVersion, box, compare()}
	}
	return c.found
}
