package conduct

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// TestReplayL28WhyAPodIsNotReady: what the scheduler and the kubelet say reaches whoever reads the status (also L13).
func TestReplayL28WhyAPodIsNotReady(t *testing.T) {
	waits := func(reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	ended := func(code int32, reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
	}
	scheduled := func(status corev1.ConditionStatus, reason, message string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: status, Reason: reason, Message: message}}}
	}
	again := waits("CrashLoopBackOff", "back-off 10s")
	again.RestartCount, again.LastTerminationState = 1, ended(3, "Error")
	running := corev1.ContainerStatus{Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, LastTerminationState: ended(3, "Error"), RestartCount: 1}
	const made = "its containers are being made; if that lasts, the Pod's Events name the volume, Secret or image that is waited for"
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"gated":          {scheduled(corev1.ConditionFalse, corev1.PodReasonSchedulingGated, "gated"), ""},
		"unbound claim":  {scheduled(corev1.ConditionFalse, "Unschedulable", "0/3 nodes: pod has unbound immediate PersistentVolumeClaims"), "no node takes it: Unschedulable: 0/3 nodes: pod has unbound immediate PersistentVolumeClaims"},
		"scheduled":      {scheduled(corev1.ConditionTrue, "", ""), ""},
		"image":          {corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waits("ImagePullBackOff", "Back-off pulling image")}}, "container agent waits: ImagePullBackOff: Back-off pulling image"},
		"image, init":    {corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{waits("ErrImagePull", "")}}, "container agent waits: ErrImagePull"},
		"no Secret":      {corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waits("CreateContainerConfigError", "secret not found")}}, "container agent waits: CreateContainerConfigError: secret not found"},
		"takes its time": {corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{waits("ContainerCreating", "")}, ContainerStatuses: []corev1.ContainerStatus{waits("PodInitializing", "")}}, made},
		"one has begun": {corev1.PodStatus{
			Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "seed", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
			ContainerStatuses: []corev1.ContainerStatus{waits("PodInitializing", "")},
		}, ""},
		"nothing said":   {corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waits("", "")}}, ""},
		"started again":  {corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{again}}, "container agent ended with code 3: Error"},
		"runs again":     {corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{running}}, ""},
		"init succeeded": {corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "seed", State: ended(0, "Completed")}}}, ""},
		"crash after init": {corev1.PodStatus{
			Phase: corev1.PodFailed, InitContainerStatuses: []corev1.ContainerStatus{{Name: "seed", State: ended(0, "Completed")}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: ended(1, "Error")}},
		}, "container agent ended with code 1: Error"},
		"not ready after init": {corev1.PodStatus{
			Phase: corev1.PodRunning, InitContainerStatuses: []corev1.ContainerStatus{{Name: "seed", State: ended(0, "Completed")}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		}, ""},
		"init failed":     {corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: []corev1.ContainerStatus{{Name: "seed", State: ended(1, "")}}}, "container seed ended with code 1: no reason given"},
		"evicted":         {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, "Evicted"},
		"failed, no word": {corev1.PodStatus{Phase: corev1.PodFailed}, "Failed"},
		"succeeded":       {corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: ended(0, "Completed")}}}, "container agent ended with code 0: Completed"},
		"long": {
			corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waits("ErrImagePull", strings.Repeat("é", 1000))}},
			"container agent waits: ErrImagePull: " + strings.Repeat("é", 241) + "...",
		},
	} {
		got := PodOf(&corev1.Pod{Status: tc.status})
		if (got.Cause != "") != (tc.want != "" && tc.want != "Evicted" && tc.want != "Failed" && tc.want != made) || got.Hopeless {
			t.Errorf("%s: cause %q, hopeless %t", name, got.Cause, got.Hopeless)
		}
		if got.Detail != tc.want || got.Restarted != (name == "started again" || name == "runs again") {
			t.Errorf("%s: %q, restarted %t", name, got.Detail, got.Restarted)
		}
	}
}

