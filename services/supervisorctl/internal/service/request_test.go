package service_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// TestValidRequests reach the conductor as they are meant.
func TestValidRequests(t *testing.T) {
	wantRef := plan.Ref{GatewayID: gatewayID, SandboxID: sandboxID, Namespace: "sandboxes", Name: "team-a--demo", UID: "uid-box"}
	wantRun := plan.Run{Generation: generation, Session: session, Epoch: 1}
	for name, goal := range map[string]plan.Goal{"provision": plan.Provision, "restart": plan.Restart, "release": plan.Release, "remove": plan.Remove} {
		s := newSite(t)
		if _, _, err := calls[name](t.Context(), s, valid(t)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		g := s.conductor.goals[0]
		if g.Goal != goal || g.Ref != wantRef || g.Run != wantRun || !g.Patient || g.Idle != 0 || (g.Bundle != nil) != (goal == plan.Provision || goal == plan.Restart) {
			t.Errorf("%s: %+v", name, g)
		}
	}
	s := newSite(t)
	if _, _, err := calls["status"](t.Context(), s, valid(t)); err != nil || !slices.Equal(s.conductor.looks, []plan.Ref{wantRef}) {
		t.Errorf("status: %v, %+v", err, s.conductor.looks)
	}
}

// TestTheBundleNamesTheRun where the request does not.
func TestTheBundleNamesTheRun(t *testing.T) {
	for _, call := range []string{"provision", "restart"} {
		s, r := newSite(t), valid(t)
		r.run.SessionId, r.run.AuthEpoch = "", 0
		if _, _, err := calls[call](t.Context(), s, r); err != nil || s.conductor.goals[0].Run != (plan.Run{Generation: generation, Session: session, Epoch: 1}) {
			t.Errorf("%s: %v, %+v", call, err, s.conductor.goals)
		}
	}
	for _, call := range []string{"release", "remove"} {
		s, r := newSite(t), valid(t)
		r.run.Reset()
		if _, _, err := calls[call](t.Context(), s, r); err != nil || s.conductor.goals[0].Run != (plan.Run{}) {
			t.Errorf("%s: %v, %+v", call, err, s.conductor.goals)
		}
	}
	s, r := newSite(t), valid(t)
	r.ref.Uid = ""
	if _, _, err := calls["remove"](t.Context(), s, r); err != nil || s.conductor.goals[0].Ref.UID != "" {
		t.Errorf("remove without a uid: %v", err)
	}
}

// TestBrokenRequests: each field, broken in each way, is refused by its name before anything is looked at.
func TestBrokenRequests(t *testing.T) {
	const all, raising, run, identified = "provision restart release remove status", "provision restart", "provision restart release remove", "provision restart release status"
	long := strings.Repeat("a", 65)
	launch := func(field string, value any) func(*request) {
		return func(r *request) {
			r.bundle = bundle(t, func(b map[string]any) { b["supervisor"].(map[string]any)[field] = value })
		}
	}
	for name, tc := range map[string]struct {
		calls string
		field string
		code  codes.Code
		edit  func(*request)
	}{
		"no sandbox":               {all, "sandbox", codes.InvalidArgument, func(r *request) { r.ref = nil }},
		"no gateway":               {all, "sandbox.gateway_id", codes.InvalidArgument, func(r *request) { r.ref.GatewayId = "" }},
		"another gateway":          {all, "sandbox.gateway_id", codes.InvalidArgument, func(r *request) { r.ref.GatewayId = "green" }},
		"no namespace":             {all, "sandbox.namespace", codes.InvalidArgument, func(r *request) { r.ref.Namespace = "" }},
		"namespace is none":        {all, "sandbox.namespace", codes.InvalidArgument, func(r *request) { r.ref.Namespace = "a/b" }},
		"namespace is too long":    {all, "sandbox.namespace", codes.InvalidArgument, func(r *request) { r.ref.Namespace = long }},
		"no name":                  {all, "sandbox.name", codes.InvalidArgument, func(r *request) { r.ref.Name = "" }},
		"name is none":             {all, "sandbox.name", codes.InvalidArgument, func(r *request) { r.ref.Name = "../x" }},
		"name is too long":         {all, "sandbox.name", codes.InvalidArgument, func(r *request) { r.ref.Name = long }},
		"no uid":                   {identified, "sandbox.uid", codes.InvalidArgument, func(r *request) { r.ref.Uid = "" }},
		"uid is too long":          {all, "sandbox.uid", codes.InvalidArgument, func(r *request) { r.ref.Uid = long }},
		"uid is no word":           {all, "sandbox.uid", codes.InvalidArgument, func(r *request) { r.ref.Uid = "a b" }},
		"no id":                    {all, "sandbox.sandbox_id", codes.InvalidArgument, func(r *request) { r.ref.SandboxId = "" }},
		"id is none":               {all, "sandbox.sandbox_id", codes.InvalidArgument, func(r *request) { r.ref.SandboxId = "a_b" }},
		"id is too long":           {all, "sandbox.sandbox_id", codes.InvalidArgument, func(r *request) { r.ref.SandboxId = long }},
		"no run":                   {run, "run", codes.InvalidArgument, func(r *request) { r.run = nil }},
		"no generation":            {raising, "run.generation_id", codes.InvalidArgument, func(r *request) { r.run.GenerationId = "" }},
		"generation in capitals":   {run, "run.generation_id", codes.InvalidArgument, func(r *request) { r.run.GenerationId = "G1" }},
		"generation with a slash":  {run, "run.generation_id", codes.InvalidArgument, func(r *request) { r.run.GenerationId = "a/b" }},
		"generation in the middle": {run, "run.generation_id", codes.InvalidArgument, func(r *request) { r.run.GenerationId = "a b" }},
		"generation is too long":   {run, "run.generation_id", codes.InvalidArgument, func(r *request) { r.run.GenerationId = long }},
		"generation names nothing": {run, "run.generation_id", codes.InvalidArgument, func(r *request) { r.run.GenerationId = "---" }},
		"session is none":          {run, "run.session_id", codes.InvalidArgument, func(r *request) { r.run.SessionId = "x" }},
		"session in capitals":      {run, "run.session_id", codes.InvalidArgument, func(r *request) { r.run.SessionId = strings.ToUpper(session) }},
		"session in braces":        {run, "run.session_id", codes.InvalidArgument, func(r *request) { r.run.SessionId = "{" + session + "}" }},
		"epoch is too great":       {run, "run.auth_epoch", codes.InvalidArgument, func(r *request) { r.run.AuthEpoch = 1 << 63 }},
		"request id is too long":   {run, "request_id", codes.InvalidArgument, func(r *request) { r.id = long }},
		"request id is two lines":  {run, "request_id", codes.InvalidArgument, func(r *request) { r.id = "a\nb" }},

		"no bundle":              {raising, "launch_authentication", codes.FailedPrecondition, func(r *request) { r.bundle = nil }},
		"bundle is none":         {raising, "launch_authentication", codes.FailedPrecondition, func(r *request) { r.bundle = []byte("{") }},
		"bundle is too long":     {raising, "launch_authentication", codes.FailedPrecondition, func(r *request) { r.bundle = make([]byte, 262145) }},
		"bundle without a token": {raising, "supervisor.gateway_token", codes.FailedPrecondition, launch("gateway_token", "")},
		"session of another":     {raising, "run.session_id", codes.FailedPrecondition, launch("session_id", "5f0c7a52-8d0a-4a33-9d4e-1b8f6a3f0c11")},
		"epoch of another":       {raising, "run.auth_epoch", codes.FailedPrecondition, launch("auth_epoch", 2)},
		"epoch beyond any":       {raising, "supervisor.auth_epoch", codes.FailedPrecondition, launch("auth_epoch", uint64(1)<<63)},

		"no identity":             {"restart", "expected_runtime_identity", codes.FailedPrecondition, func(r *request) { r.expected = "" }},
		"identity is none":        {"restart", "expected_runtime_identity", codes.FailedPrecondition, func(r *request) { r.expected = "docker://x" }},
		"identity is too long":    {"restart", "expected_runtime_identity", codes.FailedPrecondition, func(r *request) { r.expected += strings.Repeat("a", 256) }},
		"identity of another":     {"restart", "expected_runtime_identity", codes.FailedPrecondition, func(r *request) { r.expected = "kubernetes://sandboxes/uid-other/uid-former" }},
		"identity from elsewhere": {"restart", "expected_runtime_identity", codes.FailedPrecondition, func(r *request) { r.expected = "kubernetes://elsewhere/uid-box/uid-former" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, call := range strings.Fields(tc.calls) {
				s, r := newSite(t), valid(t)
				tc.edit(r)
				out, _, err := calls[call](t.Context(), s, r)
				d := refusal(t, err)
				if status.Code(err) != tc.code || !strings.Contains(d.Explanation, tc.field) || out != nil || s.conductor.asked() != 0 {
					t.Errorf("%s: %v: %s, asked %d times", call, err, d.Explanation, s.conductor.asked())
				}
				if tc.code == codes.InvalidArgument && d.Reason != verdict.RequestInvalid {
					t.Errorf("%s: reason %s", call, d.Reason)
				}
				if !strings.Contains(d.Message(), tc.field) {
					t.Errorf("%s: the caller is told %q, without the field", call, d.Message())
				}
				if log := s.log.String(); strings.Contains(log, gatewayToken) || strings.Contains(log, sandboxToken) || strings.Count(log, "\n") != 1 {
					t.Errorf("%s: the log: %s", call, log)
				}
			}
		})
	}
}

// TestNothingOfTheCredentialsStays: neither in the request nor in the bundle, whatever becomes of the call, and nothing is logged of it.
func TestNothingOfTheCredentialsStays(t *testing.T) {
	for name, do := range map[string]func(context.Context, conduct.Goal) (conduct.Outcome, error){
		"done": func(context.Context, conduct.Goal) (conduct.Outcome, error) {
			return conduct.Outcome{Step: plan.Step{Action: plan.Done}, Facts: standing()}, nil
		},
		"refused": func(context.Context, conduct.Goal) (conduct.Outcome, error) {
			return conduct.Outcome{Step: plan.Step{Reason: plan.Broke, Explanation: "it broke"}}, nil
		},
		"busy": func(context.Context, conduct.Goal) (conduct.Outcome, error) {
			return conduct.Outcome{}, conduct.ErrBusy
		},
		"panics": func(_ context.Context, g conduct.Goal) (conduct.Outcome, error) {
			panic(string(g.Bundle.Supervisor().Expose()))
		},
	} {
		for _, call := range []string{"provision", "restart"} {
			s, r := newSite(t), valid(t)
			seen := ""
			s.conductor.do = func(ctx context.Context, g conduct.Goal) (conduct.Outcome, error) {
				seen = string(g.Bundle.Supervisor().Expose())
				return do(ctx, g)
			}
			_, _, err := calls[call](t.Context(), s, r)
			if !strings.Contains(seen, gatewayToken) {
				t.Errorf("%s, %s: the conductor had %q", call, name, seen)
			}
			if g := s.conductor.goals[0]; g.Bundle.SessionID() != "" || !g.Bundle.Supervisor().IsZero() {
				t.Errorf("%s, %s: the bundle is not wiped", call, name)
			}
			if !bytes.Equal(r.bundle, make([]byte, len(r.bundle))) {
				t.Errorf("%s, %s: the request is not wiped", call, name)
			}
			if text := fmt.Sprint(err) + s.log.String(); strings.Contains(text, gatewayToken) || strings.Contains(text, sandboxToken) {
				t.Errorf("%s, %s: %s", call, name, text)
			}
		}
	}
	// A request that is refused early has its bundle wiped as well.
	s, r := newSite(t), valid(t)
	r.id = "a b"
	if _, _, err := calls["provision"](t.Context(), s, r); err == nil || !bytes.Equal(r.bundle, make([]byte, len(r.bundle))) {
		t.Errorf("%v", err)
	}
}
