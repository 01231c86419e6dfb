package sandboxapi

import "k8s.io/apimachinery/pkg/runtime/schema"

// Names of the resource (contract 8.1).
const (
	Group    = "agents.x-k8s.io"
	Kind     = "Sandbox"
	Resource = "sandboxes"
)

// AnnotationPodName on a Sandbox names its workload Pod where that is not the Sandbox's own name (contract 8.4).
const AnnotationPodName = Group + "/pod-name"

// Version is a version of the resource. The zero value is none.
type Version string

// The versions that exist (contract 8.1), the preferred one first.
const (
	V1beta1  Version = "v1beta1"
	V1alpha1 Version = "v1alpha1"
)

// Versions lists them in the order in which to look for a served one. The slice is the caller's own.
func Versions() []Version { return []Version{V1beta1, V1alpha1} }

// Known reports whether v is one of the versions.
func (v Version) Known() bool { return v == V1beta1 || v == V1alpha1 }

// APIVersion is the group and the version, as in an object's apiVersion. Empty when v is not known.
func (v Version) APIVersion() string {
	if !v.Known() {
		return ""
	}
	return Group + "/" + string(v)
}

// GroupVersionResource is for clients that are told the resource. The zero value when v is not known.
func (v Version) GroupVersionResource() schema.GroupVersionResource {
	if !v.Known() {
		return schema.GroupVersionResource{}
	}
	return schema.GroupVersionResource{Group: Group, Version: string(v), Resource: Resource}
}

// VersionOf reads an apiVersion exactly. False for another group and for a version that is not known.
func VersionOf(apiVersion string) (Version, bool) {
	for _, v := range Versions() {
		if apiVersion == v.APIVersion() {
			return v, true
		}
	}
	return "", false
}