// TestWhatARegistryAnswers: that it has no such image, or does not give it, is told apart from all that a later try may change.
func TestWhatARegistryAnswers(t *testing.T) {
	const pulling = `rpc error: code = NotFound desc = failed to pull and unpack image "registry.example/denied/app:1": failed to resolve reference "registry.example/denied/app:1": `
	for name, tc := range map[string]struct {
		reason, message string
		doomed          bool
	}{
		"not found":              {"ErrImagePull", pulling + "registry.example/denied/app:1: not found", true},
		"not found, backing off": {"ImagePullBackOff", `Back-off pulling image "registry.example/denied/app:1": ErrImagePull: ` + pulling + "registry.example/denied/app:1: not found", true},
		"denied":                 {"ErrImagePull", pulling + "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed", true},
		"denied, in short":       {"ErrImagePull", "denied: requested access to the resource is denied", true},
		"no credentials":         {"ErrImagePull", pulling + "unexpected status from HEAD request to https://registry.example/v2/denied/app/manifests/1: 401 Unauthorized", true},
		"forbidden":              {"ErrImagePull", pulling + "unexpected status from HEAD request: 403 Forbidden", true},
		"manifest":               {"ErrImagePull", "reading manifest 1 in registry.example/app: manifest unknown", true},
		"another platform":       {"ErrImagePull", pulling + "no match for platform in manifest: not found", true},
		"nobody answers":         {"ErrImagePull", pulling + `failed to do request: Head "https://registry.example/v2/denied/app/manifests/1": dial tcp: lookup registry.example: no such host`, false},
		"refused connection":     {"ErrImagePull", pulling + "dial tcp 192.0.2.1:443: connect: connection refused", false},
		"server error":           {"ErrImagePull", pulling + "unexpected status: 503 Service Unavailable", false},
		"too many":               {"ErrImagePull", pulling + "429 Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit. access denied: later", false},
		"a name that says so":    {"ImagePullBackOff", `Back-off pulling image "registry.example/not-found/denied:unauthorized"`, false},
		"something else":         {"CreateContainerConfigError", `secret "x": not found`, false},
	} {
		p := PodOf(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: tc.reason, Message: tc.message}},
		}}}})
		if p.Doomed != tc.doomed || p.Hopeless {
			t.Errorf("%s: doomed %t, hopeless %t", name, p.Doomed, p.Hopeless)
		}
	}
}

// TestAnUnboundClaimIsNamed, with the StorageClass of the one that is made for the sandbox: the scheduler names neither.
func TestAnUnboundClaimIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim := func(volume, name string) corev1.Volume {
			return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
		}
		for class, says := range map[string]string{
			"":     "workspace-team-a--demo of the cluster's default StorageClass, if there is one",
			"fast": "workspace-team-a--demo of the StorageClass fast that workspace_storage_class names, if it exists",
		} {
			w := newWorld(fresh())
			s := newSite(t, w, func(k *driverconf.Kubernetes) { k.WorkspaceStorageClass = class })
			s.do(s.goal(plan.Provision))
			detail := func(more int) string {
				t.Helper()
				w.change(func(w *world) {
					pod := w.pods[boxName]
					for i := range more {
						pod.Spec.Volumes = append(pod.Spec.Volumes, claim(fmt.Sprint("data-", i), fmt.Sprint("claim-", i)))
					}
					pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
						Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "pod has unbound immediate PersistentVolumeClaims",
					}}}
				})
				pod, _ := s.Look(t.Context(), theRef()).Facts.Workload.Value()
				if pod.Cause != verdict.PodClaimUnbound {
					t.Errorf("%+v", pod)
				}
				return pod.Detail
			}
			if got := detail(0); !strings.Contains(got, says+"; kubectl describe pvc -n "+namespace) || !strings.HasPrefix(got, "no node takes it: Unschedulable: pod has unbound") {
				t.Errorf("%q: %s", class, got)
			}
			if got := detail(20); !strings.Contains(got, "the claim claim-0") || !strings.Contains(got, "17 more") || strings.Contains(got, "claim-9") {
				t.Errorf("%q: %s", class, got)
			}
		}
	})
}

// TestReplayL28AndItsCode: each has a stable code, and what no new try changes is told apart from what may heal.
func TestReplayL28AndItsCode(t *testing.T) {
	waits := func(reason string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}}
	}
	scheduled := func(message string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message}}}
	}
	crashed := waits("CrashLoopBackOff")
	crashed.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
	ready := corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: waits("InvalidImageName").ContainerStatuses,
	}
	for name, tc := range map[string]struct {
		status   corev1.PodStatus
		want     verdict.Reason
		hopeless bool
	}{
		"pull":              {waits("ErrImagePull"), verdict.PodImageUnavailable, false},
		"pull, backing off": {waits("ImagePullBackOff"), verdict.PodImageUnavailable, false},
		"never to pull":     {waits("ErrImageNeverPull"), verdict.PodImageUnusable, true},
		"no name":           {waits("InvalidImageName"), verdict.PodImageUnusable, true},
		"no config":         {waits("CreateContainerConfigError"), verdict.PodNotStarted, false},
		"something new":     {waits("Whatever"), verdict.PodNotStarted, false},
		"crash":             {crashed, verdict.PodCrashed, false},
		"crash, unsaid":     {waits("CrashLoopBackOff"), verdict.PodCrashed, false},
		"claim":             {scheduled("0/1 nodes: pod has unbound immediate PersistentVolumeClaims."), verdict.PodClaimUnbound, false},
		"claim, missing":    {scheduled(`persistentvolumeclaim "w" not found`), verdict.PodClaimUnbound, false},
		"claim, topology":   {scheduled("1 node(s) didn't find available persistent volumes to bind"), verdict.PodClaimUnbound, false},
		"memory":            {scheduled("0/1 nodes: Insufficient memory"), verdict.PodUnschedulable, false},
		"takes its time":    {waits("ContainerCreating"), "", false},
		"ready":             {ready, "", false},
	} {
		if got := PodOf(&corev1.Pod{Status: tc.status}); got.Cause != tc.want || got.Hopeless != tc.hopeless {
			t.Errorf("%s: %q, hopeless %t", name, got.Cause, got.Hopeless)
		}
	}
}
