package inventory_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func TestAttachments(t *testing.T) {
	w := base(t)
	before := w.pod.DeepCopy()
	got, d := w.policy(t).Attachments(w.pod, w.own)
	want := []inventory.Attachment{
		{Kind: inventory.PersistentVolumeClaim, Namespace: "sandboxes", Name: "datasets"},
		{Kind: inventory.PersistentVolumeClaim, Namespace: "sandboxes", Name: "scratch"},
		{Kind: inventory.PriorityClass, Name: "high"},
		{Kind: inventory.RuntimeClass, Name: "kata"},
	}
	if !d.Granted() || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %s", got, d.Explain())
	}
	if !reflect.DeepEqual(before, w.pod) {
		t.Error("the walk changed the Pod")
	}
	// What the API server and the controller add is let be; a claim is named once; admission switched off switches off labels alone.
	w.settings.ResourceAdmission.Enabled = false
	w.pod.Spec.SchedulerName = "default-scheduler"
	w.pod.Spec.DeprecatedServiceAccount = "sandbox"
	w.pod.Spec.Volumes = append(w.pod.Spec.Volumes, claim("workspace", "workspace-team-a--demo"), claim("again", "datasets"))
	if got, d = w.policy(t).Attachments(w.pod, w.own); !d.Granted() || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %s", got, d.Explain())
	}
	// The claim of the workspace is the driver's own only by its own name.
	w.pod.Spec.Volumes = append(w.pod.Spec.Volumes, claim("mine", "workspace-team-a--demo"))
	if got, _ = w.policy(t).Attachments(w.pod, w.own); len(got) != len(want)+1 {
		t.Errorf("%v", got)
	}
}

