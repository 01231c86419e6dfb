package request_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

type breach struct {
	name   string
	change func(*world)
	reason verdict.Reason
	want   string // the beginning of the message: the path, and a colon
}

const (
	invalid   = verdict.RequestInvalid
	reserved  = verdict.RequestReserved
	forbidden = verdict.AttachmentForbidden

	tmpl = "sandbox.spec.template."
	conf = tmpl + "driver_config"
	plat = tmpl + "platform_config"
)

func labelled(key, value string) func(*world) {
	return func(w *world) { w.template().Labels = map[string]string{key: value} }
}

func annotated(key, value string) func(*world) {
	return func(w *world) { w.on(map[string]any{key: value}, "annotations") }
}

func variable(key, value string) func(*world) {
	return func(w *world) { w.spec().Environment = map[string]string{key: value} }
}

func many(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("k%d", i)] = "v"
	}
	return m
}

var breaches = []breach{
	// Names.
	{"no id", func(w *world) { w.sandbox.Id = "" }, invalid, "sandbox.id: is missing"},
	{"a long id", func(w *world) { w.sandbox.Id = strings.Repeat("a", 37) }, invalid, "sandbox.id: "},
	{"a huge id", func(w *world) { w.sandbox.Id = strings.Repeat("a", 1<<20) }, invalid, "sandbox.id: "},
	{"an id with a path", func(w *world) { w.sandbox.Id = "../x" }, invalid, "sandbox.id: "},
	{"an id of two lines", func(w *world) { w.sandbox.Id = "a\nb" }, invalid, "sandbox.id: "},
	{"no workspace", func(w *world) { w.sandbox.Workspace = "" }, invalid, "sandbox.workspace: is missing"},
	{"a workspace in capitals", func(w *world) { w.sandbox.Workspace = "Team" }, invalid, "sandbox.workspace: "},
	{"a workspace that is no UTF-8", func(w *world) { w.sandbox.Workspace = "a\xff" }, invalid, "sandbox.workspace: "},
	{"a workspace too long for its namespace", func(w *world) {
		w.settings.WorkspaceMode, w.sandbox.Workspace = driverconf.ModeManaged, strings.Repeat("w", 50)
	}, invalid, "sandbox.workspace: "},
	{"no name", func(w *world) { w.sandbox.Name = "" }, invalid, "sandbox.name: is missing"},
	{"a name with a dot", func(w *world) { w.sandbox.Name = "a.b" }, invalid, "sandbox.name: "},
	{"a name of other letters", func(w *world) { w.sandbox.Name = "dеmo" }, invalid, "sandbox.name: "},
	{"names too long together", func(w *world) { w.sandbox.Name = strings.Repeat("n", 56) }, invalid, "sandbox.name: "},
	{"the name of a supervisor", func(w *world) {
		w.settings.WorkspaceMode, w.sandbox.Name = driverconf.ModeOperator, "os-supervisor-"+id
	}, reserved, "sandbox.name: "},
	{"the name of a supervisor out of both", func(w *world) { w.sandbox.Workspace = "os-supervisor-x" }, reserved, "sandbox.name: "},
	{"the name of a Service", func(w *world) {
		w.settings.WorkspaceMode, w.sandbox.Name = driverconf.ModeManaged, "os-boundary-"+id
	}, reserved, "sandbox.name: "},
	{"another namespace", func(w *world) { w.sandbox.Namespace = "kube-system" }, invalid, "sandbox.namespace: "},
	{"no spec", func(w *world) { w.sandbox.Spec = nil }, invalid, "sandbox.spec: is missing"},
	{"no sandbox", func(w *world) { w.sandbox = nil }, invalid, "sandbox: is missing"},
	{"too large", func(w *world) { w.spec().Policy = make([]byte, 5<<20) }, invalid, "sandbox: is larger"},
	// Image, command, log level, and what is not used.
	{"no image anywhere", func(w *world) { w.template().Image, w.settings.DefaultImage = "", "" }, verdict.ImageUnset, tmpl + "image: "},
	{"a blank in the image", func(w *world) { w.template().Image = "a b" }, invalid, tmpl + "image: "},
	{"a long image", func(w *world) { w.template().Image = strings.Repeat("a", 1025) }, invalid, tmpl + "image: "},
	{"an image of other letters", func(w *world) { w.template().Image = "registry.exämple/a" }, invalid, tmpl + "image: "},
	{"an empty program", func(w *world) { w.spec().Command = []string{"", "a"} }, invalid, "sandbox.spec.command: "},
	{"a NUL in the command", func(w *world) { w.spec().Command = []string{"a", "b\x00"} }, invalid, "sandbox.spec.command: "},
	{"a command that is no UTF-8", func(w *world) { w.spec().Command = []string{"a\xff"} }, invalid, "sandbox.spec.command: "},
	{"a long command", func(w *world) { w.spec().Command = []string{strings.Repeat("a", 120<<10)} }, invalid, "sandbox.spec.command: "},
	{"a command of many", func(w *world) { w.spec().Command = make([]string, 4097) }, invalid, "sandbox.spec.command: "},
	{"a log level of two lines", func(w *world) { w.spec().LogLevel = "a\nb" }, invalid, "sandbox.spec.log_level: "},
	{"a long log level", func(w *world) { w.spec().LogLevel = strings.Repeat("a", 257) }, invalid, "sandbox.spec.log_level: "},
	{"a log level of two lines in a variable", func(w *world) { w.spec().LogLevel, w.spec().Environment["OPENSHELL_LOG_LEVEL"] = "", "a\nb" }, invalid, `sandbox.spec.environment["OPENSHELL_LOG_LEVEL"]: `},
	{"a long socket path", func(w *world) { w.template().AgentSocketPath = strings.Repeat("a", 4097) }, invalid, tmpl + "agent_socket_path: "},
	{"a user that is no UTF-8", func(w *world) { w.spec().WorkloadIdentity.User = "\xff" }, invalid, "sandbox.spec.workload_identity.user: "},
	{"a group with a NUL", func(w *world) { w.spec().WorkloadIdentity.Group = "\x00" }, invalid, "sandbox.spec.workload_identity.group: "},
	{"no credentials", func(w *world) { w.spec().LaunchAuthentication = nil }, verdict.LaunchInvalid, "sandbox.spec.launch_authentication: "},
	{"huge credentials", func(w *world) { w.spec().LaunchAuthentication = make([]byte, 256<<10+1) }, verdict.LaunchInvalid, "sandbox.spec.launch_authentication: "},
	// Labels and annotations.
	{"a label of the driver", labelled("openshell.ai/boundary-role", "supervisor"), reserved, tmpl + `labels["openshell.ai/boundary-role"]: `},
	{"a label below the driver's", labelled("x.openshell.ai/a", "b"), reserved, tmpl + "labels["},
	{"a label in capitals of the driver's", labelled("OpenShell.AI/managed-by", "openshell"), reserved, tmpl + "labels["},
	{"a label of the former driver", labelled("openshell.io/sandbox-id", "b"), reserved, tmpl + "labels["},
	{"a label of the controller", labelled("agents.x-k8s.io/sandbox-name-hash", "b"), reserved, tmpl + "labels["},
	{"a label below the controller's", labelled("api.agents.x-k8s.io/a", "b"), reserved, tmpl + "labels["},
	{"no key", labelled("", "b"), invalid, tmpl + `labels[""]: `},
	{"a key with two slashes", labelled("a/b/c", "b"), invalid, tmpl + "labels["},
	{"a long key", labelled(strings.Repeat("k", 64), "b"), invalid, tmpl + "labels["},
	{"a huge key", labelled(strings.Repeat("k", 1<<20), "b"), invalid, tmpl + "labels["},
	{"a key that is no UTF-8", labelled("a\xff", "b"), invalid, tmpl + `labels["a\xff"]: `},
	{"a long value", labelled("a", strings.Repeat("v", 64)), invalid, tmpl + `labels["a"]: `},
	{"a value with a blank", labelled("a", "b c"), invalid, tmpl + `labels["a"]: `},
	{"many labels", func(w *world) { w.template().Labels = many(65) }, invalid, tmpl + "labels: "},
	{"an annotation of the driver", annotated("openshell.ai/sandbox-id", "other"), reserved, plat + ".annotations["},
	{"a trace", annotated("opentelemetry.io/trace-context", "x"), reserved, plat + ".annotations["},
	{"further networks", annotated("k8s.v1.cni.cncf.io/networks", "macvlan"), reserved, plat + ".annotations["},
	{"another network", annotated("v1.multus-cni.io/default-network", "x"), reserved, plat + ".annotations["},
	{"a device", annotated("cdi.k8s.io/x", "vendor.com/device=all"), reserved, plat + ".annotations["},
	{"a switch of the runtime", annotated("io.kubernetes.cri-o.userns-mode", "auto"), reserved, plat + ".annotations["},
	{"no AppArmor", annotated("container.apparmor.security.beta.kubernetes.io/agent", "unconfined"), reserved, plat + ".annotations["},
	{"an annotation with a bad key", annotated("a b", "x"), invalid, plat + ".annotations["},
	{"an annotation with a NUL", annotated("a", "x\x00"), invalid, plat + ".annotations["},
	{"long annotations", annotated("a", strings.Repeat("v", 64<<10)), invalid, plat},
	{"many annotations", func(w *world) {
		m := map[string]any{}
		for k, v := range many(65) {
			m[k] = v
		}
		w.on(m, "annotations")
	}, invalid, plat + ".annotations: "},
	{"an annotation that is a number", func(w *world) { w.on(map[string]any{"a": 1}, "annotations") }, invalid, plat + `.annotations["a"]: must be a string and is a number`},
	{"annotations that are a list", func(w *world) { w.on([]any{}, "annotations") }, invalid, plat + ".annotations: must be an object and is a list"},
	// Environment.
	{"a variable of the driver", variable("OPENSHELL_SANDBOX_UID", "0"), reserved, `sandbox.spec.environment["OPENSHELL_SANDBOX_UID"]: `},
	{"a variable of the driver in small letters", variable("openshell_endpoint", hidden), reserved, "sandbox.spec.environment["},
	{"a variable of the driver in the template", func(w *world) { w.template().Environment["OPENSHELL_X"] = hidden }, reserved, tmpl + "environment["},
	{"no name of a variable", variable("", hidden), invalid, `sandbox.spec.environment[""]: `},
	{"a name with an equals sign", variable("A=B", hidden), invalid, "sandbox.spec.environment["},
	{"a name with a line", variable("A\nB", hidden), invalid, `sandbox.spec.environment["A\nB"]: `},
	{"a name that begins with a digit", variable("1A", hidden), invalid, "sandbox.spec.environment["},
	{"a long name of a variable", variable(strings.Repeat("A", 257), hidden), invalid, "sandbox.spec.environment["},
	{"a value with a NUL", variable("A", hidden+"\x00"), invalid, `sandbox.spec.environment["A"]: has a value`},
	{"a value that is no UTF-8", variable("A", hidden+"\xff"), invalid, `sandbox.spec.environment["A"]: has a value`},
	{"a value too long to start with", variable("A", strings.Repeat("v", 128<<10)), invalid, `sandbox.spec.environment["A"]: `},
	{"values too long together", func(w *world) {
		w.spec().Environment = map[string]string{"A": strings.Repeat("v", 120<<10), "B": strings.Repeat("v", 120<<10), "C": strings.Repeat("v", 20<<10)}
	}, invalid, "sandbox.spec.environment: "},
	{"values that grow when they are written", variable("A", strings.Repeat("\x01", 50<<10)), invalid, "sandbox.spec.environment: "},
	{"many variables", func(w *world) { w.spec().Environment = many(1025) }, invalid, "sandbox.spec.environment: has 1025"},
	{"many variables together", func(w *world) { w.spec().Environment = many(1024) }, invalid, "sandbox.spec.environment: makes 1026"},
	{"too large together", func(w *world) {
		w.spec().Environment = map[string]string{"A": strings.Repeat("v", 120<<10), "B": strings.Repeat("v", 120<<10)}
		w.spec().Command = []string{strings.Repeat("<", 110<<10)}
	}, invalid, "sandbox: is too large for one object"},
	// Resources.
	{"a GPU count of zero", func(w *world) { w.spec().ResourceRequirements = gpu(new(uint32)) }, invalid, "sandbox.spec.resource_requirements.gpu.count: gpu count must be greater than 0"},
	{"a limit of zero", func(w *world) { w.template().Resources.MemoryLimit = "0" }, invalid, tmpl + "resources.memory_limit: "},
	{"a negative limit", func(w *world) { w.template().Resources.MemoryLimit = "-1Gi" }, invalid, tmpl + "resources.memory_limit: "},
	{"a request that is greater", func(w *world) { w.template().Resources.CpuRequest = "3" }, invalid, tmpl + "resources.cpu_request: is a request that is greater than its limit, " + tmpl + "resources.cpu_limit"},
	// driver_config: gate, schema, bombs.
	{"a driver_config that is not allowed", func(w *world) { w.settings.AllowDriverConfig = false }, verdict.DriverConfigDisabled, conf + ": caller driver config is disabled"},
	{"even an empty object in it", func(w *world) {
		w.settings.AllowDriverConfig, w.template().DriverConfig = false, object(map[string]any{"pod": nil})
	}, verdict.DriverConfigDisabled, conf + ": "},
	{"an unknown member", func(w *world) { w.in("x", "host_network") }, invalid, conf + `["host_network"]: is not known`},
	{"an unknown member of the Pod", func(w *world) { w.in(true, "pod", "hostNetwork") }, invalid, conf + `.pod["hostNetwork"]: `},
	{"another container", func(w *world) { w.in(map[string]any{}, "containers", "sidecar") }, invalid, conf + `.containers["sidecar"]: `},
	{"an image by configuration", func(w *world) { w.in("x", "containers", "agent", "image") }, invalid, conf + `.containers.agent["image"]: `},
	{"claims", func(w *world) { w.in([]any{}, "containers", "agent", "resources", "claims") }, invalid, conf + `.containers.agent.resources["claims"]: `},
	{"a Pod that is text", func(w *world) { w.in(hidden, "pod") }, invalid, conf + ".pod: must be an object and is a string"},
	{"a Pod that is null", func(w *world) { w.in(nil, "pod") }, invalid, conf + ".pod: must be an object and is null"},
	{"too deep", func(w *world) {
		var v any = "x"
		for range 5000 {
			v = map[string]any{"a": v}
		}
		w.in(v, "pod")
	}, invalid, conf + ": is nested deeper"},
	{"too many values", func(w *world) { w.in(make([]any, 5000), "volumes") }, invalid, conf + ": has more values"},
	{"too much text", func(w *world) { w.in(strings.Repeat("x", 64<<10), "pod", "runtime_class_name") }, invalid, conf + ": has more text"},
	{"text that is no UTF-8", func(w *world) {
		w.template().DriverConfig.Fields["pod"] = structpb.NewStringValue("\xff")
	}, invalid, conf + ": holds text that is not UTF-8"},
	{"a name that is no UTF-8", func(w *world) {
		w.template().DriverConfig.Fields["p\xff"] = structpb.NewNullValue()
	}, invalid, conf + ": holds text that is not UTF-8"},
	{"a value of no kind", func(w *world) { w.template().DriverConfig.Fields["volumes"] = nil }, invalid, ""},
	{"a deep platform", func(w *world) {
		var v any = "x"
		for range 20 {
			v = []any{v}
		}
		w.on(v, "later")
	}, invalid, plat + ": is nested deeper"},
	// Scheduling.
	{"a selector with a bad key", func(w *world) { w.in(map[string]any{"a b": "c"}, "pod", "node_selector") }, invalid, conf + `.pod.node_selector["a b"]: `},
	{"a selector with a bad value", func(w *world) { w.on(map[string]any{"a": "b c"}, "node_selector") }, invalid, plat + `.node_selector["a"]: `},
	{"a runtime class in capitals", func(w *world) { w.in("GVisor", "pod", "runtime_class_name") }, invalid, conf + ".pod.runtime_class_name: "},
	{"a runtime class with a path", func(w *world) { w.on("../x", "runtime_class_name") }, invalid, plat + ".runtime_class_name: "},
	{"a priority class of the system", func(w *world) { w.in("system-node-critical", "pod", "priority_class_name") }, reserved, conf + ".pod.priority_class_name: "},
	{"a toleration of everything by Equal", func(w *world) { w.in([]any{map[string]any{}}, "pod", "tolerations") }, invalid, conf + ".pod.tolerations[0].key: "},
	{"a toleration by another operator", toleration("operator", "Gt"), invalid, conf + ".pod.tolerations[0].operator: "},
	{"a toleration with another effect", toleration("effect", "Evict"), invalid, conf + ".pod.tolerations[0].effect: "},
	{"a toleration with a value and Exists", toleration("value", "x"), invalid, conf + ".pod.tolerations[0].value: "},
	{"half a second", toleration("tolerationSeconds", 0.5), invalid, conf + ".pod.tolerations[0].tolerationSeconds: "},
	{"seconds that are no number", toleration("tolerationSeconds", math.NaN()), invalid, conf + ".pod.tolerations[0].tolerationSeconds: "},
	{"endless seconds", toleration("tolerationSeconds", math.Inf(1)), invalid, conf + ".pod.tolerations[0].tolerationSeconds: "},
	{"more seconds than fit", toleration("tolerationSeconds", 1e19), invalid, conf + ".pod.tolerations[0].tolerationSeconds: "},
	{"seconds without eviction", toleration("effect", "NoSchedule"), invalid, conf + ".pod.tolerations[0].tolerationSeconds: "},
	{"an unknown member of a toleration", toleration("toleration_seconds", 5.0), invalid, conf + `.pod.tolerations[0]["toleration_seconds"]: `},
	{"a toleration of the platform", func(w *world) { w.on([]any{"x"}, "tolerations") }, invalid, plat + ".tolerations[0]: "},
	{"many tolerations", func(w *world) { w.in(make([]any, 65), "pod", "tolerations") }, invalid, conf + ".pod.tolerations: "},
}

