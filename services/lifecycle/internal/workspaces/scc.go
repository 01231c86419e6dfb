package workspaces

import (
	"fmt"
	"strings"
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
	uidRange           = "openshift.io/sa.scc.uid-range"
	supplementalGroups = "openshift.io/sa.scc.supplemental-groups"
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

// allocation is how far the allocator has come with a namespace.
type allocation uint8

const (
	// allocationPending: it may still come.
	allocationPending allocation = iota
	// allocationDone: there is nothing to wait for.
	allocationDone
	// allocationPrevented: a uid range stands there without the SELinux label, so the allocator passes the namespace over.
	allocationPrevented
)

// allocated says how far it is, given the source's annotations: without any of the three there is no allocator (contract 9.3).
func (s SCC) allocated(source, have map[string]string) (allocation, string) {
	if s != SCCAllocate || !hasAny(source, uidRange, supplementalGroups, selinuxLabel) {
		return allocationDone, ""
	}
	var missing []string
	for _, key := range []string{uidRange, supplementalGroups, selinuxLabel} {
		if _, ok := have[key]; !ok {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return allocationDone, ""
	}
	if _, ranged := have[uidRange]; ranged && missing[len(missing)-1] == selinuxLabel {
		return allocationPrevented, fmt.Sprintf("it has %s and no %s, so the cluster's allocator passes it over; somebody, or this driver with"+
			" openshift_scc = %q, set the range: delete the namespace and let it be made again", uidRange, selinuxLabel, SCCCopy)
	}
	return allocationPending, "it lacks " + strings.Join(missing, ", ")
}

func hasAny(of map[string]string, keys ...string) bool {
	for _, key := range keys {
		if _, ok := of[key]; ok {
			return true
		}
	}
	return false
}
