package contract

import (
	"fmt"
	"slices"
	"strings"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// Prefix is the first part of the contract's package names. The zero value is no prefix and is
// refused everywhere.
type Prefix string

const (
	// OpenShell is the prefix of every released gateway, and the one in the generated code.
	OpenShell Prefix = "openshell"
	// Ryno is the prefix in the newest stored copy of the contract (contract 0.2).
	Ryno Prefix = "ryno"
)

// Prefixes lists the prefixes that can be served and called.
func Prefixes() []Prefix { return []Prefix{OpenShell, Ryno} }

// ParsePrefix returns the prefix that s names, or an error that lists the known ones.
func ParsePrefix(s string) (Prefix, error) {
	if p := Prefix(s); p.known() {
		return p, nil
	}
	return "", fmt.Errorf("service prefix %q is not known: use one of %q", s, Prefixes())
}

// ServiceName returns the full name of the ComputeDriver service under p.
func (p Prefix) ServiceName() string {
	return string(p) + strings.TrimPrefix(computev1.ComputeDriver_ServiceDesc.ServiceName, string(OpenShell))
}

// FullMethod returns the path of a method of the service under p, for example
// "/ryno.compute.v1.ComputeDriver/GetSandbox".
func (p Prefix) FullMethod(method string) string {
	return "/" + p.ServiceName() + "/" + method
}

// Canonical returns the path under which the generated code knows a method: a method of the service
// under any known prefix gets the prefix of the generated constants, every other path is returned
// as it is. Interceptors that decide by method must compare this, since they see the path that was
// called.
func Canonical(fullMethod string) string {
	for _, p := range Prefixes() {
		if method, ok := strings.CutPrefix(fullMethod, p.FullMethod("")); ok {
			return OpenShell.FullMethod(method)
		}
	}
	return fullMethod
}

func (p Prefix) known() bool { return slices.Contains(Prefixes(), p) }