func claim(name, claim string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

func source(v corev1.VolumeSource) func(*world) {
	return func(w *world) {
		w.pod.Spec.Volumes = append(w.pod.Spec.Volumes, corev1.Volume{Name: "more", VolumeSource: v})
	}
}

func from(v corev1.EnvVarSource) func(*world) {
	return func(w *world) { w.agent().Env = append(w.agent().Env, corev1.EnvVar{Name: "X", ValueFrom: &v}) }
}

// TestRefusals: each of these is in no list of contract 11.5.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*world)
		want   string
	}{
		{"a Secret", source(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "other"}}), "volumes[7].secret "},
		{"a ConfigMap", source(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}), "volumes[7].configMap "},
		{"projected", source(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}), "volumes[7].projected "},
		{"a path of the host", source(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}), "volumes[7].hostPath "},
		{"CSI", source(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "x"}}), "volumes[7].csi "},
		{"NFS", source(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}), "volumes[7].nfs "},
		{"an ephemeral claim", source(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), "volumes[7].ephemeral "},
		{"an image", source(corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}}), "volumes[7].image "},
		{"no source", source(corev1.VolumeSource{}), "volumes[7] has no source"},
		{"two sources", source(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}, HostPath: &corev1.HostPathVolumeSource{}}), "volumes[7].hostPath "},
		{"a claim with a bad name", source(claim("", "../x").VolumeSource), "volumes[7].persistentVolumeClaim names no object"},
		{"the bootstrap Secret of another generation", func(w *world) { w.own.Generation = "b" }, "volumes[2] must be the bootstrap Secret"},
		{"the bootstrap Secret of another sandbox", func(w *world) { w.own.SandboxID = "x" }, "volumes[2] must be the bootstrap Secret"},
		{"the bootstrap Secret under another name", func(w *world) { w.pod.Spec.Volumes[2].Name = "mine" }, "volumes[2].secret "},
		{"a part of the bootstrap Secret", func(w *world) { w.pod.Spec.Volumes[2].Secret.Items = []corev1.KeyToPath{{}} }, "volumes[2] must be"},
		{"the bootstrap Secret for everybody", func(w *world) { w.pod.Spec.Volumes[2].Secret.DefaultMode = new(int32(0o444)) }, "volumes[2] must be"},
		{"another thing by that name", func(w *world) { w.pod.Spec.Volumes[2].VolumeSource = claim("", "x").VolumeSource }, "volumes[2] must be"},
		{"a variable from a Secret", from(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}), "containers[0].env[8].valueFrom.secretKeyRef "},
		{"a variable from a ConfigMap", from(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{}}), "containers[0].env[8].valueFrom.configMapKeyRef "},
		{"a variable from a file", from(corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}), "containers[0].env[8].valueFrom.fileKeyRef "},
		{"variables from a Secret", func(w *world) { w.pod.Spec.InitContainers[1].EnvFrom = []corev1.EnvFromSource{{}} }, "initContainers[1].envFrom "},
		{"resource claims", func(w *world) { w.pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{}} }, "resourceClaims "},
		{"resource claims of a container", func(w *world) { w.agent().Resources.Claims = []corev1.ResourceClaim{{}} }, "containers[0].resources.claims "},
		{"an extended resource", func(w *world) { w.settings.AllowedExtendedResources = nil }, `containers[0].resources has the extended resource "example.com/fpga"`},
		{"an extended resource in a request alone", func(w *world) {
			w.pod.Spec.InitContainers[0].Resources.Requests["vendor.example/nic"] = resource.MustParse("1")
		}, "initContainers[0].resources has the extended"},
		{"a token", func(w *world) { w.pod.Spec.AutomountServiceAccountToken = nil }, "automountServiceAccountToken must be false"},
		{"a token by name", func(w *world) { w.pod.Spec.AutomountServiceAccountToken = new(true) }, "automountServiceAccountToken must be false"},
		{"another account", func(w *world) { w.pod.Spec.ServiceAccountName = "admin" }, "serviceAccountName must be"},
		{"another account in the old field", func(w *world) { w.pod.Spec.DeprecatedServiceAccount = "admin" }, "serviceAccountName must be"},
		{"the host's network", func(w *world) { w.pod.Spec.HostNetwork = true }, "hostNetwork "},
		{"the host's processes", func(w *world) { w.pod.Spec.HostPID = true }, "hostPID "},
		{"the host's users", func(w *world) { w.pod.Spec.HostUsers = new(true) }, "hostUsers "},
		{"another container", func(w *world) { w.pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}} }, "ephemeralContainers "},
		{"a node", func(w *world) { w.pod.Spec.NodeName = "n" }, "nodeName "},
		{"a priority", func(w *world) { w.pod.Spec.Priority = new(int32(5)) }, "priority "},
		{"another scheduler", func(w *world) { w.pod.Spec.SchedulerName = "mine" }, "schedulerName "},
		{"another gate", func(w *world) { w.pod.Spec.SchedulingGates[0].Name = "x" }, "schedulingGates "},
		{"a name to another host", func(w *world) { w.settings.HostGatewayIP = "192.0.2.2" }, "hostAliases "},
		{"a pull Secret", func(w *world) { w.own.PullSecrets = nil }, "imagePullSecrets "},
		{"groups", func(w *world) { w.pod.Spec.SecurityContext.SupplementalGroups = []int64{0} }, "securityContext.supplementalGroups "},
		{"a sysctl", func(w *world) { w.pod.Spec.SecurityContext.Sysctls[0].Name = "kernel.core_pattern" }, "securityContext.sysctls "},
		{"no seccomp", func(w *world) { w.pod.Spec.SecurityContext.SeccompProfile.Type = "Unconfined" }, "securityContext.seccompProfile "},
		{"SELinux", func(w *world) { w.pod.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "x"} }, "securityContext.seLinuxOptions "},
		{"privileged", func(w *world) { w.agent().SecurityContext.Privileged = new(true) }, "containers[0].securityContext.privileged "},
		{"escalation", func(w *world) { w.agent().SecurityContext.AllowPrivilegeEscalation = new(true) }, "containers[0].securityContext.allowPrivilegeEscalation "},
		{"a capability", func(w *world) { w.agent().SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"} }, "containers[0].securityContext.capabilities "},
		{"proc as it is", func(w *world) { w.agent().SecurityContext.ProcMount = new(corev1.UnmaskedProcMount) }, "containers[0].securityContext.procMount "},
		{"a port of the host", func(w *world) { w.agent().Ports[0].HostPort = 80 }, "containers[0].ports[0].hostPort "},
		{"propagation", func(w *world) { w.agent().VolumeMounts[0].MountPropagation = new(corev1.MountPropagationBidirectional) }, "containers[0].volumeMounts[0].mountPropagation "},
		{"a computed sub path", func(w *world) { w.agent().VolumeMounts[0].SubPathExpr = "$(X)" }, "containers[0].volumeMounts[0].subPathExpr "},
		{"a device", func(w *world) { w.agent().VolumeDevices = []corev1.VolumeDevice{{}} }, "containers[0].volumeDevices "},
		{"a hook", func(w *world) { w.agent().Lifecycle = &corev1.Lifecycle{} }, "containers[0].lifecycle "},
		{"a probe", func(w *world) { w.agent().LivenessProbe = &corev1.Probe{} }, "containers[0].livenessProbe "},
		{"a runtime class without a name", func(w *world) { w.pod.Spec.RuntimeClassName = new("") }, "runtimeClassName names no object"},
	} {
		w := base(t)
		c.change(w)
		got, d := w.policy(t).Attachments(w.pod, w.own)
		if d.Reason != verdict.AttachmentForbidden || got != nil || !strings.HasPrefix(d.Message(), c.want) || strings.Contains(d.Message(), "; ") {
			t.Errorf("%s: %v, %s", c.name, got, d.Explain())
		}
	}
}

