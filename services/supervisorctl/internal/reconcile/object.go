package reconcile

import (
	"encoding/json"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// kind is one of the watched kinds.
type kind uint8

const (
	boxes kind = iota
	pods
	services
	policies
	kinds // how many there are
)

var kindNames = [kinds]string{sandboxapi.Resource, "pods", "services", "networkpolicies"}

func (k kind) String() string { return kindNames[k] }

// object is what is kept of a watched object.
type object struct {
	kind kind
	// version tells two states of it apart.
	uid, namespace, name, version string
	generation                    int64
	deleting                      bool
	// foreign says that it is a policy, and none of the fence's.
	foreign bool
	// managed says that it has our label. gateway, id and component are what the labels of these names say.
	managed                bool
	gateway, id, component string
	// pair and role are those of a Pod's labels; of others pair is made of id.
	pair, role string
	// ownerName and owner are the name and the uid of the Sandbox that the object says it belongs to.
	ownerName, owner string
	// record is that of a Sandbox; readable says that it is one.
	record   runstate.Record
	readable bool
	// ready says that it is a Pod that is, and shape tells two states of a Pod or Sandbox apart that are not merely further on the way to
	// that, or back; zero when it is not known.
	ready bool
	shape uint64
}

// objectOf takes what is kept from an object's metadata.
func objectOf(k kind, m *metav1.ObjectMeta) object {
	o := object{
		kind: k, uid: string(m.UID), namespace: m.Namespace, name: m.Name, version: m.ResourceVersion, generation: m.Generation,
		deleting: m.DeletionTimestamp != nil,
		managed:  m.Labels[workspace.LabelManagedBy] == workspace.ManagedByOpenShell,
		gateway:  m.Labels[workspace.LabelGatewayID], id: m.Labels[workspace.LabelSandboxID], component: m.Labels[workspace.LabelComponent],
		pair: m.Labels[workspace.LabelBoundaryPair], role: m.Labels[workspace.LabelBoundaryRole],
	}
	if o.pair == "" && o.id != "" {
		o.pair = workspace.Pair(o.id)
	}
	o.foreign = k == policies && o.name != workspace.WorkloadFence && o.name != workspace.SupervisorEgress
	if o.foreign {
		// Of a policy that is not the fence's only what it says matters: others may write to the rest of it as often as they like.
		o.version = fmt.Sprintf("%d %t", o.generation, o.deleting)
	}
	if k == boxes {
		o.record, o.readable = recordOf(m.Annotations)
		o.shape = shapeOf(o.generation, o.deleting, m.Labels, o.record, o.readable,
			m.Annotations[sandboxapi.AnnotationPodName], m.Annotations[workspace.AnnotationSandboxWorkspace])
	} else if owner, err := sandboxapi.OwnerOf(m.OwnerReferences); err == nil {
		o.ownerName, o.owner = owner.Name, owner.UID
	}
	return o
}

// podOf is objectOf of a whole Pod.
func podOf(p *corev1.Pod) object {
	o := objectOf(pods, &p.ObjectMeta)
	says := conduct.PodOf(p)
	spec := p.Spec
	spec.NodeName = "" // where it runs is not what it is
	text, err := spec.Marshal()
	if err != nil {
		return o
	}
	o.ready = says.Ready
	o.shape = shapeOf(o.generation, o.deleting, p.Labels, p.Annotations, p.OwnerReferences, text,
		says.Gated, says.Ended, says.Restarted, says.Cause, says.Hopeless, says.Doomed)
	return o
}

// shapeOf is zero when it cannot be told.
func shapeOf(parts ...any) uint64 {
	h := fnv.New64a()
	if err := json.NewEncoder(h).Encode(parts); err != nil { // of what Kubernetes has decoded it never is
		return 0
	}
	return max(h.Sum64(), 1)
}

// changed is what it means that the object is now, and was former; nil for none.
func (o *object) changed(former *object) kindOfChange {
	switch {
	case o.foreign:
		return distant
	case former != nil && o.shape != 0 && o.shape == former.shape:
		return slight
	case former != nil && o.kind == services:
		return alien
	}
	return weighty
}

// recordOf is the record without what is only kept for restarts, which may be long and says nothing about progress.
func recordOf(annotations map[string]string) (runstate.Record, bool) {
	r, err := runstate.Of(annotations)
	r.MainProcess, r.LogLevel = "", ""
	return r, err == nil
}

// supervises reports whether it is the supervisor Pod of a sandbox of this gateway, by all that it says.
func (o *object) supervises(gateway string) bool {
	return o.kind == pods && o.managed && o.gateway == gateway && o.component == workspace.ComponentSupervisor && o.id != "" && o.owner != ""
}
