package authenticate

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// eachMode runs a case in every mode, from the valid world.
func eachMode(t *testing.T, run func(*testing.T, *Evaluator, *world)) {
	t.Helper()
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) { run(t, evaluatorIn(t, mode), valid(t, mode)) })
	}
}

// The token of a Pod that is gone comes from a node where a Pod of the same name runs: that is a no, and no failure of ours.
func TestReplayT01TokenOfAPodThatWasReplaced(t *testing.T) {
	eachMode(t, func(t *testing.T, e *Evaluator, w *world) {
		w.pod.UID = "11111111-2222-4333-8444-555555555555"
		// Whoever made the new Pod recorded it.
		w.sandbox.Annotations[workspace.AnnotationSupervisorUID] = string(w.pod.UID)
		d := e.Evaluate(w.facts()).Decision
		if d.Outcome() != verdict.Denied || d.Code() != codes.PermissionDenied || d.Reason != verdict.PodReplaced || d.Retryable() {
			t.Errorf("%s, code %s", d.Explain(), d.Code())
		}
	})
}

// A reviewer that does not know audiences authenticates tokens that are for others, and confirms no audience.
func TestReplayT02ReviewerWithoutAudiences(t *testing.T) {
	eachMode(t, func(t *testing.T, e *Evaluator, w *world) {
		for _, audiences := range [][]string{nil, {}, {"https://kubernetes.default.svc"}, {"openshell-gateway.example"}} {
			w.review.Audiences = audiences
			d := e.Evaluate(w.facts()).Decision
			if d.Code() != codes.Unauthenticated || d.Reason != verdict.AudienceNotAccepted {
				t.Errorf("audiences %v: %s, code %s", audiences, d.Explain(), d.Code())
			}
		}
	})
}

// The API server takes the token of a Pod in its grace time. We give such a Pod no new token.
func TestReplayT03TerminatingPod(t *testing.T) {
	eachMode(t, func(t *testing.T, e *Evaluator, w *world) {
		w.pod.DeletionTimestamp = &deleted
		d := e.Evaluate(w.facts()).Decision
		if d.Outcome() != verdict.Denied || d.Reason != verdict.PodTerminating {
			t.Errorf("%s", d.Explain())
		}
	})
}

// With the API server down nothing is granted, whatever was granted a moment before.
func TestReplayT11NoVerdictOutlivesTheAPIServer(t *testing.T) {
	eachMode(t, func(t *testing.T, e *Evaluator, w *world) {
		if d := e.Evaluate(w.facts()).Decision; !d.Granted() {
			t.Fatal(d.Explain())
		}
		downs := map[string]*how{"review": &w.reviewIs, "pod": &w.podIs, "sandbox": &w.boxIs}
		if w.mode != driverconf.ModeShared {
			downs["namespace"] = &w.nsIs
		}
		for name, down := range downs {
			*down = failed
			d := e.Evaluate(w.facts()).Decision
			if d.Granted() || d.Outcome() != verdict.Unknown || d.Code() != codes.Internal || !d.Retryable() {
				t.Errorf("%s is down: %s, code %s", name, d.Explain(), d.Code())
			}
			*down = found
		}
	})
}

// Claims that nobody has verified decide nothing: what was read ahead on their word helps no token that the review does not
// take, and none that the review says is another Pod's.
func TestReplayT16UnverifiedClaims(t *testing.T) {
	eachMode(t, func(t *testing.T, e *Evaluator, w *world) {
		w.reviewIs = unasked
		if r := e.Evaluate(w.facts()); r.Decision.Granted() || r.Next.Subject != SubjectReview || r.Bearer != (Bearer{}) {
			t.Errorf("before the review: %s, bearer %+v", r.Decision.Explain(), r.Bearer)
		}
		w.reviewIs, w.review.Authenticated = found, false
		if r := e.Evaluate(w.facts()); r.Decision.Reason != verdict.CredentialNotAccepted || r.Bearer != (Bearer{}) {
			t.Errorf("not authenticated: %s, bearer %+v", r.Decision.Explain(), r.Bearer)
		}
		w.review.Authenticated = true
		extra(w, ExtraPodName, "os-supervisor-other")
		if r := e.Evaluate(w.facts()); r.Next.Subject != SubjectPod || r.Next.Name != "os-supervisor-other" {
			t.Errorf("another Pod's: %s, next %s", r.Decision.Explain(), r.Next)
		}
	})
}

// The accounts that sandboxes run under are a set, each with a purpose; nothing else becomes one by standing somewhere else
// in the settings.
func TestReplayT17SetOfAccounts(t *testing.T) {
	eachMode(t, func(t *testing.T, _ *Evaluator, w *world) {
		policy := policyIn(w.mode)
		policy.Accounts = append(policy.Accounts, Account{Name: "gpu-runner", Purpose: "the Pods of GPU sandboxes"})
		e, err := New(policy)
		if err != nil {
			t.Fatal(err)
		}
		for account, granted := range map[string]bool{"sandbox-runner": true, "gpu-runner": true, "tokenauth": false, "default": false, "the Pods of GPU sandboxes": false} {
			w.review.User.Username = "system:serviceaccount:" + namespaceIn(w.mode) + ":" + account
			if d := e.Evaluate(w.facts()).Decision; d.Granted() != granted {
				t.Errorf("account %s: %s", account, d.Explain())
			}
		}
	})
}
