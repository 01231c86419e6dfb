package admitted

import (
	"errors"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Expected is what the Pod of one run must be. The zero value admits none.
type Expected struct {
	// Namespace and Name of the Pod; the name is the Sandbox object's, or what its annotation agents.x-k8s.io/pod-name says.
	Namespace, Name string
	// SandboxName and SandboxUID are those of the Sandbox object, which controls the Pod.
	SandboxName string
	SandboxUID  types.UID
	// ID is the gateway's id of the sandbox.
	ID string
	// User and Group are the identity of contract 9.4, from 1 to 2147483647.
	User, Group uint32
	// Secret is the name of the bootstrap Secret of this run: workspace.SandboxSecret.
	Secret string
	// ServiceAccount is the setting service_account_name.
	ServiceAccount string
	// PullSecrets are the names that were rendered, in order. Empty accepts those of the ServiceAccount.
	PullSecrets []string
	// Claims are the volumes of the template that the caller asked for, by name, with the claims that they mount. The volume
	// of the workspace is not among them. See ClaimsOf.
	Claims map[string]string
	// HostGatewayIP is the setting host_gateway_ip; empty when there is none.
	HostGatewayIP string
	// RuntimeClass is the rendered one; empty for none.
	RuntimeClass string
	// UserNamespace says that hostUsers: false was rendered.
	UserNamespace bool
}

// ClaimsOf reads Expected.Claims from the volumes of a Sandbox's podTemplate: all that are not the driver's own. One that is
// no claim is an error; the template was changed then, since no other kind is ever rendered for a caller (contract 11.5).
func ClaimsOf(template []corev1.Volume) (map[string]string, error) {
	claims := map[string]string{}
	for _, v := range template {
		if _, own := ownVolumes[v.Name]; own {
			continue
		}
		if v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName == "" {
			return nil, fmt.Errorf("volume %.80q of the pod template is neither the driver's own nor a claim", v.Name)
		}
		claims[v.Name] = v.PersistentVolumeClaim.ClaimName
	}
	return claims, nil
}

func (e *Expected) check() error {
	for _, f := range []struct{ field, value string }{
		{"namespace", e.Namespace},
		{"name", e.Name},
		{"sandbox name", e.SandboxName},
		{"sandbox uid", string(e.SandboxUID)},
		{"secret", e.Secret},
		{"service account", e.ServiceAccount},
	} {
		if f.value == "" {
			return fmt.Errorf("no %s is expected", f.field)
		}
	}
	if err := workspace.CheckSandboxID(e.ID); err != nil {
		return err
	}
	if e.User < 1 || e.User > math.MaxInt32 || e.Group < 1 || e.Group > math.MaxInt32 {
		return errors.New("no user and group are expected that a Pod can have")
	}
	for name := range e.Claims {
		if _, own := ownVolumes[name]; own {
			return fmt.Errorf("volume %s is expected to be a claim, and its name is reserved", name)
		}
	}
	return nil
}
