package supervisor

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Mode is a workspace mode, as the settings spell it.
type Mode string

// The modes (contract 4.1).
const (
	Operator Mode = "operator"
	Shared   Mode = "shared"
	Managed  Mode = "managed"
)

// Setup is what the settings say of the mode and of Secrets that others make.
type Setup struct {
	Mode Mode
	// ClientTLS is client_tls_secret_name, and PullSecrets are image_pull_secrets.
	ClientTLS   string
	PullSecrets []string
}

// lines are those of the stock table.
func (s Setup) lines() string {
	lines := []string{fmt.Sprintf("workspace_mode = %q", s.Mode)}
	if s.Mode == Operator {
		lines = append(lines, `operator_namespace_label = "portcullis.test/workspace=true"`)
	}
	if s.ClientTLS != "" {
		lines = append(lines, fmt.Sprintf("client_tls_secret_name = %q", s.ClientTLS))
	}
	if len(s.PullSecrets) > 0 {
		lines = append(lines, fmt.Sprintf(`image_pull_secrets = ["%s"]`, strings.Join(s.PullSecrets, `", "`)))
	}
	return strings.Join(lines, "\n")
}

// sourced are the Secrets that the daemon reads (contract 9.5).
func (s Setup) sourced() []string {
	var names []string
	if s.Mode != Shared && s.ClientTLS != "" {
		names = append(names, s.ClientTLS)
	}
	if s.Mode == Managed {
		names = append(names, s.PullSecrets...)
	}
	return names
}

// sources is the setting namespace.
func (s *Site) sources() string {
	if s.Mode == Shared {
		return s.shared
	}
	return s.home
}

// owned are the labels of a namespace of the gateway's own making (contract 9.1), and further ones.
func (s *Site) owned(namespace string, labels map[string]string) map[string]string {
	if s.Mode != Managed {
		return labels
	}
	all := map[string]string{
		"openshell.ai/managed-by": "openshell", "openshell.ai/gateway-id": s.GatewayID, "openshell.ai/sandbox-workspace": s.workspace(namespace),
	}
	maps.Copy(all, labels)
	return all
}

// desk is the workspace of shared mode.
const desk = "desk"

// workspace is the one whose sandboxes are in a namespace (contract 4.1).
func (s *Site) workspace(namespace string) string {
	switch s.Mode {
	case Shared:
		return desk
	case Managed:
		return strings.TrimPrefix(namespace, s.prefix)
	default:
		return namespace
	}
}

// named is the Sandbox object's name, and short the gateway's of the same (contract 4.1).
func (s *Site) named(b *Box) string {
	name := "box-" + b.ID[:8]
	if s.Mode == Shared {
		return desk + "--" + name
	}
	return name
}

func (b *Box) short() string {
	if b.site.Mode == Shared {
		return strings.TrimPrefix(b.Name, desk+"--")
	}
	return b.Name
}

// PullNames are the names of the pull Secrets that both Pods of a run refer to, in order (contract 9.5).
func (b *Box) PullNames(generation string) []string {
	if b.site.Mode != Managed {
		return b.site.PullSecrets
	}
	return b.Copies(generation)
}

// Copies are the names of the copies of pull Secrets that a run has.
func (b *Box) Copies(generation string) []string {
	var names []string
	if b.site.Mode == Managed {
		for i := range b.site.PullSecrets {
			names = append(names, fmt.Sprintf("%s-%d", b.SecretName("pull", generation), i))
		}
	}
	return names
}

func references(names []string) (all []corev1.LocalObjectReference) {
	for _, name := range names {
		all = append(all, corev1.LocalObjectReference{Name: name})
	}
	return all
}
