package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func waits(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func ended(code int32, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "agent", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: "secret"}}}
}

// TestCauses is bug corpus L12, L13 and L28: what a Pod's status says reaches the condition.
func TestCauses(t *testing.T) {
	pending := func(c corev1.ContainerStatus) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{c}}
	}
	unscheduled := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		}}}
	}
	again := waits("CrashLoopBackOff", "back-off 10s")
	again.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
	initial := corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{ended(0, "Completed")}, ContainerStatuses: []corev1.ContainerStatus{waits("PodInitializing", "")}}
	failedInit := initial
	failedInit.InitContainerStatuses = []corev1.ContainerStatus{ended(2, "Error")}
	for name, c := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"nothing":             {corev1.PodStatus{Phase: corev1.PodPending}, ""},
		"being made":          {pending(waits("ContainerCreating", "")), ""},
		"initialising":        {initial, ""},
		"gated":               {unscheduled(corev1.PodReasonSchedulingGated, "Scheduling is blocked"), ""},
		"image":               {pending(waits("ErrImagePull", "no such image")), "image pull: container agent waits: ErrImagePull: no such image"},
		"image, again":        {pending(waits("ImagePullBackOff", "")), "image pull: container agent waits: ImagePullBackOff"},
		"image name":          {pending(waits("InvalidImageName", "x")), "image pull: container agent waits: InvalidImageName: x"},
		"configuration":       {pending(waits("CreateContainerConfigError", `secret "x" not found`)), `container start: container agent waits: CreateContainerConfigError: secret "x" not found`},
		"of tomorrow":         {pending(waits("Sulking", "")), "container start: container agent waits: Sulking"},
		"crash":               {corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{ended(3, "Error")}}, "crash: container agent ended with exit code 3 (Error)"},
		"crash of an init":    {failedInit, "crash: container agent ended with exit code 2 (Error)"},
		"crash, tried again":  {pending(again), "crash: container agent ended with exit code 137 (OOMKilled)"},
		"ended without fault": {corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{ended(0, "Completed")}}, "crash: container agent ended with exit code 0 (Completed)"},
		"evicted":             {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}, "ended: Evicted: low on memory"},
		"no node":             {unscheduled("Unschedulable", "0/3 nodes are available"), "unschedulable: Unschedulable: 0/3 nodes are available"},
		"unbound claim":       {unscheduled("Unschedulable", "pod has unbound immediate PersistentVolumeClaims"), "unbound claim: Unschedulable: pod has unbound immediate PersistentVolumeClaims"},
		"no such claim":       {unscheduled("Unschedulable", `persistentvolumeclaim "workspace-x" not found`), `unbound claim: Unschedulable: persistentvolumeclaim "workspace-x" not found`},
	} {
		if got := causeOf(&c.status).String(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for message, want := range map[string]Hindrance{
		"": "", "dial tcp: connection refused": "",
		`pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3`:                                    Quota,
		`pods "a" is forbidden: failed quota: q: must specify limits.cpu`:                                                               Quota,
		`pods "a" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi`:                                            Quota,
		`pods "a" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`:                            Refused,
		`admission webhook "x.example" denied the request: no`:                                                                          Refused,
		`pods "a" is forbidden: unable to validate against any security context constraint: [provider "anyuid": Forbidden: not usable]`: Refused,
		`Pod "a" is invalid: spec.containers[0].image: Required value`:                                                                  Refused,
	} {
		if got := refusal(message); got.Kind != want || want != "" && got.Text != message {
			t.Errorf("%q: %+v, want %q", message, got, want)
		}
	}
}

func TestCauseOfWarning(t *testing.T) {
	const pull = `Failed to pull image "127.0.0.1:1/absent:1": failed to resolve reference: connection refused`
	for name, c := range map[string]struct{ reason, message, want string }{
		"mount":                      {"FailedMount", "m", "volume: FailedMount: m"},
		"network of the Pod":         {"FailedCreatePodSandBox", "m", "container start: FailedCreatePodSandBox: m"},
		"image name":                 {"InspectFailed", "cannot parse", "image pull: InspectFailed: cannot parse"},
		"image pull":                 {"Failed", pull, "image pull: " + pull},
		"image pull, the short word": {"Failed", "Error: ErrImagePull", ""},
		"image pull, waits":          {"Failed", "Error: ImagePullBackOff", ""},
		"container":                  {"Failed", `Error: secret "s" not found`, `container start: secret "s" not found`},
		"nothing":                    {"Failed", "Error: ", ""},
		"something else has failed":  {"Failed", "m", ""},
		"probe":                      {"Unhealthy", "m", ""},
		"back-off":                   {"BackOff", "m", ""},
		"no reason":                  {"", "m", ""},
	} {
		if got := CauseOfWarning(c.reason, c.message).String(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
