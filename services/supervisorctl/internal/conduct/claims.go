package conduct

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// mostClaims is how many claims of a Pod are named.
const mostClaims = 4

// claimsOf names the claims that a Pod waits for, and the StorageClass of the one that is made for it: the scheduler's words name neither.
// Why a claim is not bound the cluster says at the claim alone, which we may not read.
func (r *round) claimsOf(found *corev1.Pod) string {
	var said []string
	total := 0
	for i := range found.Spec.Volumes {
		v := &found.Spec.Volumes[i]
		if v.PersistentVolumeClaim == nil {
			continue
		}
		if total++; total > mostClaims {
			continue
		}
		claim := v.PersistentVolumeClaim.ClaimName
		if v.Name != workspace.ClaimTemplate {
			said = append(said, fmt.Sprintf("the claim %s", claim))
			continue
		}
		class := "of the cluster's default StorageClass, if there is one"
		if name := r.settings.WorkspaceStorageClass; name != "" {
			class = fmt.Sprintf("of the StorageClass %s that workspace_storage_class names, if it exists", name)
		}
		said = append(said, fmt.Sprintf("the workspace's claim %s %s", claim, class))
	}
	if total > mostClaims {
		said = append(said, fmt.Sprintf("%d more", total-mostClaims))
	}
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("; it waits for %s; kubectl describe pvc -n %s says why", strings.Join(said, ", "), cmp.Or(found.Namespace, r.goal.Ref.Namespace))
}
