package app_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/capabilities"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/driver"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/observe"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/template"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/workspaces"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// rpcs are the calls of the contract, in the order of the document.
var rpcs = []string{
	"GetCapabilities", "AuthenticateSandbox", "ValidateSandboxCreate", "CreateSandbox", "StartSandbox", "StopSandbox", "DeleteSandbox", "GetSandbox",
	"ListSandboxes", "WatchSandboxes", "EnsureWorkspace", "DeleteWorkspace",
}

// refusing is every part of the driver that asks somebody: it refuses all that is asked. Creates find that the id is free.
type refusing struct {
	driver.Cluster
	supervisorv1.SupervisorServiceClient
	tokenauthv1.TokenAuthServiceClient
	err  error
	free bool
}

func (r *refusing) Find(context.Context, string) ([]sandboxapi.Object, error) {
	if r.free {
		return nil, nil
	}
	return nil, r.err
}

func (r *refusing) Get(context.Context, string) (*computev1.DriverSandbox, error) { return nil, r.err }

func (r *refusing) List() ([]*computev1.DriverSandbox, error) { return nil, r.err }

func (r *refusing) Check(context.Context) error { return nil }

func (r *refusing) Watch(context.Context, func(*computev1.WatchSandboxesEvent) error) error {
	return r.err
}

func (r *refusing) Authenticate(context.Context, *tokenauthv1.AuthenticateRequest, ...grpc.CallOption) (*tokenauthv1.AuthenticateResponse, error) {
	refusal := new(workspaces.Refusal)
	if errors.As(r.err, &refusal) {
		return nil, refusal.Decision.Err()
	}
	return nil, r.err
}

// places are the workspaces of one that refuses.
type places struct{ err error }

func (p places) Ensure(context.Context, string) (workspaces.Place, error) {
	return workspaces.Place{}, p.err
}

func (p places) Enter(context.Context, string) (workspaces.Place, error) {
	return workspaces.Place{}, p.err
}
func (p places) Delete(context.Context, string) error { return p.err }
func (p places) Still(workspaces.Place) error         { return p.err }

// answering is a driver that answers whatever is asked with an error of its parts.
func answering(t *testing.T, err error, reg prometheus.Registerer) (*driver.Driver, *refusing) {
	t.Helper()
	loaded, problem := driverconf.Load(driverconf.Source{})
	if problem != nil {
		t.Fatal(problem)
	}
	k := loaded.Kubernetes
	k.SandboxRuntimeImage, k.DefaultImage = "registry.example/runtime:1", "registry.example/agent:1"
	parts := &refusing{err: err}
	deps := driver.Deps{Workspaces: places{err}, View: parts, Finder: parts, Cluster: parts, Companions: parts, Bearers: parts}
	var problems [5]error
	deps.Capabilities, problems[0] = capabilities.New(&k, capabilities.Options{Version: "test"})
	deps.Requests, problems[1] = request.New(&k)
	deps.Templates, problems[2] = template.New(&k, template.Options{})
	deps.Inventory, problems[3] = inventory.New(&k)
	d, problem := driver.New(driver.DefaultSettings(), &k, deps, zerolog.Nop(), reg)
	problems[4] = problem
	for _, problem := range problems {
		if problem != nil {
			t.Fatal(problem)
		}
	}
	return d, parts
}

// observing registers the metrics of the view.
func observing(t *testing.T, log zerolog.Logger, reg prometheus.Registerer) {
	t.Helper()
	scheme := workspace.Scheme{Mode: driverconf.ModeOperator, GatewayID: "blue"}
	sources := (&observe.Kube{}).Sources()
	if _, err := observe.New(observe.DefaultSettings(), scheme, sources, &refusing{}, log, reg); err != nil {
		t.Fatal(err)
	}
}

type stream struct {
	grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]
	ctx context.Context
}

func (s stream) Context() context.Context { return s.ctx }

