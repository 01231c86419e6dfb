package snapshot

import (
	"errors"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/fenceevidence"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func TestReadPassesOver(t *testing.T) {
	label := func(key, value string) func(o *sandboxapi.Object) {
		return func(o *sandboxapi.Object) { o.Labels[key] = value }
	}
	for name, c := range map[string]struct {
		spoil func(o *sandboxapi.Object)
		want  error
	}{
		"W19: not managed":             {label(workspace.LabelManagedBy, "helm"), ErrForeign},
		"W19: no labels":               {func(o *sandboxapi.Object) { o.Labels = nil }, ErrForeign},
		"another gateway's":            {label(workspace.LabelGatewayID, "red"), ErrForeign},
		"no gateway's":                 {label(workspace.LabelGatewayID, ""), ErrForeign},
		"no id":                        {func(o *sandboxapi.Object) { delete(o.Labels, workspace.LabelSandboxID); o.Annotations = nil }, ErrMalformed},
		"an id nobody can look for":    {func(o *sandboxapi.Object) { delete(o.Labels, workspace.LabelSandboxID) }, ErrMalformed},
		"two ids":                      {func(o *sandboxapi.Object) { o.Annotations[workspace.AnnotationSandboxID] = "other" }, ErrMalformed},
		"no name":                      {func(o *sandboxapi.Object) { delete(o.Labels, workspace.LabelSandboxName) }, ErrMalformed},
		"two names":                    {func(o *sandboxapi.Object) { o.Annotations[workspace.AnnotationSandboxName] = "other" }, ErrMalformed},
		"a name that is none":          {label(workspace.LabelSandboxName, "\xff"), ErrMalformed},
		"a name too long":              {label(workspace.LabelSandboxName, strings.Repeat("a", 600)), ErrMalformed},
		"no workspace":                 {func(o *sandboxapi.Object) { delete(o.Labels, workspace.LabelSandboxWorkspace) }, ErrMalformed},
		"a workspace of elsewhere":     {func(o *sandboxapi.Object) { o.Namespace = "elsewhere" }, ErrMisplaced},
		"a workspace that is no label": {func(o *sandboxapi.Object) { o.Namespace, o.Annotations = "kube-system", nil }, ErrMisplaced},
	} {
		s := healthy()
		s.box.Annotations = maps.Clone(s.box.Annotations)
		c.spoil(&s.box)
		got, err := Read(&s.box, scheme)
		if !errors.Is(err, c.want) || got.ID != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		} else if !strings.Contains(err.Error(), "team--box") {
			t.Errorf("%s: the error names no object: %v", name, err)
		}
	}
}

func TestNamesComeFromAnnotationsToo(t *testing.T) {
	s := healthy()
	delete(s.box.Labels, workspace.LabelSandboxName)
	s.box.Annotations[workspace.AnnotationSandboxName] = "from-annotation"
	if got := s.read(t).Name; got != "from-annotation" {
		t.Error(got)
	}
}

func TestIdentityOfTheTemplate(t *testing.T) {
	for name, c := range map[string]*corev1.PodSecurityContext{
		"none": nil, "half": {RunAsUser: new(int64(7))}, "root": {RunAsUser: new(int64(0)), RunAsGroup: new(int64(0))},
		"too large": {RunAsUser: new(int64(1 << 32)), RunAsGroup: new(int64(1))},
	} {
		s := healthy()
		s.box.Template.Spec.SecurityContext = c
		if got := s.render(t).GetStatus().GetResolvedIdentity(); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestFenceEvidenceIsOfThePresentRun(t *testing.T) {
	for name, edit := range map[string]func(s *scene){
		"stopped":  (*scene).suspend,
		"stopping": func(s *scene) { s.record = stopping() },
		"no fence": func(s *scene) { s.record.FenceUID = "" },
		"no Pod":   func(s *scene) { s.record.WorkloadUID = "" },

		"no evidence": func(s *scene) { s.record.FenceEvidence = "" },
		"unreadable":  func(s *scene) { s.record.FenceEvidence = "{}" },
		"another Sandbox": func(s *scene) {
			s.record.FenceEvidence = evidence(func(c map[fenceevidence.Claim]string) { c[fenceevidence.SandboxUID] = "x" })
		},
		"another workload": func(s *scene) {
			s.record.FenceEvidence = evidence(func(c map[fenceevidence.Claim]string) { c[fenceevidence.WorkloadUID] = "x" })
		},
		"another supervisor": func(s *scene) {
			s.record.FenceEvidence = evidence(func(c map[fenceevidence.Claim]string) { c[fenceevidence.SupervisorUID] = "x" })
		},
		"another fence": func(s *scene) {
			s.record.FenceEvidence = evidence(func(c map[fenceevidence.Claim]string) { c[fenceevidence.PolicyUID] = "x" })
		},
	} {
		s := healthy()
		edit(s)
		if got := s.render(t).GetStatus().GetFenceEvidence(); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestReadPodPassesOver(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(p *corev1.Pod)
		want  error
	}{
		"no uid":                        {func(p *corev1.Pod) { p.UID = "" }, ErrMalformed},
		"no role":                       {func(p *corev1.Pod) { p.Labels = nil }, ErrForeign},
		"another role":                  {func(p *corev1.Pod) { p.Labels[workspace.LabelBoundaryRole] = "probe" }, ErrForeign},
		"no owner":                      {func(p *corev1.Pod) { p.OwnerReferences = nil }, ErrForeign},
		"a workload that nobody made":   {func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, ErrForeign},
		"a supervisor of a controller":  {func(p *corev1.Pod) { p.Labels[workspace.LabelBoundaryRole] = workspace.RoleSupervisor }, ErrForeign},
		"the Pod of a ReplicaSet":       {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }, ErrForeign},
		"a probe that nobody controls":  {func(p *corev1.Pod) { p.Labels[workspace.LabelBoundaryRole], p.OwnerReferences[0].Controller = "x", nil }, ErrForeign},
		"another gateway's":             {func(p *corev1.Pod) { p.Labels[workspace.LabelGatewayID] = "green" }, ErrForeign},
		"in another namespace":          {func(p *corev1.Pod) { p.Namespace = "elsewhere" }, ErrForeign},
		"two owners of the proper kind": {func(p *corev1.Pod) { p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences[0]) }, ErrForeign},
	} {
		p := pod("team--box", "w", workspace.RoleWorkload)
		c.spoil(p)
		if got, err := ReadPod(p, scheme); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// How far the containers of a Pod are says what cannot hinder them any more.
func TestReadPodCountsWhatHasBegun(t *testing.T) {
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: new(corev1.ContainerStateRunning)}}
	ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: new(corev1.ContainerStateTerminated)}}
	waits := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: new(corev1.ContainerStateWaiting)}}
	again := waits
	again.LastTerminationState = ended.State
	for name, c := range map[string]struct {
		before, containers []corev1.ContainerStatus
		begun              uint16
		all                bool
	}{
		"no status yet":        {nil, nil, 0, false},
		"all wait":             {[]corev1.ContainerStatus{waits}, []corev1.ContainerStatus{waits}, 0, false},
		"the first has ended":  {[]corev1.ContainerStatus{ended}, []corev1.ContainerStatus{waits}, 1, false},
		"all have begun":       {[]corev1.ContainerStatus{ended}, []corev1.ContainerStatus{running}, 2, true},
		"one is started again": {[]corev1.ContainerStatus{ended}, []corev1.ContainerStatus{again}, 2, true},
	} {
		p := pod("team--box", "w", workspace.RoleWorkload)
		p.Spec.InitContainers, p.Spec.Containers = make([]corev1.Container, 1), make([]corev1.Container, 1)
		p.Status.InitContainerStatuses, p.Status.ContainerStatuses = c.before, c.containers
		got, err := ReadPod(p, scheme)
		if err != nil || got.Begun != c.begun || got.AllBegun != c.all {
			t.Errorf("%s: %d have begun, all of them: %t, %v", name, got.Begun, got.AllBegun, err)
		}
	}
}

