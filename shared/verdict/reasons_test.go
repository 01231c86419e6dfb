package verdict

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// declared returns the constants of type Reason in the package, by name.
func declared(t *testing.T) map[string]Reason {
	t.Helper()
	found := map[string]Reason{}
	files, err := filepath.Glob("reasons*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		declaredIn(t, name, found)
	}
	return found
}

func declaredIn(t *testing.T, name string, found map[string]Reason) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			value := spec.(*ast.ValueSpec)
			if kind, ok := value.Type.(*ast.Ident); !ok || kind.Name != "Reason" {
				t.Errorf("constant %s in %s has no type Reason", value.Names[0].Name, name)
				continue
			}
			if value.Doc == nil {
				t.Errorf("constant %s has no doc comment", value.Names[0].Name)
			}
			code, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found[value.Names[0].Name] = Reason(code)
		}
	}
}

func TestEveryDeclaredReasonIsRegisteredOnce(t *testing.T) {
	constants := declared(t)
	if len(constants) == 0 {
		t.Fatal("found no constants")
	}
	byCode := map[Reason]string{}
	for name, code := range constants {
		if other, ok := byCode[code]; ok {
			t.Errorf("%s and %s share the code %q", name, other, code)
		}
		byCode[code] = name
		if _, ok := code.Spec(); !ok {
			t.Errorf("%s (%q) has no entry in the table", name, code)
		}
	}
	for _, spec := range Reasons() {
		if _, ok := byCode[spec.Reason]; !ok {
			t.Errorf("the table has %q, which no constant declares", spec.Reason)
		}
	}
}

// defects names what is wrong with a table of reasons; the tests below prove that it sees each fault.
func defects(table []Spec) []string {
	var found []string
	report := func(spec Spec, what string) { found = append(found, string(spec.Reason)+": "+what) }
	seen := map[Reason]bool{}
	outcomeOf := map[codes.Code]Outcome{}
	for _, spec := range table {
		if seen[spec.Reason] {
			report(spec, "shares its code with another")
		}
		seen[spec.Reason] = true
		if !spec.Reason.wellFormed() {
			report(spec, "is not well formed")
		}
		if !strings.HasSuffix(spec.Doc, ".") {
			report(spec, "has no doc")
		}
		if spec.Message == "" || len(spec.Message) > maxMessage {
			report(spec, "has no message")
		}
		if spec.Outcome == Granted {
			report(spec, "grants")
		}
		if ClassOf(spec.Code) != spec.Outcome {
			report(spec, "has a code of another outcome")
		}
		if other, ok := outcomeOf[spec.Code]; ok && other != spec.Outcome {
			report(spec, "shares a gRPC code with another outcome")
		}
		outcomeOf[spec.Code] = spec.Outcome
	}
	return found
}

func TestTable(t *testing.T) {
	if found := defects(Reasons()); len(found) > 0 {
		t.Errorf("defects:\n%s", strings.Join(found, "\n"))
	}
}

func TestTableCheckBites(t *testing.T) {
	valid := Spec{Reason: "a", Doc: "A.", Outcome: Denied, Code: codes.PermissionDenied, Message: "no"}
	if found := defects([]Spec{valid}); len(found) != 0 {
		t.Fatalf("the valid base has defects: %v", found)
	}
	cases := []struct {
		name string
		edit func(*Spec)
		want string
	}{
		{"shared code", func(s *Spec) { s.Reason = "a" }, "a: shares its code with another"},
		{"capital", func(s *Spec) { s.Reason = "B" }, "B: is not well formed"},
		{"no doc", func(s *Spec) { s.Doc = "" }, "b: has no doc"},
		{"no message", func(s *Spec) { s.Message = "" }, "b: has no message"},
		{"no outcome", func(s *Spec) { s.Outcome = 0 }, "b: has a code of another outcome"},
		{"grant", func(s *Spec) { s.Outcome, s.Code = Granted, codes.OK }, "b: grants"},
		{"no code", func(s *Spec) { s.Code = codes.OK }, "b: has a code of another outcome"},
		{"unknown with a code of denied", func(s *Spec) { s.Outcome = Unknown }, "b: shares a gRPC code with another outcome"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			broken := valid
			broken.Reason = "b"
			c.edit(&broken)
			if found := defects([]Spec{valid, broken}); !slices.Contains(found, c.want) {
				t.Errorf("defects = %q, want %q among them", found, c.want)
			}
		})
	}
}

