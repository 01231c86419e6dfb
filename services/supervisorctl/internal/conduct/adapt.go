package conduct

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/admitted"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/fence"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// facts is what was seen, in the planner's words.
func (r *round) facts() plan.Facts {
	s, box := &r.seen, r.sandbox()
	f := plan.Facts{
		Now: time.Now(), Acknowledged: r.settings.SandboxRuntime.NetworkPolicyEnforced, Attempt: r.attempt,
		Sandbox:    known(s.box, func(o *sandboxapi.Object) sandboxapi.Object { return *o }),
		Service:    known(s.service, func(found *corev1.Service) plan.Service { return r.serviceOf(found, box) }),
		Supervisor: known(s.supervisor, func(found *corev1.Pod) plan.Pod { return r.supervisorOf(found, box) }),
		Workload:   known(s.workload, r.workloadOf),
	}
	f.WorkloadFence, f.SupervisorFence = r.policies()
	if o := s.box.value; o != nil {
		if err := workspace.SchemeOf(&r.settings).Placed(o.Namespace, o.Labels, o.Annotations); err != nil {
			f.Misplaced = err.Error()
		}
		if record, err := runstate.Of(o.Annotations); err == nil {
			// What was measured of another record says nothing about this one, however late that is noticed.
			if still := record; r.goal.Idle > 0 {
				still.MainProcess, still.LogLevel = "", ""
				if still == r.goal.Still {
					f.Idle, f.Witnessed = r.goal.Idle, r.goal.Witnessed
				}
			}
			f.Attempt.MayTake = record.Attempt == r.attempt.ID || r.watched.mayTake(r.process, o.UID, record.Attempt, record.WorkloadUID)
		}
	}
	return f
}

func (r *round) policies() (workloads, supervisors plan.Known[plan.Policy]) {
	wanted, err := fence.Render(r.goal.Ref.Namespace, r.settings.SandboxRuntime.BoundaryPort)
	if err != nil {
		return plan.Failed[plan.Policy](err), plan.Failed[plan.Policy](err)
	}
	against := func(wanted *networkingv1.NetworkPolicy) func(*networkingv1.NetworkPolicy) plan.Policy {
		return func(found *networkingv1.NetworkPolicy) plan.Policy {
			finding := fence.Compare(found, wanted)
			p := plan.Policy{Difference: finding.Difference, UID: string(found.UID), Generation: found.Generation}
			switch finding.State {
			case fence.Standing:
				p.Standing = plan.Stands
			case fence.Foreign:
				p.Standing = plan.Foreign
			default:
				p.Standing = plan.Altered
			}
			// Of a policy the cluster records when it was made and when it is to go, and no change in between.
			switch {
			case found.DeletionTimestamp != nil:
				p.Since = found.DeletionTimestamp.Time
			case found.Generation == 1 && p.Standing == plan.Stands:
				p.Since = found.CreationTimestamp.Time
			}
			return p
		}
	}
	return known(r.seen.fence, against(wanted.Workloads)), known(r.seen.egress, against(wanted.Supervisors))
}

// openings are the policies that open the fence of this workload again; not known when nobody looked. Before there is a Pod, its template
// says which labels it will have.
func (r *round) openings() plan.Known[[]plan.Opening] {
	s := &r.seen
	if s.all.err != nil {
		return plan.Failed[[]plan.Opening](s.all.err)
	}
	if s.all.value == nil || s.box.value == nil {
		return plan.Known[[]plan.Opening]{}
	}
	labels := s.box.value.Template.Labels
	if pod := s.workload.value; pod != nil {
		labels = pod.Labels
	}
	var all []plan.Opening
	for _, o := range fence.Reopened(*s.all.value, r.settings.SandboxRuntime.BoundaryPort, labels) {
		if o.Policy == workspace.WorkloadFence || o.Policy == workspace.SupervisorEgress {
			continue // whether these are what they must be is judged by more than what they open
		}
		all = append(all, plan.Opening{Policy: o.Policy, UID: string(o.UID), Opens: short(o.String())})
	}
	return plan.Found(all)
}

// sandbox is the run as companions are rendered from it: that of the goal, or else of the record.
func (r *round) sandbox() companion.Sandbox {
	generation := r.goal.Want.Named(r.course().record).Run.Generation
	if o := r.seen.box.value; o != nil && (r.goal.Goal == plan.Keep || generation == "") {
		generation = o.Annotations[workspace.AnnotationGeneration]
	}
	return r.sandboxOf(generation)
}

// sandboxOf is the zero Sandbox, from which nothing is rendered, when there is none or another one has its name.
func (r *round) sandboxOf(generation string) companion.Sandbox {
	o := r.seen.box.value
	if o == nil || o.UID != r.goal.Ref.UID {
		return companion.Sandbox{}
	}
	user, group := identity(&o.Template.Spec)
	return companion.Sandbox{
		ID: o.Labels[workspace.LabelSandboxID], Name: o.Labels[workspace.LabelSandboxName], Workspace: o.Labels[workspace.LabelSandboxWorkspace],
		Namespace: o.Namespace, ObjectName: o.Name, UID: types.UID(o.UID), Version: o.Version,
		Generation: generation, User: user, Group: group,
		MainProcess: o.Annotations[workspace.AnnotationMainProcessSpec], LogLevel: o.Annotations[workspace.AnnotationLogLevel],
		TraceParent: o.Annotations[workspace.AnnotationTraceContext],
	}
}