func toleration(member string, value any) func(*world) {
	return func(w *world) {
		t := map[string]any{"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60.0}
		t[member] = value
		w.in([]any{t}, "pod", "tolerations")
	}
}

func TestBreaches(t *testing.T) {
	for _, c := range breaches {
		w := base(t)
		c.change(w)
		sandbox, d := w.create(t)
		check(t, c, sandbox, d)
	}
}

func check(t *testing.T, c breach, sandbox request.Sandbox, d verdict.Decision) {
	t.Helper()
	if d.Granted() || !sandbox.IsZero() {
		t.Errorf("%s: accepted", c.name)
		return
	}
	spec, _ := c.reason.Spec()
	if d.Reason != c.reason || d.Code() != spec.Code || !strings.HasPrefix(d.Message(), c.want) || d.Explanation != d.Message() {
		t.Errorf("%s: %s %v %q, want %s %v %q", c.name, d.Reason, d.Code(), d.Message(), c.reason, spec.Code, c.want)
	}
	if len(d.Message()) > 7000 || strings.Contains(d.Explain(), hidden) || strings.ContainsAny(d.Message(), "\n\x00") || !utf8.ValidString(d.Message()) {
		t.Errorf("%s: the message tells too much: %.300q", c.name, d.Message())
	}
}

// TestOnlyCreateNeedsCredentials: ValidateSandboxCreate comes before there are any.
func TestOnlyCreateNeedsCredentials(t *testing.T) {
	w := base(t)
	w.spec().LaunchAuthentication = nil
	if _, d := w.reader(t).Validate(w.sandbox); !d.Granted() {
		t.Error(d.Explain())
	}
	if _, d := w.create(t); d.Code() != codes.FailedPrecondition {
		t.Error(d.Explain())
	}
}

// TestAllAtOnce: everything is told up to a limit, and the first problem in the order of the contract gives the code.
func TestAllAtOnce(t *testing.T) {
	w := base(t)
	w.settings.AllowDriverConfig = false
	w.sandbox.Id, w.sandbox.Name = "", "a.b"
	w.template().Labels = map[string]string{"openshell.ai/x": "y"}
	_, d := w.create(t)
	for _, want := range []string{conf + ": ", "; sandbox.id: ", "; sandbox.name: ", "; " + tmpl + "labels["} {
		if !strings.Contains(d.Message(), want) {
			t.Errorf("%q is not in %q", want, d.Message())
		}
	}
	if d.Code() != codes.FailedPrecondition || d.Step != conf {
		t.Errorf("%s at %s", d.Reason, d.Step)
	}
	w = base(t)
	w.spec().Environment = map[string]string{}
	for i := range 500 {
		w.spec().Environment[fmt.Sprintf("%d%s", i, strings.Repeat("x", 300))] = hidden
	}
	_, d = w.create(t)
	sent := status.Convert(d.SafeErr()).Message()
	told := strings.Split(sent, "; ")
	if last := fmt.Sprintf("and %d more problems", 500-(len(told)-1)); sent != d.Message() || len(told) < 10 || told[len(told)-1] != last {
		t.Errorf("%d bytes of %d: %.400q; %q, want %q", len(sent), len(d.Message()), sent, told[len(told)-1], last)
	}
}

// TestMissingKindsNeverPanic: nil where the wire cannot have it.
func TestMissingKindsNeverPanic(t *testing.T) {
	for _, sandbox := range []*computev1.DriverSandbox{
		{}, {Spec: &computev1.DriverSandboxSpec{Template: &computev1.DriverSandboxTemplate{
			DriverConfig: &structpb.Struct{Fields: map[string]*structpb.Value{"pod": {}, "containers": nil, "volumes": {Kind: &structpb.Value_ListValue{}}}},
			PlatformConfig: &structpb.Struct{Fields: map[string]*structpb.Value{
				"tolerations": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{nil, {}}}), "annotations": {Kind: &structpb.Value_StructValue{}},
			}},
		}}},
	} {
		if _, d := base(t).reader(t).Create(sandbox); d.Granted() {
			t.Errorf("%v is accepted", sandbox)
		}
	}
}
