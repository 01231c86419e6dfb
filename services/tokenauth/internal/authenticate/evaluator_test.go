package authenticate

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// mustGrant checks everything about a grant of the valid bearer.
func mustGrant(t *testing.T, w *world) {
	t.Helper()
	r := evaluatorIn(t, w.mode).Evaluate(w.facts())
	if !r.Decision.Granted() || !r.Final() {
		t.Fatalf("refused: %s; next %v", r.Decision.Explain(), r.Next)
	}
	namespace := namespaceIn(w.mode)
	if want := "kubernetes://" + namespace + "/" + boxUID + "/" + podUID; r.Identity.String() != want || r.SandboxID != sandboxID {
		t.Errorf("identity %q of sandbox %q, want %q of %q", r.Identity, r.SandboxID, want, sandboxID)
	}
	want := Bearer{Namespace: namespace, ServiceAccount: "sandbox-runner", PodName: podName, PodUID: podUID, SandboxID: sandboxID, SandboxUID: boxUID}
	if r.Bearer != want {
		t.Errorf("bearer %+v, want %+v", r.Bearer, want)
	}
	if got := r.Decision.Allowlist; got != w.again.Evidence() {
		t.Errorf("evidence %s, want that of the last answer, %s", got, w.again.Evidence())
	}
}

func TestTheValidBearerIsGranted(t *testing.T) {
	both := func(w *world) { w.pod.Annotations[workspace.AnnotationSandboxIDFormer] = sandboxID }
	no := false
	for _, mode := range modes {
		for name, change := range map[string]func(*world){
			"as it is":            func(*world) {},
			"in both spellings":   both,
			"in the old spelling": func(w *world) { both(w); delete(w.pod.Annotations, workspace.AnnotationSandboxID) },
			"through the older version": func(w *world) {
				w.owner().APIVersion, w.version = "agents.x-k8s.io/v1alpha1", sandboxapi.V1alpha1
			},
			"owned by no controller, explicitly": func(w *world) { w.owner().Controller = &no },
			"with a credential of one byte":      func(w *world) { w.bytes = 1 },
			"with the longest credential":        func(w *world) { w.bytes = 16384 },
			"with other extras":                  func(w *world) { extra(w, "authentication.kubernetes.io/node-name", "n1", "n2") },
			"beside what other modes look at": func(w *world) {
				if mode != driverconf.ModeManaged {
					w.sandbox.Labels[workspace.LabelSandboxWorkspace] = "another"
					w.namespace.Labels = nil
				}
				if mode != driverconf.ModeOperator {
					w.namespace.UID = "another"
				}
				if mode == driverconf.ModeShared {
					w.nsIs = failed
				}
			},
		} {
			t.Run(string(mode)+"/"+name, func(t *testing.T) {
				w := valid(t, mode)
				change(w)
				mustGrant(t, w)
			})
		}
	}
}

// A list from a file names no uids, so there is nothing to compare; that the namespace is there, and stays, matters no less.
func TestAListFromAFile(t *testing.T) {
	fromFile := func() *world {
		w := valid(t, driverconf.ModeOperator)
		w.list.UID, w.again.UID, w.namespace.UID = "", "", "another"
		return w
	}
	mustGrant(t, fromFile())
	for _, b := range breachesIn(driverconf.ModeOperator) {
		if b.step == "namespace.found" || b.step == "namespace.deletion" {
			w := fromFile()
			b.do(w)
			mustRefuse(t, w, b)
		}
	}
}

// The source of the list may change while a call runs. Whichever answer names a uid, it must be that of the live namespace.
func TestAListThatComesToNameUIDs(t *testing.T) {
	w := valid(t, driverconf.ModeOperator)
	w.list.UID = ""
	mustGrant(t, w)
	w = valid(t, driverconf.ModeOperator)
	w.again.UID = ""
	mustGrant(t, w)
}