// codeIn is the code that a call answers with when one of its parts refuses for a reason.
func codeIn(t *testing.T, rpc string, reason verdict.Reason) codes.Code {
	t.Helper()
	reg := prometheus.NewRegistry()
	d, parts := answering(t, &workspaces.Refusal{Decision: verdict.Refuse(reason, "test", "as the test says")}, reg)
	const id = "4b67c0d0-1111-2222-3333-444444444444"
	ctx, err := t.Context(), error(nil)
	if reason == verdict.CallEnded { // which a call says only when it has
		expired, cancel := context.WithDeadline(ctx, time.Unix(1, 0))
		defer cancel()
		ctx = expired
	}
	switch rpc {
	case "GetCapabilities":
		_, err = d.GetCapabilities(ctx, &computev1.GetCapabilitiesRequest{}) // there is one reason
	case "AuthenticateSandbox":
		_, err = d.AuthenticateSandbox(ctx, &computev1.AuthenticateSandboxRequest{Credential: "x"})
	case "ValidateSandboxCreate": // judges by what is in the request, and what cannot be injected; its codes are those of the registry
		spec, _ := reason.Spec()
		return spec.Code
	case "CreateSandbox":
		parts.free = true
		_, err = d.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: &computev1.DriverSandbox{
			Id: id, Name: "box", Workspace: "team", Spec: &computev1.DriverSandboxSpec{LaunchAuthentication: []byte("x")},
		}})
	case "StartSandbox":
		_, err = d.StartSandbox(ctx, &computev1.StartSandboxRequest{
			SandboxId: id, GenerationId: "g1", LaunchAuthentication: []byte("x"), ExpectedRuntimeIdentity: "kubernetes://team/uid-1/uid-2",
		})
	case "StopSandbox":
		_, err = d.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: id})
	case "DeleteSandbox":
		_, err = d.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: id})
	case "GetSandbox":
		_, err = d.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: id})
	case "ListSandboxes":
		_, err = d.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
	case "WatchSandboxes":
		err = d.WatchSandboxes(nil, stream{ctx: ctx})
	case "EnsureWorkspace":
		_, err = d.EnsureWorkspace(ctx, &computev1.EnsureWorkspaceRequest{Workspace: "team"})
	case "DeleteWorkspace":
		_, err = d.DeleteWorkspace(ctx, &computev1.DeleteWorkspaceRequest{Workspace: "team"})
	}
	if refused := refusals(t, reg); refused != rpc+" "+string(reason) { // the gateway is not told the reason
		t.Errorf("%s refuses with %q and answers %v, where its part refused with %s", rpc, refused, err, reason)
	}
	return status.Code(err)
}

// refusals are the calls that were refused and why, as counted.
func refusals(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		if family.GetName() != "portcullis_lifecycle_refusals_total" {
			continue
		}
		for _, counted := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range counted.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			all = append(all, labels["method"]+" "+labels["reason"])
		}
	}
	return strings.Join(all, ", ")
}

var (
	making   = []string{"ValidateSandboxCreate", "CreateSandbox"}
	attach   = append(slices.Clone(making), "StartSandbox")
	entering = []string{"CreateSandbox", "StartSandbox", "EnsureWorkspace"}
	managed  = []string{"CreateSandbox", "EnsureWorkspace"}
	finding  = []string{"CreateSandbox", "StartSandbox", "StopSandbox", "DeleteSandbox"}
	working  = []string{"AuthenticateSandbox", "ValidateSandboxCreate", "CreateSandbox", "StartSandbox", "StopSandbox", "DeleteSandbox", "GetSandbox", "EnsureWorkspace", "DeleteWorkspace"}
	viewing  = []string{"GetSandbox", "ListSandboxes", "WatchSandboxes"}
)

