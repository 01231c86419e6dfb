package probe

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	// Component is the value of the label component of canaries, by which leftovers are found.
	Component = "fence-canary"
	// LabelProbe names the probe that a canary belongs to.
	LabelProbe = "openshell.ai/fence-probe"

	container = "canary"
	// defaultID is the user and group where nothing else says one (contract 9.4).
	defaultID = 10001
	// grace is how long after its own limit a canary is ended by the kubelet.
	grace = 30 * time.Second
)

// identity is the user and group of the canaries, found as those of sandboxes are (contract 9.4), so that admission treats both alike.
type identity struct{ user, group int64 }

func identityOf(k *driverconf.Kubernetes, annotations map[string]string) identity {
	configured := func(id *uint32) int64 {
		if id == nil || *id > math.MaxInt32 {
			return 0
		}
		return int64(*id)
	}
	var rangeUser, rangeGroup int64
	if k.SandboxUID == nil {
		rangeUser, rangeGroup = start(annotations[workspace.AnnotationUIDRange]), start(annotations[workspace.AnnotationSupplementalGroups])
	}
	user := cmp.Or(configured(k.SandboxUID), rangeUser, defaultID)
	return identity{user: user, group: cmp.Or(configured(k.SandboxGID), rangeGroup, user)}
}

// start is the first id of a range START/SIZE; 0 when it is none.
func start(text string) int64 {
	first, _, _ := strings.Cut(text, "/")
	id, err := strconv.ParseInt(strings.TrimSpace(first), 10, 32)
	if err != nil || id < 1 {
		return 0
	}
	return id
}

// nameOf is the name of a canary.
func nameOf(probe string, role canary.Role) string {
	return "os-fence-canary-" + probe + "-" + string(role)
}

// isCanary reports whether a Pod is what a probe would have made: labels alone may be anybody's.
func isCanary(p *corev1.Pod) bool {
	probe, role := p.Labels[LabelProbe], canary.Role(p.Labels[workspace.LabelBoundaryRole])
	return probe != "" && (role == canary.Workload || role == canary.Supervisor) && p.Name == nameOf(probe, role) && len(p.OwnerReferences) == 0
}

// pod is one canary. The node is empty for the first one, which the scheduler places.
func pod(k *driverconf.Kubernetes, s *Settings, as identity, namespace, node string, p *canary.Plan) (*corev1.Pod, error) {
	text, err := p.Encode()
	if err != nil {
		return nil, err
	}
	limit := time.Duration(p.Limit)*time.Millisecond + grace
	rendered := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: nameOf(p.Probe, p.Role),
			Labels: map[string]string{
				workspace.LabelBoundaryRole: string(p.Role),
				workspace.LabelComponent:    Component,
				workspace.LabelGatewayID:    k.GatewayID,
				LabelProbe:                  p.Probe,
			},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         new(int64(math.Ceil(limit.Seconds()))),
			TerminationGracePeriodSeconds: new(int64(2)),
			ServiceAccountName:            k.ServiceAccountName,
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			ImagePullSecrets:              pullSecrets(k),
			Affinity:                      at(node),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(as.user), RunAsGroup: new(as.group),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: container, Image: s.Image, ImagePullPolicy: corev1.PullPolicy(s.PullPolicy),
				Args: []string{"fence", "canary", text},
				// A quota may ask for both, of every Pod.
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
					Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
				},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				// What a program says that is not ours, or could not start, is in the Pod's status then.
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			}},
		},
	}
	return rendered, nil
}

// pullSecrets are named where the platform has put them. In managed mode they are copied for each run of a sandbox, so a canary has
// none (contract 9.5).
func pullSecrets(k *driverconf.Kubernetes) []corev1.LocalObjectReference {
	if k.WorkspaceMode == driverconf.ModeManaged {
		return nil
	}
	var references []corev1.LocalObjectReference
	for _, name := range k.ImagePullSecrets {
		references = append(references, corev1.LocalObjectReference{Name: name})
	}
	return references
}

// at places a Pod on a node by way of the scheduler, which knows whether there is room.
func at(node string) *corev1.Affinity {
	if node == "" {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}}}
}

// altered says what admission changed of a canary that the probe rests on; empty when nothing.
func altered(made, wanted *corev1.Pod) string {
	pair, paired := made.Labels[workspace.LabelBoundaryPair]
	for key, value := range maps.All(wanted.Labels) {
		if made.Labels[key] != value {
			return fmt.Sprintf("label %s is %.80q, and must be %q", key, made.Labels[key], value)
		}
	}
	m, w := &made.Spec, &wanted.Spec
	switch {
	case paired:
		return fmt.Sprintf("label %s is %.80q, and must not be set", workspace.LabelBoundaryPair, pair)
	case m.HostNetwork || m.HostPID || m.HostIPC:
		return "it has the network, the processes or the memory of its node"
	case len(m.InitContainers) > 0 || len(m.Containers) != 1:
		return fmt.Sprintf("it has %d init containers and %d containers, and must have one container", len(m.InitContainers), len(m.Containers))
	case m.Containers[0].Image != w.Containers[0].Image || len(m.Containers[0].Command) > 0 || !slices.Equal(m.Containers[0].Args, w.Containers[0].Args):
		return "its container runs another program"
	case len(m.Volumes) > 0:
		return fmt.Sprintf("it has volume %.80q, and must have none", m.Volumes[0].Name)
	case m.RestartPolicy != w.RestartPolicy:
		return fmt.Sprintf("its restartPolicy is %.40s", m.RestartPolicy)
	}
	return ""
}
