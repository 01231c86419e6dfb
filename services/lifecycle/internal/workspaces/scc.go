package workspaces

import (
	"fmt"
	"strings"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// SCC is how a managed namespace comes by its ranges on OpenShift. The zero SCC is invalid.
type SCC string

// The values of the setting openshift_scc.
const (
	// SCCCopy copies the ranges of the source namespace onto a new one.
	SCCCopy SCC = "copy"
	// SCCAllocate waits for the cluster's allocator.
	SCCAllocate SCC = "allocate"
)

// The annotations of the allocator (contract 9.3).
const (
	uidRange           = workspace.AnnotationUIDRange
	supplementalGroups = workspace.AnnotationSupplementalGroups
	selinuxLabel       = "openshift.io/sa.scc.mcs"
)

// Valid reports whether s is one of the two.
func (s SCC) Valid() bool { return s == SCCCopy || s == SCCAllocate }

// copied are the annotations that a new namespace gets.
func (s SCC) copied(source map[string]string) map[string]string {
	if s != SCCCopy {
		return nil
	}
	var out map[string]string
	for _, key := range []string{uidRange, supplementalGroups} {
		if value, ok := source[key]; ok {
			if out == nil {
				out = make(map[string]string, 2)
			}
			out[key] = value
		}
	}
	return out
}

// allocation is whether a namespace has the ranges that its sandboxes take their identity from.
type allocation uint8

const (
	// allocationPending: they may still come.
	allocationPending allocation = iota
	// allocationDone: there is nothing to wait for.
	allocationDone
	// allocationPrevented: they do not come by themselves.
	allocationPrevented
)

// allocated says how far it is, given the source's annotations: without any of the three there is no allocator (contract 9.3). When it is
// not done, the text says of the namespace why. Sandboxes of a namespace without ranges would run as the default user (contract 9.4), so
// it is not done without them whatever s is.
func (s SCC) allocated(source, have map[string]string) (allocation, string) {
	if !hasAny(source, uidRange, supplementalGroups, selinuxLabel) {
		return allocationDone, ""
	}
	if s != SCCAllocate {
		return copiedWhole(source, have)
	}
	missing := lacking(have, uidRange, supplementalGroups, selinuxLabel)
	if len(missing) == 0 {
		return allocationDone, ""
	}
	if hasAny(have, uidRange) && !hasAny(have, selinuxLabel) {
		return allocationPrevented, fmt.Sprintf("has %s and no %s, so the cluster's allocator passes it over; somebody, or this driver with"+
			" openshift_scc = %q, set the range: delete the namespace and let it be made again", uidRange, selinuxLabel, SCCCopy)
	}
	return allocationPending, "lacks " + strings.Join(missing, ", ")
}

// copiedWhole is allocated for ranges that are copied when the namespace is made, and at no other time. Ranges that the allocator gave are as good.
func copiedWhole(source, have map[string]string) (allocation, string) {
	needed := []string{uidRange}
	if hasAny(source, supplementalGroups) {
		needed = append(needed, supplementalGroups)
	}
	missing := lacking(have, needed...)
	switch {
	case len(missing) == 0:
		return allocationDone, ""
	case !hasAny(source, uidRange):
		return allocationPrevented, fmt.Sprintf("lacks %s, and openshift_scc = %q cannot copy it: the source namespace lacks it too", uidRange, SCCCopy)
	}
	return allocationPrevented, fmt.Sprintf("lacks %s, which openshift_scc = %q gives a namespace only when it makes it: delete the namespace and let it be made again",
		strings.Join(missing, ", "), SCCCopy)
}

func lacking(have map[string]string, keys ...string) (missing []string) {
	for _, key := range keys {
		if !hasAny(have, key) {
			missing = append(missing, key)
		}
	}
	return missing
}

func hasAny(of map[string]string, keys ...string) bool {
	for _, key := range keys {
		if _, ok := of[key]; ok {
			return true
		}
	}
	return false
}
