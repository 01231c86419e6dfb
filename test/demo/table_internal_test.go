package demo

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/test/gateway"
)

// TestTable: what a look must find open is open, what must be closed is closed, and nothing is missing.
func TestTable(t *testing.T) {
	t.Parallel()
	targets := []target{{"itself", "tcp:127.0.0.1:1"}, {"the API", "tcp:10.0.0.1:443"}, {"the gateway", "tcp:10.0.0.2:80"}}
	const fenced = "tcp:127.0.0.1:1 open\ntcp:10.0.0.1:443 dial tcp 10.0.0.1:443: i/o timeout\ntcp:10.0.0.2:80 dial tcp 10.0.0.2:80: connect: connection refused\n"
	const free = "tcp:127.0.0.1:1 open\ntcp:10.0.0.1:443 open\ntcp:10.0.0.2:80 open\n"
	for name, tc := range map[string]struct {
		said string
		open bool
		want string // in what was seen; empty for an error
	}{
		"fenced, and it shall be":             {fenced, false, "blocked (i/o timeout)"},
		"free, and it shall be":               {free, true, "open"},
		"free, and it shall not be":           {free, false, ""},
		"fenced, and it shall not be":         {fenced, true, ""},
		"one is open":                         {strings.Replace(fenced, "dial tcp 10.0.0.1:443: i/o timeout", "open", 1), false, ""},
		"the look can find nothing open":      {strings.Replace(fenced, "1 open", "1 refused", 1), false, ""},
		"one was not looked at":               {strings.Replace(fenced, "tcp:10.0.0.1:443", "tcp:10.0.0.9:443", 1), false, ""},
		"nothing was said, and all shall be":  {"", true, ""},
		"nothing was said, and all shall not": {"", false, ""},
	} {
		seen, err := table(targets, tc.said, tc.open)
		if (err == nil) != (tc.want != "") || err == nil && !strings.Contains(seen, tc.want) {
			t.Errorf("%s: %q, %v", name, seen, err)
		}
	}
}

// TestAnsweredWith: no other error, and no success, passes for the refusal that is to be shown.
func TestAnsweredWith(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer error
		wanted []codes.Code
		is     bool
	}{
		"the code":              {status.Error(codes.PermissionDenied, "no"), []codes.Code{codes.PermissionDenied}, true},
		"one of two":            {status.Error(codes.Internal, "no"), []codes.Code{codes.Unavailable, codes.Internal}, true},
		"it is done":            {nil, []codes.Code{codes.PermissionDenied}, false},
		"a daemon that is away": {status.Error(codes.Unavailable, "connection refused"), []codes.Code{codes.PermissionDenied}, false},
		"a no for a not known":  {status.Error(codes.PermissionDenied, "no"), []codes.Code{codes.Unavailable, codes.Internal}, false},
		"no status":             {errors.New("broken"), []codes.Code{codes.Unavailable, codes.Internal}, false},
	} {
		if err := answeredWith(tc.answer, tc.wanted...); (err == nil) != tc.is {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTold: people are told of phases, sessions, where Pods went and of warnings, and not of what every start has.
func TestTold(t *testing.T) {
	t.Parallel()
	for message, want := range map[[3]string]string{
		{"Normal", "Scheduled", "Successfully assigned team-a/box to node-1"}:                   "driver: Pod scheduled|box on node-1",
		{"Normal", "Scheduled", "Successfully assigned team-a/os-supervisor-0123-45 to node-1"}: "driver: Pod scheduled|os-supervisor-… on node-1",
		{"Normal", "Started", "Container started"}:                                              "|",
		{"Warning", "Unhealthy", "Readiness probe failed"}:                                      "|",
		{"Warning", "FailedScheduling", "0/1 nodes\nare available"}:                             "driver: FailedScheduling|0/1 nodes",
	} {
		what, detail := platform(message[0], message[1], message[2])
		if got := what + "|" + detail; got != want {
			t.Errorf("%v: %q, want %q", message, got, want)
		}
	}
	if what, _ := told(gateway.Event{Kind: gateway.PhaseChanged, From: "Provisioning", To: "Ready"}); what != "gateway: Provisioning -> Ready" {
		t.Error(what)
	}
	if what, _ := told(gateway.Event{Kind: gateway.Swept}); what != "" {
		t.Error(what)
	}
}