// given says in which calls lifecycle refuses for a reason.
var given = map[verdict.Reason][]string{
	verdict.CallEnded: working, verdict.RequestInvalid: {"ValidateSandboxCreate", "CreateSandbox", "StartSandbox", "StopSandbox", "DeleteSandbox", "GetSandbox", "EnsureWorkspace", "DeleteWorkspace"},
	verdict.GatewayIncompatible: {"GetCapabilities"}, verdict.CredentialTooLarge: {"AuthenticateSandbox"}, verdict.TokenauthUnreachable: {"AuthenticateSandbox"},
	verdict.DriverConfigDisabled: making, verdict.RequestReserved: making, verdict.ImageUnset: making, verdict.GPUAbsent: making, verdict.GPUUnreadable: making,
	verdict.IdentityUnreadable: making, verdict.IdentityImpossible: making,
	verdict.LaunchInvalid: {"CreateSandbox", "StartSandbox"}, verdict.ExpectedIdentity: {"StartSandbox"},
	verdict.AttachmentForbidden: attach, verdict.AttachmentUnreadable: attach[1:], verdict.AttachmentAbsent: attach[1:], verdict.AttachmentIncomplete: attach[1:],
	verdict.AttachmentDeleting: attach[1:], verdict.AttachmentOfSandbox: attach[1:], verdict.AttachmentUnlabelled: attach[1:],
	verdict.AttachmentReplaced: {"StartSandbox"}, verdict.AttachmentRecordInvalid: {"StartSandbox"},
	verdict.NotListed: entering, verdict.Unsynced: entering, verdict.Stale: entering, verdict.Withdrawn: entering, verdict.Invalid: entering,
	verdict.Forked: entering, verdict.Behind: entering, verdict.NamespaceReplaced: entering,
	verdict.WorkspaceInvalid: {"EnsureWorkspace", "DeleteWorkspace"}, verdict.WorkspaceAbsent: entering, verdict.WorkspaceForeign: managed,
	verdict.WorkspaceTerminating: append(slices.Clone(entering), "DeleteWorkspace"), verdict.WorkspaceRefused: append(slices.Clone(entering), "DeleteWorkspace"),
	verdict.WorkspaceUnreadable: append(slices.Clone(entering), "DeleteWorkspace"), verdict.WorkspaceSCCPending: managed, verdict.WorkspaceSCCPrevented: managed,
	verdict.SandboxExists: {"CreateSandbox"}, verdict.SandboxAbsent: {"StartSandbox", "StopSandbox", "GetSandbox"}, verdict.SandboxRefused: {"CreateSandbox"},
	verdict.SandboxAmbiguous: {"StartSandbox", "StopSandbox", "DeleteSandbox", "GetSandbox"}, verdict.SandboxUnreadable: {"StartSandbox", "GetSandbox"}, verdict.SandboxUnserved: append(slices.Clone(finding), "GetSandbox"),
	verdict.SandboxUnsettled: append(slices.Clone(finding), "GetSandbox"), verdict.ViewNotCurrent: append([]string{"StopSandbox"}, viewing[1:]...), verdict.WatchBehind: {"WatchSandboxes"},
	verdict.SupervisorctlUnreachable: finding, verdict.Unexplained: {"AuthenticateSandbox", "CreateSandbox", "StartSandbox"},
}

// judged are the packages that give reasons for some calls alone.
var judged = map[string][]string{
	"capabilities": {"GetCapabilities"}, "request": making, "identity": making, "inventory": attach, "workspaces": append(slices.Clone(entering), "DeleteWorkspace"),
}

// constants are the reasons by the names that the sources give them.
func constants(t *testing.T) map[string]verdict.Reason {
	t.Helper()
	found := map[string]verdict.Reason{}
	for _, m := range handbook.Scan(t, repository+"shared/verdict", regexp.MustCompile(`(?m)^\t([A-Z]\w+) +Reason = "(\w+)"`)) {
		found[m.Groups[1]] = verdict.Reason(m.Groups[2])
	}
	return found
}

// named are the reasons that the sources of a daemon name, with the packages.
func named(t *testing.T, daemon string) map[verdict.Reason][]string {
	t.Helper()
	reasons, found := constants(t), map[verdict.Reason][]string{}
	for _, m := range handbook.Scan(t, repository+"services/"+daemon+"/internal", regexp.MustCompile(`\bverdict\.([A-Z]\w+)\b`)) {
		if reason := reasons[m.Groups[1]]; reason != "" {
			found[reason] = append(found[reason], m.In)
		}
	}
	return found
}

// listed are the reasons of the allowlist, which its own package gives.
var listed = []verdict.Reason{verdict.NotListed, verdict.Unsynced, verdict.Stale, verdict.Withdrawn, verdict.Invalid, verdict.Forked, verdict.Behind}