// at is the place of a step in the order.
func at(t *testing.T, name string) int {
	t.Helper()
	i := slices.IndexFunc(steps[:], func(c check) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("there is no step %s", name)
	}
	return i
}

// mustRefuse checks that the step of b, and no other, refuses w.
func mustRefuse(t *testing.T, w *world, b breach) {
	t.Helper()
	r := evaluatorIn(t, w.mode).Evaluate(w.facts())
	if r.Decision.Granted() || r.SandboxID != "" || !r.Identity.IsZero() {
		t.Fatalf("granted: %+v", r)
	}
	if r.Decision.Step != b.step || r.Decision.Reason != b.reason {
		t.Fatalf("refused by %s with %s, want %s with %s: %s", r.Decision.Step, r.Decision.Reason, b.step, b.reason, r.Decision.Explain())
	}
	if r.Decision.Explanation == "" || strings.ContainsAny(r.Decision.Explanation, "\n\r") {
		t.Errorf("explanation %q is not one line", r.Decision.Explanation)
	}
	if got := r.Final(); got != (b.reason != verdict.NotAsked) {
		t.Errorf("final is %v for %s, next %v", got, b.reason, r.Next)
	}
	asked := w.mode == driverconf.ModeOperator && w.list.Namespace == team && at(t, b.step) >= at(t, "namespace.accepted") && r.Bearer.Namespace == team
	if got := r.Decision.Allowlist != (verdict.Evidence{}); got != asked {
		t.Errorf("evidence of the list is there: %v, and the list was asked: %v", got, asked)
	}
}

// together is a valid world with b and one breach of every later step.
func together(t *testing.T, applies []breach, b breach, mode driverconf.Mode) *world {
	t.Helper()
	w, last := valid(t, mode), b.step
	for _, later := range slices.Backward(applies) {
		if later.step != last && at(t, later.step) > at(t, b.step) {
			later.do(w)
			last = later.step
		}
	}
	b.do(w)
	return w
}

func breachesIn(mode driverconf.Mode) []breach {
	return slices.DeleteFunc(breaches(), func(b breach) bool { return b.only != "" && b.only != mode })
}

// Every check is broken alone, and together with every later one.
func TestEveryStepRefusesInItsPlace(t *testing.T) {
	for _, mode := range modes {
		applies := breachesIn(mode)
		for _, b := range applies {
			t.Run(string(mode)+"/"+b.step+"/"+b.name, func(t *testing.T) {
				alone := valid(t, mode)
				b.do(alone)
				mustRefuse(t, alone, b)
				mustRefuse(t, together(t, applies, b, mode), b)
			})
		}
	}
}

// The cases above notice when two neighbours change places, except where no facts can break both: a credential is not empty
// and too long, and no mode has both namespace.uid and namespace.owned.
func TestTheCasesNoticeAnotherOrder(t *testing.T) {
	for i := range len(steps) - 1 {
		order := slices.Clone(steps[:])
		order[i], order[i+1] = order[i+1], order[i]
		if exclusive := steps[i].name == "request.credential" || steps[i].name == "namespace.uid"; noticed(t, order) == exclusive {
			t.Errorf("%s before %s: the cases notice it: %v", steps[i+1].name, steps[i].name, !exclusive)
		}
	}
}

// noticed runs the cases with another order of steps. A step that runs before the one that it rests on may panic.
func noticed(t *testing.T, order []check) (yes bool) {
	t.Helper()
	defer func() { yes = yes || recover() != nil }()
	for _, mode := range modes {
		applies := breachesIn(mode)
		for _, b := range applies {
			r := evaluatorIn(t, mode).evaluate(order, together(t, applies, b, mode).facts(), func(*check, *evaluation, finding) {})
			if r.Decision.Step != b.step || r.Decision.Reason != b.reason {
				return true
			}
		}
	}
	return false
}

