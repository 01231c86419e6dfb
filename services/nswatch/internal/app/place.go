package app

import (
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/leadership"
)

// place is what follows from where this process runs.
type place struct {
	// identity is this process in the Lease and in records.
	identity string
	// lease has the name and the namespace of the Lease filled in.
	lease leadership.Settings
	// refusals are what is always refused, the mesh's own namespaces, and the configured ones (rule W7).
	refusals allowlist.Refusals
}

// alwaysRefused are the namespaces of Kubernetes itself, which no setting lets in (rule W7).
const alwaysRefused = "kube-*"

func findPlace(s *Settings, gatewayID string, lookupEnv func(string) (string, bool), mount string) (place, error) {
	p := place{lease: s.Own.Settings}
	own, err := leadership.PodNamespace(lookupEnv, mount)
	if p.lease.LeaseNamespace == "" {
		if err != nil {
			return place{}, fmt.Errorf("%s is empty and this process is in no Pod (%w); name the namespace of the Lease", keyNamespace, err)
		}
		p.lease.LeaseNamespace = own
	}
	if p.lease.LeaseName == "" {
		p.lease.LeaseName = leadership.DefaultLeaseName(Name, gatewayID)
	}
	refused := append(slices.Clone(s.Allowlist.RefusedNamespaces), alwaysRefused, p.lease.LeaseNamespace)
	if own != "" {
		refused = append(refused, own)
	}
	if p.refusals, err = allowlist.ParseRefusals(refused...); err != nil {
		return place{}, fmt.Errorf("namespaces that are never published: %w", err)
	}
	p.identity, err = leadership.NewIdentity(Name, leadership.PodName(lookupEnv), rand.Reader)
	return p, err
}