// answersTable has every reason that lifecycle gives, in the registry's order, with the code in each call.
func answersTable(t *testing.T) handbook.Table {
	t.Helper()
	used := named(t, "lifecycle")
	for _, reason := range listed {
		used[reason] = append(used[reason], "workspaces")
	}
	w := handbook.Table{Head: []string{"Reason", "Known?", "Again?", "Code, and in which calls", "Is", "What to do"}}
	for _, spec := range verdict.Reasons() {
		in := given[spec.Reason]
		if (in == nil) != (used[spec.Reason] == nil) {
			t.Errorf("%s is named in %v, and said to be given in %v", spec.Reason, used[spec.Reason], in)
		}
		if in == nil {
			continue
		}
		for _, rpc := range in {
			if !slices.ContainsFunc(used[spec.Reason], func(from string) bool { return judged[from] == nil || slices.Contains(judged[from], rpc) }) {
				t.Errorf("%s is said to be given in %s, and only %v name it", spec.Reason, rpc, used[spec.Reason])
			}
		}
		known, again := "no", "no"
		if spec.Outcome == verdict.Unknown {
			known = "not known"
		}
		if spec.Retryable {
			again = "yes"
		}
		byCode := map[string][]string{}
		var order []string
		for _, rpc := range rpcs {
			if !slices.Contains(in, rpc) {
				continue
			}
			code := spelt(codeIn(t, rpc, spec.Reason))
			if byCode[code] == nil {
				order = append(order, code)
			}
			byCode[code] = append(byCode[code], rpc)
		}
		for i, code := range order {
			order[i] = "`" + code + "`: " + strings.Join(byCode[code], ", ")
		}
		w.Rows = append(w.Rows, []string{"`" + string(spec.Reason) + "`", known, again, strings.Join(order, "; "), spec.Doc})
		delete(used, spec.Reason)
	}
	if len(used) > 0 {
		t.Errorf("not in the registry: %v", slices.Collect(maps.Keys(used)))
	}
	return w
}

var capital = regexp.MustCompile(`([a-z])([A-Z])`)

func spelt(code codes.Code) string {
	return strings.ToUpper(capital.ReplaceAllString(code.String(), "${1}_$2"))
}

// passing are the calls in which lifecycle passes on what another daemon says.
var passing = map[string][]string{"supervisorctl": {"CreateSandbox", "StartSandbox", "StopSandbox"}, "tokenauth": {"AuthenticateSandbox"}}

// passed are the reasons of another daemon that lifecycle passes on. That supervisorctl's call has ended is not among them: it says so of
// its own call; see the document.
func passed(t *testing.T, daemon string) map[verdict.Reason][]string {
	t.Helper()
	used := named(t, daemon)
	used[verdict.CallerNotAuthorized] = []string{"shared"}
	switch daemon {
	case "supervisorctl":
		delete(used, verdict.CallEnded)
	case "tokenauth":
		for _, reason := range listed {
			used[reason] = []string{"shared"}
		}
	}
	delete(used, verdict.Unexplained)
	return used
}

// passedTable are the reasons of another daemon that lifecycle passes on, by the codes that they have then.
func passedTable(t *testing.T, daemon string) handbook.Table {
	t.Helper()
	calls, used := passing[daemon], passed(t, daemon)
	w, byCodes := handbook.Table{Head: append(slices.Clone(calls), "Reasons"), Whole: true}, map[string][]string{}
	for _, spec := range verdict.Reasons() {
		if used[spec.Reason] == nil {
			continue
		}
		var row []string
		for _, rpc := range calls {
			row = append(row, "`"+spelt(codeIn(t, rpc, spec.Reason))+"`")
		}
		key := strings.Join(row, " | ")
		byCodes[key] = append(byCodes[key], "`"+string(spec.Reason)+"`")
	}
	for _, key := range slices.SortedFunc(maps.Keys(byCodes), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(byCodes[b]), len(byCodes[a])), cmp.Compare(a, b))
	}) {
		w.Rows = append(w.Rows, append(strings.Split(key, " | "), strings.Join(byCodes[key], ", ")))
	}
	return w
}