// The codes below are on dashboards and in the allowlist protocol; changing one breaks its users.
func TestCodesAreStable(t *testing.T) {
	want := []string{
		"unexplained internal unknown",
		"mesh_caller_unidentified unauthenticated denied",
		"mesh_caller_not_authorized permissiondenied denied",
		"too_many_calls resourceexhausted unknown",
		"call_ended deadlineexceeded unknown",
		"not_listed permissiondenied denied",
		"unsynced unavailable unknown",
		"stale unavailable unknown",
		"withdrawn unavailable unknown",
		"invalid unavailable unknown",
		"forked unavailable unknown",
		"behind unavailable unknown",
		"credential_missing invalidargument denied",
		"credential_too_large invalidargument denied",
		"other_gateway failedprecondition denied",
		"credential_malformed unauthenticated denied",
		"not_asked internal unknown",
		"tokenreview_failed internal unknown",
		"tokenreview_without_status internal unknown",
		"credential_not_accepted unauthenticated denied",
		"audience_not_accepted unauthenticated denied",
		"not_a_service_account permissiondenied denied",
		"service_account_not_accepted permissiondenied denied",
		"namespace_not_accepted permissiondenied denied",
		"credential_not_pod_bound permissiondenied denied",
		"namespace_lookup_failed internal unknown",
		"namespace_not_found permissiondenied denied",
		"namespace_replaced permissiondenied denied",
		"namespace_not_owned permissiondenied denied",
		"namespace_terminating permissiondenied denied",
		"pod_lookup_failed internal unknown",
		"pod_not_found permissiondenied denied",
		"pod_replaced permissiondenied denied",
		"pod_terminating permissiondenied denied",
		"pod_sandbox_id_missing permissiondenied denied",
		"pod_sandbox_id_conflict permissiondenied denied",
		"pod_pairing_mismatch permissiondenied denied",
		"pod_owner_invalid permissiondenied denied",
		"pod_owner_controller permissiondenied denied",
		"sandbox_lookup_failed internal unknown",
		"sandbox_not_found permissiondenied denied",
		"sandbox_replaced permissiondenied denied",
		"sandbox_id_mismatch permissiondenied denied",
		"sandbox_terminating permissiondenied denied",
		"sandbox_not_managed permissiondenied denied",
		"sandbox_other_gateway permissiondenied denied",
		"sandbox_other_namespace permissiondenied denied",
		"not_the_supervisor permissiondenied denied",
		"supervisor_not_recorded permissiondenied denied",
		"supervisor_not_current permissiondenied denied",
		"runtime_identity_unusable internal unknown",
		"request_invalid invalidargument denied",
		"run_sandbox_absent notfound denied",
		"run_object_unreadable unavailable unknown",
		"run_sandbox_replaced failedprecondition denied",
		"run_sandbox_foreign failedprecondition denied",
		"run_sandbox_deleting failedprecondition denied",
		"run_record_invalid failedprecondition denied",
		"run_is_another failedprecondition denied",
		"run_is_taken unavailable unknown",
		"run_broke failedprecondition denied",
		"run_not_ready failedprecondition denied",
		"pod_image_unavailable failedprecondition denied",
		"pod_image_unusable failedprecondition denied",
		"pod_claim_unbound failedprecondition denied",
		"pod_unschedulable failedprecondition denied",
		"pod_not_started failedprecondition denied",
		"pod_crashed failedprecondition denied",
		"fence_not_acknowledged failedprecondition denied",
		"fence_altered failedprecondition denied",
		"fence_reopened failedprecondition denied",
		"companion_collision failedprecondition denied",
		"service_without_address failedprecondition denied",
		"workload_missing unavailable unknown",
		"workload_refused failedprecondition denied",
		"workload_altered failedprecondition denied",
		"companion_altered failedprecondition denied",
		"gate_lifted failedprecondition denied",
		"companion_refused failedprecondition denied",
		"run_stop_overdue unavailable unknown",
		"launch_authentication_invalid failedprecondition denied",
		"fence_egress_open failedprecondition denied",
		"fence_ingress_open failedprecondition denied",
		"probe_not_run unavailable unknown",
		"probe_cluster_unreadable unavailable unknown",
		"probe_refused unavailable unknown",
		"probe_pod_altered unavailable unknown",
		"probe_pod_failed unavailable unknown",
		"probe_report_invalid unavailable unknown",
		"probe_target_unreached unavailable unknown",
		"probe_door_unreached unavailable unknown",
		"probe_undecided unavailable unknown",
		"workspace_invalid invalidargument denied",
		"workspace_absent failedprecondition denied",
		"workspace_foreign failedprecondition denied",
		"workspace_terminating unavailable unknown",
		"workspace_refused failedprecondition denied",
		"workspace_unreadable unavailable unknown",
		"workspace_scc_pending unavailable unknown",
		"workspace_scc_prevented failedprecondition denied",
		"gateway_incompatible failedprecondition denied",
		"driver_config_disabled failedprecondition denied",
		"request_reserved invalidargument denied",
		"image_unset failedprecondition denied",
		"gpu_absent failedprecondition denied",
		"gpu_unreadable unavailable unknown",
		"identity_unreadable unavailable unknown",
		"identity_impossible failedprecondition denied",
		"attachment_forbidden failedprecondition denied",
		"attachment_unreadable unavailable unknown",
		"attachment_absent failedprecondition denied",
		"attachment_incomplete failedprecondition denied",
		"attachment_deleting failedprecondition denied",
		"attachment_of_sandbox failedprecondition denied",
		"attachment_unlabelled failedprecondition denied",
		"attachment_replaced failedprecondition denied",
		"attachment_record_invalid failedprecondition denied",
		"sandbox_exists alreadyexists denied",
		"sandbox_absent notfound denied",
		"sandbox_ambiguous failedprecondition denied",
		"sandbox_unreadable internal unknown",
		"sandbox_refused failedprecondition denied",
		"sandbox_resource_unserved failedprecondition denied",
		"sandbox_unsettled unavailable unknown",
		"view_not_current unavailable unknown",
		"watch_behind unavailable unknown",
		"expected_identity_mismatch failedprecondition denied",
		"supervisorctl_unreachable unavailable unknown",
		"tokenauth_unreachable unavailable unknown",
	}
	var got []string
	for _, spec := range Reasons() {
		got = append(got, strings.Join([]string{
			string(spec.Reason), strings.ToLower(spec.Code.String()), spec.Outcome.String(),
		}, " "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("reasons = %q\nwant      %q", got, want)
	}
}

func TestCamelCase(t *testing.T) {
	for reason, want := range map[Reason]string{
		"": "", RunBroke: "RunBroke", PodImageUnavailable: "PodImageUnavailable", CallEnded: "CallEnded", "_a__b": "AB", "x9_y": "X9Y",
	} {
		if got := reason.CamelCase(); got != want {
			t.Errorf("%q: %q", reason, got)
		}
	}
}

func TestReasonsIsACopy(t *testing.T) {
	Reasons()[0].Outcome = Granted
	if spec, _ := Unexplained.Spec(); spec.Outcome != Unknown {
		t.Error("writing to the result changed the table")
	}
}

func TestClassesPartitionTheCodes(t *testing.T) {
	for code := codes.OK; code <= codes.Unauthenticated+1; code++ {
		if got := ClassOf(code) == Granted; got != (code == codes.OK) {
			t.Errorf("ClassOf(%v) = %v", code, ClassOf(code))
		}
	}
	unknown := []codes.Code{codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.Internal, codes.Unavailable, codes.DataLoss, 99}
	for _, code := range unknown {
		if got := ClassOf(code); got != Unknown {
			t.Errorf("ClassOf(%v) = %v, want unknown: the code says nothing about the request", code, got)
		}
	}
}
