package app_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// kindsOfError are the codes that the contract's table has for the kinds of a driver's errors; anything else is INTERNAL (contract 2.7).
var kindsOfError = []codes.Code{codes.AlreadyExists, codes.NotFound, codes.InvalidArgument, codes.FailedPrecondition}

// ofTheBearer are the codes of the checks of a bearer (contract 6.1).
var ofTheBearer = []codes.Code{codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied}

// tabled is the code that the contract has for a refusal with a reason in a call: 2.7, 5.3 for whatever the allowlist says, loaded or not,
// and 6.1. Ours tells which kind of error the reason is.
func tabled(rpc string, reason verdict.Reason, ours codes.Code) codes.Code {
	list := slices.Contains(listed, reason) || reason == verdict.NamespaceReplaced
	among := func(known []codes.Code) codes.Code {
		if slices.Contains(known, ours) {
			return ours
		}
		return codes.Internal
	}
	switch rpc {
	case "GetCapabilities": // contract 2.3
		return codes.FailedPrecondition
	case "AuthenticateSandbox":
		if list {
			return codes.PermissionDenied
		}
		return among(ofTheBearer)
	case "EnsureWorkspace", "DeleteWorkspace":
		switch {
		case list:
			return codes.PermissionDenied
		case reason == verdict.RequestInvalid:
			return codes.InvalidArgument
		}
		return codes.Internal
	case "GetSandbox", "ListSandboxes", "WatchSandboxes", "DeleteSandbox":
		switch {
		case reason == verdict.RequestInvalid:
			return codes.InvalidArgument
		case reason == verdict.SandboxAbsent:
			return codes.NotFound
		}
		return codes.Internal
	default:
		if list {
			return codes.FailedPrecondition
		}
		return among(kindsOfError)
	}
}

// similar are calls whose differences from the table have the same cause.
var similar = [][]string{
	{"ValidateSandboxCreate", "CreateSandbox", "StartSandbox", "StopSandbox"},
	{"GetSandbox", "ListSandboxes", "WatchSandboxes", "DeleteSandbox"},
	{"EnsureWorkspace", "DeleteWorkspace"},
	{"AuthenticateSandbox"},
}

// departure is one way to differ.
type departure struct {
	tabled, ours codes.Code
	calls        []string // those that are alike
	in           map[string]bool
	reasons      []string
}

func (d *departure) add(rpc string, reason verdict.Reason) {
	d.in[rpc] = true
	if name := "`" + string(reason) + "`"; !slices.Contains(d.reasons, name) {
		d.reasons = append(d.reasons, name)
	}
}

func (d *departure) row() []string {
	var in []string
	for _, rpc := range d.calls {
		if d.in[rpc] {
			in = append(in, rpc)
		}
	}
	return []string{"`" + spelt(d.tabled) + "`, here `" + spelt(d.ours) + "`: " + strings.Join(in, ", "), strings.Join(d.reasons, ", ")}
}

// departuresTable is where the code of a call is not the contract's, for every reason that lifecycle gives or passes on.
func departuresTable(t *testing.T) handbook.Table {
	t.Helper()
	var found []*departure
	note := func(rpc string, reason verdict.Reason) {
		ours := codeIn(t, rpc, reason)
		of := tabled(rpc, reason, ours)
		if of == ours {
			return
		}
		alike := rpcs // what every call has is one
		if reason != verdict.CallEnded {
			alike = similar[slices.IndexFunc(similar, func(calls []string) bool { return slices.Contains(calls, rpc) })]
		}
		at := slices.IndexFunc(found, func(d *departure) bool { return d.tabled == of && d.ours == ours && slices.Equal(d.calls, alike) })
		if at < 0 {
			at = len(found)
			found = append(found, &departure{tabled: of, ours: ours, calls: alike, in: map[string]bool{}})
		}
		found[at].add(rpc, reason)
	}
	of := map[string]map[verdict.Reason][]string{"supervisorctl": passed(t, "supervisorctl"), "tokenauth": passed(t, "tokenauth")}
	for _, spec := range verdict.Reasons() {
		in := slices.Clone(given[spec.Reason])
		for daemon, reasons := range of {
			if reasons[spec.Reason] != nil {
				in = append(in, passing[daemon]...)
			}
		}
		for _, rpc := range rpcs {
			if slices.Contains(in, rpc) {
				note(rpc, spec.Reason)
			}
		}
	}
	w := handbook.Table{Head: []string{"Of the contract, here, and in which calls", "Reasons", "Why"}}
	for _, d := range found {
		w.Rows = append(w.Rows, d.row())
	}
	slices.SortStableFunc(w.Rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return w
}