// Leaving out any step grants what must be refused, in a mode that has the step, or breaks the steps that rest on it.
func TestNoStepIsIdle(t *testing.T) {
	for i := range steps {
		order := slices.Delete(slices.Clone(steps[:]), i, i+1)
		if !noticed(t, order) {
			t.Errorf("without %s no case fails", steps[i].name)
		}
	}
}

// Every reason that a step declares is one that a case provokes, and the other way round.
func TestCasesCoverTheTable(t *testing.T) {
	declared, provoked := map[string]bool{}, map[string]bool{}
	for _, s := range Steps() {
		for _, r := range s.Reasons {
			declared[s.Name+" "+string(r)] = true
		}
	}
	for _, b := range breaches() {
		provoked[b.step+" "+string(b.reason)] = true
	}
	for pair := range declared {
		if !provoked[pair] {
			t.Errorf("no case provokes %s", pair)
		}
	}
	for pair := range provoked {
		if !declared[pair] {
			t.Errorf("no step declares %s", pair)
		}
	}
}

// Reasons that only this package gives have one step each; what several steps share is named here.
func TestReasonsTellTheStep(t *testing.T) {
	sharedBy := map[verdict.Reason]bool{
		verdict.NotAsked: true, verdict.NamespaceReplaced: true, verdict.NotListed: true, verdict.Unsynced: true, verdict.Stale: true,
		verdict.Withdrawn: true, verdict.Invalid: true, verdict.Forked: true, verdict.Behind: true,
	}
	seen := map[verdict.Reason]string{}
	for _, s := range Steps() {
		for _, r := range s.Reasons {
			if other, ok := seen[r]; ok && !sharedBy[r] {
				t.Errorf("%s and %s both refuse with %s", other, s.Name, r)
			}
			seen[r] = s.Name
			if _, ok := r.Spec(); !ok {
				t.Errorf("%s refuses with %q, which is not registered", s.Name, r)
			}
		}
	}
}

func TestTheContractsOrderIsKept(t *testing.T) {
	var order []int
	for _, s := range Steps() {
		if s.Contract != 0 {
			order = append(order, s.Contract)
		}
	}
	if want := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 14, 15, 16, 16, 17}; !slices.Equal(order, want) {
		t.Errorf("the contract's checks come as %v, want %v", order, want)
	}
	Steps()[0].Reasons[0] = "changed"
	if Steps()[0].Reasons[0] != verdict.CredentialMissing {
		t.Error("writing to the result changed the table")
	}
}