// identity is what the template runs as (contract 7.5, 9.4); zero when it does not say or cannot be.
func identity(pod *corev1.PodSpec) (user, group uint32) {
	number := func(id *int64) uint32 {
		if id == nil || *id < 1 || *id > 1<<31-1 {
			return 0
		}
		return uint32(*id)
	}
	if c := pod.SecurityContext; c != nil {
		return number(c.RunAsUser), number(c.RunAsGroup)
	}
	return 0, 0
}

func ownership(c companion.Comparison) plan.Ownership {
	switch c.Relation {
	case companion.Same, companion.Leaving:
		return plan.OfThisRun
	case companion.Altered, companion.OtherRun:
		return plan.OfAnotherRun
	default:
		return plan.Theirs
	}
}

// differs is what is said of a Pod that compares so. One of another run goes on being one that ended, or is not ready, for its own reasons.
func differs(detail string, c companion.Comparison) string {
	if detail != "" && ownership(c) == plan.OfAnotherRun {
		return detail + "; " + c.Difference
	}
	return cmp.Or(c.Difference, detail)
}

func (r *round) serviceOf(found *corev1.Service, box companion.Sandbox) plan.Service {
	s := plan.Service{UID: string(found.UID), Deleting: found.DeletionTimestamp != nil}
	if wanted, err := r.renderer.Service(box); err == nil {
		c := r.service.of(&found.ObjectMeta, box, func() companion.Comparison { return companion.CompareService(found, wanted) })
		s.Ownership, s.Detail = ownership(c), c.Difference
	} else {
		s.Ownership, s.Detail = r.owned(&found.ObjectMeta), err.Error()
	}
	if address, err := companion.ClusterIP(found); err == nil {
		s.ClusterIP = address.String()
	}
	return s
}

func (r *round) supervisorOf(found *corev1.Pod, box companion.Sandbox) plan.Pod {
	p := PodOf(found)
	if wanted, err := r.renderer.SupervisorPod(box); err == nil {
		c := r.supervisor.of(&found.ObjectMeta, box, func() companion.Comparison { return companion.CompareSupervisor(found, wanted) })
		p.Ownership, p.Detail = ownership(c), differs(p.Detail, c)
	} else {
		p.Ownership, p.Detail = r.owned(&found.ObjectMeta), err.Error()
	}
	if !p.Gated {
		p.Altered = r.altered(found, workspace.RoleSupervisor)
	}
	return p
}

// owned is whose an object is when nothing can be rendered to compare it with: by the uid of its owner alone, or, of a Sandbox
// that is gone and whose uid nobody remembers, by its labels.
func (r *round) owned(m *metav1.ObjectMeta) plan.Ownership {
	ref := r.goal.Ref
	owner, err := sandboxapi.OwnerOf(m.OwnerReferences)
	switch {
	case err != nil || owner.Name != ref.Name || m.Labels[workspace.LabelManagedBy] != workspace.ManagedByOpenShell || m.Labels[workspace.LabelSandboxID] != ref.SandboxID:
		return plan.Theirs
	case ref.UID != "" && owner.UID != ref.UID:
		return plan.Theirs
	case ref.UID == "" && r.seen.box.value != nil:
		return plan.Theirs
	}
	return plan.OfAnotherRun
}

func (r *round) workloadOf(found *corev1.Pod) plan.Pod {
	p := PodOf(found)
	if p.Cause == verdict.PodClaimUnbound {
		p.Detail += r.claimsOf(found)
	}
	if !p.Gated { // whoever owns it
		p.Altered = cmp.Or(r.altered(found, workspace.RoleWorkload), admitted.Networks(found))
	}
	owner, err := sandboxapi.OwnerOf(found.OwnerReferences)
	if err != nil || !owner.Controller || owner.UID != r.goal.Ref.UID {
		p.Detail = "no Sandbox with this uid controls it"
		return p
	}
	p.Ownership = plan.OfThisRun
	if o := r.seen.box.value; o != nil && p.Gated {
		if result := admitted.Check(found, r.expected(o)); !result.Admitted() {
			p.Altered = result.String()
		}
	}
	return p
}

// expected is what the workload Pod of the run must be, by the settings and by the template that it was made from.
func (r *round) expected(o *sandboxapi.Object) admitted.Expected {
	box, template := r.sandbox(), &o.Template.Spec
	e := admitted.Expected{
		Namespace: o.Namespace, Name: o.PodName(), SandboxName: o.Name, SandboxUID: types.UID(o.UID), ID: box.ID, User: box.User, Group: box.Group,
		Secret: workspace.SandboxSecret(box.ID, box.Generation), ServiceAccount: r.settings.ServiceAccountName,
		Claims: map[string]string{}, HostGatewayIP: r.settings.HostGatewayIP,
		UserNamespace: template.HostUsers != nil && !*template.HostUsers,
	}
	for _, s := range template.ImagePullSecrets {
		e.PullSecrets = append(e.PullSecrets, s.Name)
	}
	for _, v := range template.Volumes {
		if c := v.PersistentVolumeClaim; c != nil && v.Name != workspace.ClaimTemplate {
			e.Claims[v.Name] = c.ClaimName
		}
	}
	if template.RuntimeClassName != nil {
		e.RuntimeClass = *template.RuntimeClassName
	}
	return e
}
