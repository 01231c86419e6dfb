package sandboxapi

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Owner is the Sandbox that a Pod belongs to, as the Pod says.
type Owner struct {
	// Version through which the Sandbox is to be read.
	Version Version
	// Name is one that a Sandbox can have, a DNS-1123 subdomain; UID is not empty.
	Name, UID string
	// Controller is true on the Pod that the Agent Sandbox controller made, and false on the supervisor Pod (contract 7.1).
	Controller bool
}

// The ways in which owner references lead to no Sandbox.
var (
	// ErrNoOwner: no reference is to a Sandbox of a known version.
	ErrNoOwner = errors.New("no owner is a Sandbox")
	// ErrManyOwners: more than one is, so the Pod belongs to none for certain. That they are equal changes nothing.
	ErrManyOwners = errors.New("more than one owner is a Sandbox")
	// ErrOwnerIncomplete: the reference has no name or no uid.
	ErrOwnerIncomplete = errors.New("the owning Sandbox has no name or no uid")
	// ErrOwnerName: no object can have the name in the reference, which whoever makes the Pod writes and nobody checks.
	ErrOwnerName = errors.New("the owning Sandbox has a name that no object can have")
)

// OwnerOf finds the one owner with kind Sandbox and a known version of our group (contract 6.1 step 14). Owners of other
// kinds do not count. Whether the owner must be the controller depends on the Pod's role and is the caller's to judge.
func OwnerOf(references []metav1.OwnerReference) (Owner, error) {
	var found []Owner
	for i := range references {
		r := &references[i]
		version, known := VersionOf(r.APIVersion)
		if r.Kind != Kind || !known {
			continue
		}
		found = append(found, Owner{
			Version: version, Name: r.Name, UID: string(r.UID), Controller: r.Controller != nil && *r.Controller,
		})
	}
	switch {
	case len(found) == 0:
		return Owner{}, ErrNoOwner
	case len(found) > 1:
		return Owner{}, fmt.Errorf("%w: %d are", ErrManyOwners, len(found))
	case found[0].Name == "" || found[0].UID == "":
		return Owner{}, ErrOwnerIncomplete
	case len(validation.IsDNS1123Subdomain(found[0].Name)) > 0:
		return Owner{}, ErrOwnerName
	}
	return found[0], nil
}