func TestZeroValuesRefuse(t *testing.T) {
	e, f := evaluatorIn(t, driverconf.ModeShared), valid(t, driverconf.ModeShared).facts()
	for name, r := range map[string]Result{
		"no facts": e.Evaluate(nil), "zero facts": e.Evaluate(&Facts{}), "no evaluator": (*Evaluator)(nil).Evaluate(f), "zero evaluator": (&Evaluator{}).Evaluate(f),
	} {
		if r.Decision.Granted() || !r.Final() || !r.Identity.IsZero() {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if (Result{}).Decision.Granted() || (finding{}).goesOn() {
		t.Error("a zero value grants")
	}
	// Nothing that a zero policy holds may match something in the facts.
	for _, mode := range append(modes, "", "cluster") {
		w := valid(t, driverconf.ModeOperator)
		for _, p := range []Policy{
			{Scheme: workspace.Scheme{Mode: mode}},
			{Scheme: workspace.Scheme{Mode: mode}, Accounts: []Account{{}, {Name: "sandbox-runner"}}},
			{Scheme: workspace.Scheme{Mode: mode, GatewayID: gatewayID}, Accounts: []Account{{}}},
			{Scheme: workspace.Scheme{GatewayID: gatewayID}, Accounts: []Account{{Name: "sandbox-runner"}}},
		} {
			w.gateway, w.sandbox.Labels[workspace.LabelGatewayID] = p.Scheme.GatewayID, p.Scheme.GatewayID
			if r := (&Evaluator{policy: p}).Evaluate(w.facts()); r.Decision.Granted() {
				t.Errorf("policy %+v grants", p)
			}
		}
	}
}

func TestAnEmptyAnswerIsNoAnswer(t *testing.T) {
	w := valid(t, driverconf.ModeShared)
	f := w.facts()
	f.Pod = Found[metav1.ObjectMeta](f.Pod.About(), nil)
	if r := evaluatorIn(t, w.mode).Evaluate(f); r.Decision.Reason != verdict.PodLookupFailed {
		t.Errorf("a nil Pod: %s", r.Decision.Explain())
	}
	f.Pod = Failed[metav1.ObjectMeta](f.Pod.About(), nil)
	if r := evaluatorIn(t, w.mode).Evaluate(f); r.Decision.Reason != verdict.PodLookupFailed {
		t.Errorf("a failure without a cause: %s", r.Decision.Explain())
	}
	if q := (Question{}); Found(q, &w.pod).of(q) != notAsked {
		t.Error("an answer to no question counts")
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		edit       func(*driverconf.Kubernetes)
	}{
		{"no mode", "workspace mode", func(k *driverconf.Kubernetes) { k.WorkspaceMode = "" }},
		{"no gateway", "gateway id", func(k *driverconf.Kubernetes) { k.GatewayID = "" }},
		{"no account", "service_account_name", func(k *driverconf.Kubernetes) { k.ServiceAccountName = "" }},
		{"no account's name", "service_account_name", func(k *driverconf.Kubernetes) { k.ServiceAccountName = "a:b" }},
		{"no namespace in shared mode", "namespace", func(k *driverconf.Kubernetes) { k.WorkspaceMode, k.Namespace = driverconf.ModeShared, "" }},
	} {
		k := &driverconf.Kubernetes{WorkspaceMode: driverconf.ModeOperator, GatewayID: "a", Namespace: "n", ServiceAccountName: "s"}
		if _, err := New(PolicyOf(k)); err != nil {
			t.Fatal(err)
		}
		c.edit(k)
		if e, err := New(PolicyOf(k)); err == nil || e != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := New(Policy{Scheme: workspace.Scheme{Mode: driverconf.ModeOperator, GatewayID: "a"}}); err == nil {
		t.Error("a policy without accounts is taken")
	}
	accounts := []Account{{Name: "sandbox-runner"}}
	e, err := New(Policy{Scheme: workspace.Scheme{Mode: driverconf.ModeOperator, GatewayID: "a"}, Accounts: accounts})
	if err != nil {
		t.Fatal(err)
	}
	if accounts[0].Name = "other"; e.policy.Accounts[0].Name != "sandbox-runner" {
		t.Error("the policy changed with the caller's slice")
	}
}

// Whoever asked is told the contract's code and text, and nothing of what was compared.
func TestTheCallerIsToldNothingElse(t *testing.T) {
	allowed := map[string]bool{
		"credential is required": true, "credential is too large": true, "the request is for another gateway": true, "Kubernetes TokenReview failed": true,
		"the sandbox credential could not be checked": true, "sandbox credential was not accepted": true,
		"sandbox credential namespace is not accepted by the driver": true, "the operator namespace allowlist is not available": true,
		"the exchange must come from the paired supervisor Pod": true,
	}
	for _, mode := range modes {
		for _, b := range breachesIn(mode) {
			w := valid(t, mode)
			b.do(w)
			st := status.Convert(evaluatorIn(t, mode).Evaluate(w.facts()).Decision.SafeErr())
			if !allowed[st.Message()] || len(st.Details()) != 0 {
				t.Errorf("%s, %s: the caller is told %q", b.step, b.name, st.Message())
			}
			if b.reason == verdict.NotListed && (st.Code() != codes.PermissionDenied || st.Message() != "sandbox credential namespace is not accepted by the driver") {
				t.Errorf("not listed: %v", st)
			}
		}
	}
}