// Where a Pod is says whose it can be in two of the modes; in the third only its label and its owner do.
func TestReadPodOfAnotherGateway(t *testing.T) {
	for name, c := range map[string]struct {
		mode      driverconf.Mode
		namespace string
		label     string
		ours      bool
	}{
		"shared":                           {driverconf.ModeShared, "openshell", "", true},
		"shared, labelled":                 {driverconf.ModeShared, "openshell", "blue", true},
		"shared, another's":                {driverconf.ModeShared, "openshell", "green", false},
		"shared, elsewhere":                {driverconf.ModeShared, "team", "blue", false},
		"managed":                          {driverconf.ModeManaged, "openshell-blue-team", "", true},
		"managed, another's namespace":     {driverconf.ModeManaged, "openshell-green-team", "", false},
		"managed, the source":              {driverconf.ModeManaged, "openshell", "blue", false},
		"operator":                         {driverconf.ModeOperator, "team", "", true},
		"operator, labelled":               {driverconf.ModeOperator, "team", "blue", true},
		"operator, another's":              {driverconf.ModeOperator, "team", "green", false},
		"no mode: the zero scheme is none": {"", "openshell", "", false},
	} {
		p := pod("team--box", "w", workspace.RoleWorkload)
		p.Namespace = c.namespace
		if c.label != "" {
			p.Labels[workspace.LabelGatewayID] = c.label
		}
		_, err := ReadPod(p, workspace.Scheme{Mode: c.mode, GatewayID: "blue", Namespace: "openshell"})
		if (err == nil) != c.ours || err != nil && !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPick(t *testing.T) {
	s := healthy().read(t)
	base := func(uid string, edit func(p *Pod)) *Pod {
		p := &Pod{Namespace: "openshell", Name: "p", UID: uid, Owner: boxUID}
		edit(p)
		return p
	}
	old := base("a", func(p *Pod) { p.Deleting = true })
	ended := base("b", func(p *Pod) { p.Ended = true })
	live := base("c", func(*Pod) {})
	twin := base("d", func(*Pod) {})
	mine := base("w", func(p *Pod) { p.Deleting = true })
	other := base("e", func(p *Pod) { p.Owner = "other" })
	away := base("f", func(p *Pod) { p.Namespace = "away" })
	super := base("g", func(p *Pod) { p.Supervisor = true })
	for name, c := range map[string]struct {
		all  []*Pod
		want *Pod
	}{
		"none":                   {nil, nil},
		"others'":                {[]*Pod{other, away, super}, nil},
		"recorded before living": {[]*Pod{live, mine, old}, mine},
		"living before ended":    {[]*Pod{old, ended, live}, live},
		"ended before going":     {[]*Pod{old, ended}, ended},
		"the same one always":    {[]*Pod{twin, live}, live},
	} {
		if got := Pick(&s, c.all, true); got.Workload != c.want || !got.Known {
			t.Errorf("%s: %+v", name, got.Workload)
		}
	}
	if got := Pick(&s, []*Pod{super}, false); got.Known || got.Supervisor != super {
		t.Errorf("%+v", got)
	}
}

func TestReadSharesNothingLarge(t *testing.T) {
	s := healthy()
	s.record.MainProcess = strings.Repeat("x", 1<<20)
	if r := s.read(t).Record; r.MainProcess != "" || r.LogLevel != "" {
		t.Error("what is only kept for restarts is kept")
	}
}
