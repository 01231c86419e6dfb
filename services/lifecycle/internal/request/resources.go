package request

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/excerpt"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// maxResources is how many kinds one list may have.
const maxResources = 32

// amount is a quantity and the path of the field that it was taken from.
type amount struct {
	resource.Quantity
	path string
}

// amounts are one list of resources.
type amounts map[corev1.ResourceName]amount

// fill adds what is not there yet.
func (a amounts) fill(from amounts) {
	for kind, one := range from {
		if _, there := a[kind]; !there {
			a[kind] = one
		}
	}
}

// list is nil when there are none.
func (a amounts) list() corev1.ResourceList {
	if len(a) == 0 {
		return nil
	}
	out := make(corev1.ResourceList, len(a))
	for kind, one := range a {
		out[kind] = one.DeepCopy()
	}
	return out
}

// resources merges what the contract has in four places (11.1, 11.2): the typed fields, the graphics processors, the gateway's
// raw list and the caller's. What is there stays.
func (c *reading) resources(typed *computev1.DriverResourceRequirements, gpu *computev1.GpuResourceRequirements, platform, caller config) {
	const path = "sandbox.spec.template.resources"
	limits, requests := amounts{}, amounts{}
	for _, f := range []struct {
		field, text string
		kind        corev1.ResourceName
		into        amounts
	}{
		{"cpu_limit", typed.GetCpuLimit(), corev1.ResourceCPU, limits},
		{"memory_limit", typed.GetMemoryLimit(), corev1.ResourceMemory, limits},
		{"cpu_request", typed.GetCpuRequest(), corev1.ResourceCPU, requests},
		{"memory_request", typed.GetMemoryRequest(), corev1.ResourceMemory, requests},
	} {
		if f.text == "" {
			continue
		}
		q, problem := quantity(f.kind, f.text)
		if problem == "" && q.IsZero() && strings.HasSuffix(f.field, "_limit") {
			problem = limitOfZero
		}
		if problem != "" {
			c.invalid(path+"."+f.field, "%s", problem)
			continue
		}
		f.into[f.kind] = amount{q, path + "." + f.field}
	}
	for _, kind := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if limit, ok := limits[kind]; ok {
			requests.fill(amounts{kind: limit})
		}
	}
	c.gpu(gpu, limits)
	for _, layer := range []config{platform, caller} {
		limits.fill(layer.limits)
		requests.fill(layer.requests)
	}
	c.consistent(limits, requests)
	c.spec.Resources.Limits, c.spec.Resources.Requests = limits.list(), requests.list()
	q := limits[GPUResource]
	c.spec.GPU = !q.IsZero()
}

func (c *reading) gpu(gpu *computev1.GpuResourceRequirements, limits amounts) {
	const path = "sandbox.spec.resource_requirements.gpu"
	if gpu == nil {
		return
	}
	count := uint32(1)
	if gpu.Count != nil {
		count = gpu.GetCount()
	}
	if count == 0 {
		c.invalid(path+".count", "gpu count must be greater than 0")
		return
	}
	limits[GPUResource] = amount{*resource.NewQuantity(int64(count), resource.DecimalSI), path}
}

// quantities reads one list of the raw resources. A number is taken as its decimal text, as the API server takes it.
func (c *reading) quantities(path string, v *structpb.Value, limit bool) amounts {
	members := c.object(path, v)
	if len(members) > maxResources {
		c.invalid(path, "has %d entries, and at most %d are allowed", len(members), maxResources)
		return nil
	}
	out := amounts{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		kind, at := corev1.ResourceName(name), at(path, name)
		if problem := resourceName(kind); problem != "" {
			c.invalid(at, "%s", problem)
			continue
		}
		if extended(kind) && kind != GPUResource && !slices.Contains(c.reader.settings.AllowedExtendedResources, name) {
			c.add(verdict.AttachmentForbidden, at, "is an extended resource that allowed_extended_resources does not name")
			continue
		}
		var text string
		switch value := members[name].GetKind().(type) {
		case *structpb.Value_StringValue:
			text = value.StringValue
		case *structpb.Value_NumberValue:
			text = strconv.FormatFloat(value.NumberValue, 'f', -1, 64)
		default:
			c.invalid(at, "must be a quantity and is %s", kindOf(members[name]))
			continue
		}
		q, problem := quantity(kind, text)
		if problem == "" && limit && q.IsZero() && !extended(kind) {
			problem = limitOfZero
		}
		if problem != "" {
			c.invalid(at, "%s", problem)
			continue
		}
		out[kind] = amount{q, at}
	}
	return out
}

// consistent finds what the API server would refuse of the lists together. The path is that of the request, wherever it came from.
func (c *reading) consistent(limits, requests amounts) {
	for _, kind := range slices.Sorted(maps.Keys(requests)) {
		request := requests[kind]
		limit, limited := limits[kind]
		switch {
		case !limited && whole(kind):
			c.invalid(request.path, "is a request without a limit: they must be equal")
		case limited && whole(kind) && request.Cmp(limit.Quantity) != 0:
			c.invalid(request.path, "is a request that is not its limit, %s", limit.path)
		case limited && request.Cmp(limit.Quantity) > 0:
			c.invalid(request.path, "is a request that is greater than its limit, %s", limit.path)
		}
	}
	has := func(kind corev1.ResourceName) bool { return there(limits, kind) || there(requests, kind) }
	for _, kind := range slices.Sorted(maps.Keys(limits)) {
		if strings.HasPrefix(string(kind), hugePages) && !has(corev1.ResourceCPU) && !has(corev1.ResourceMemory) {
			c.invalid(limits[kind].path, "are huge pages, which need cpu or memory beside them")
			return
		}
	}
}

func there(list amounts, kind corev1.ResourceName) bool {
	_, ok := list[kind]
	return ok
}

// NodeOffersGPU reports whether a node counts as one with graphics processors (contract 11.2): it says that it has some to
// allocate. Whether they are free is the scheduler's to find out.
func NodeOffersGPU(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	q, there := node.Status.Allocatable[GPUResource]
	return there && !q.IsZero()
}

// JudgeGPU is the answer to a request with Spec.GPU: whether some node offers one, as far as the nodes could be read.
func JudgeGPU(offered bool, err error) verdict.Decision {
	const step = "gpu"
	switch {
	case offered:
		return verdict.Grant(verdict.Evidence{})
	case err != nil:
		return verdict.Refuse(verdict.GPUUnreadable, step, excerpt.Of("the nodes could not be listed: "+err.Error(), maxProblem))
	default:
		return verdict.Refuse(verdict.GPUAbsent, step, "no node has "+string(GPUResource)+" to allocate")
	}
}