// known are the members of the Pod API that the walk lets be in some form. Every other one is refused, whatever it holds.
var known = map[string][]string{
	"PodSpec": {
		"volumes", "initContainers", "containers", "restartPolicy", "terminationGracePeriodSeconds", "dnsPolicy", "dnsConfig", "nodeSelector", "tolerations",
		"serviceAccountName", "serviceAccount", "automountServiceAccountToken", "securityContext", "imagePullSecrets", "schedulerName", "hostAliases",
		"priorityClassName", "runtimeClassName", "enableServiceLinks", "hostUsers", "schedulingGates",
	},
	"Container": {
		"name", "image", "imagePullPolicy", "command", "args", "ports", "env", "resources", "volumeMounts", "securityContext", "terminationMessagePath", "terminationMessagePolicy",
	},
	"VolumeSource": {"emptyDir", "downwardAPI", "persistentVolumeClaim"},
}

// TestWhatIsNotKnownIsRefused goes through every member of the client's types, also those that a new version adds.
func TestWhatIsNotKnownIsRefused(t *testing.T) {
	try := func(kind string, field int, set func(*world) reflect.Value) {
		w := base(t)
		v := set(w)
		name, _, _ := strings.Cut(v.Type().Field(field).Tag.Get("json"), ",")
		for _, k := range known[kind] {
			if k == name {
				return
			}
		}
		fill(v.Field(field))
		if _, d := w.policy(t).Attachments(w.pod, w.own); d.Granted() || !strings.Contains(d.Message(), name+" ") {
			t.Errorf("%s of a %s is let be: %s", name, kind, d.Explain())
		}
	}
	for i := range reflect.TypeFor[corev1.PodSpec]().NumField() {
		try("PodSpec", i, func(w *world) reflect.Value { return reflect.ValueOf(&w.pod.Spec).Elem() })
	}
	for i := range reflect.TypeFor[corev1.Container]().NumField() {
		try("Container", i, func(w *world) reflect.Value { return reflect.ValueOf(w.agent()).Elem() })
	}
	for i := range reflect.TypeFor[corev1.VolumeSource]().NumField() {
		try("VolumeSource", i, func(w *world) reflect.Value { return reflect.ValueOf(&w.pod.Spec.Volumes[5].VolumeSource).Elem() })
	}
}

// fill sets something that is not the zero value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	default:
		panic(fmt.Sprint("no way to fill a ", v.Type()))
	}
}

func TestZeroValuesAdmitNothing(t *testing.T) {
	w := base(t)
	if _, d := new(inventory.Policy).Attachments(w.pod, w.own); d.Granted() {
		t.Error("the zero policy admits")
	}
	if _, d := w.policy(t).Attachments(nil, w.own); d.Granted() {
		t.Error("no Pod is admitted")
	}
	if _, d := w.policy(t).Attachments(w.pod, inventory.Own{}); d.Granted() {
		t.Error("nobody's Pod is admitted")
	}
	if _, err := inventory.New(nil); err == nil {
		t.Error("no settings are taken")
	}
	w.pod.Spec.Volumes = make([]corev1.Volume, 200)
	if _, d := w.policy(t).Attachments(w.pod, w.own); !strings.HasSuffix(d.Message(), "; and 180 more problems") {
		t.Error(d.Explain())
	}
}
