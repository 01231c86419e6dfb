package tokenauth_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/runtimeid"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

// hold is a finalizer that nobody takes off.
const hold = "portcullis.test/hold"

// flaw breaks one thing about a bearer that is right.
type flaw struct {
	name string
	// before it is made, or after it was accepted once.
	before func(*tokenauth.Draft)
	after  func(*tokenauth.Bearer)
	// until undoes what would outlive the test.
	until func(*tokenauth.Bearer)
	// want has more than one reason where the API server may or may not remember that it accepted the token.
	want []verdict.Reason
}

var flaws = []flaw{
	{name: "audience of the API server", before: func(d *tokenauth.Draft) { d.Audience = "https://kubernetes.default.svc.cluster.local" }, want: []verdict.Reason{verdict.CredentialNotAccepted}},
	{name: "audience of somebody else", before: func(d *tokenauth.Draft) { d.Audience = "openshell-gateway-2" }, want: []verdict.Reason{verdict.CredentialNotAccepted}},
	{name: "another ServiceAccount", before: func(d *tokenauth.Draft) { d.Pod.Spec.ServiceAccountName = "somebody" }, want: []verdict.Reason{verdict.AccountNotAccepted}},
	{name: "bound to no Pod", before: func(d *tokenauth.Draft) { d.Unbound = true }, want: []verdict.Reason{verdict.NotPodBound}},
	{name: "Pod is deleted", after: func(b *tokenauth.Bearer) { b.DeletePod() }, want: []verdict.Reason{verdict.PodNotFound, verdict.CredentialNotAccepted}},
	{name: "Pod is made anew under its name", after: func(b *tokenauth.Bearer) { b.DeletePod(); b.RecreatePod() }, want: []verdict.Reason{verdict.PodReplaced, verdict.CredentialNotAccepted}},
	{
		name: "Pod is being deleted", before: func(d *tokenauth.Draft) { d.Pod.Finalizers = []string{hold} },
		after: func(b *tokenauth.Bearer) { b.DeletePod() }, until: func(b *tokenauth.Bearer) { b.ReleasePod() }, want: []verdict.Reason{verdict.PodTerminating},
	},
	{name: "workload Pod", before: func(d *tokenauth.Draft) {
		d.Pod.Name, d.Pod.Labels[workspace.LabelBoundaryRole], d.Controller = d.Sandbox.GetName(), workspace.RoleWorkload, true
	}, want: []verdict.Reason{verdict.NotSupervisor}},
	{name: "workload Pod in the supervisor's clothes", before: func(d *tokenauth.Draft) { d.Controller = true }, want: []verdict.Reason{verdict.PodOwnerController}},
	{name: "Pod names no sandbox", before: func(d *tokenauth.Draft) { d.Pod.Annotations = nil }, want: []verdict.Reason{verdict.PodSandboxIDMissing}},
	{name: "Sandbox that is not managed", after: func(b *tokenauth.Bearer) {
		b.PatchSandbox(fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, workspace.LabelManagedBy))
	}, want: []verdict.Reason{verdict.SandboxNotManaged}},
	{name: "Sandbox of another gateway", before: func(d *tokenauth.Draft) {
		labels := d.Sandbox.GetLabels()
		labels[workspace.LabelGatewayID] += "-2"
		d.Sandbox.SetLabels(labels)
	}, want: []verdict.Reason{verdict.SandboxOtherGateway}},
	{name: "Sandbox becomes another gateway's", after: func(b *tokenauth.Bearer) {
		b.PatchSandbox(fmt.Sprintf(`{"metadata":{"labels":{%q:"another"}}}`, workspace.LabelGatewayID))
	}, want: []verdict.Reason{verdict.SandboxOtherGateway}},
	{name: "Sandbox with another id", after: func(b *tokenauth.Bearer) {
		b.PatchSandbox(fmt.Sprintf(`{"metadata":{"labels":{%q:"another"}}}`, workspace.LabelSandboxID))
	}, want: []verdict.Reason{verdict.SandboxIDMismatch}},
	{
		name: "Sandbox is being deleted", before: func(d *tokenauth.Draft) { d.Sandbox.SetFinalizers([]string{hold}) },
		after: func(b *tokenauth.Bearer) { b.DeleteSandbox() }, until: func(b *tokenauth.Bearer) { b.PatchSandbox(`{"metadata":{"finalizers":null}}`) },
		want: []verdict.Reason{verdict.SandboxTerminating},
	},
	{name: "another supervisor is recorded", after: func(b *tokenauth.Bearer) {
		b.PatchSandbox(fmt.Sprintf(`{"metadata":{"annotations":{%q:"7c1d2e3f-0a4b-4c8d-8e9f-a0b1c2d3e4f5"}}}`, workspace.AnnotationSupervisorUID))
	}, want: []verdict.Reason{verdict.SupervisorNotCurrent}},
	{name: "no supervisor is recorded", after: func(b *tokenauth.Bearer) {
		b.PatchSandbox(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, workspace.AnnotationSupervisorUID))
	}, want: []verdict.Reason{verdict.SupervisorNotRecorded}},
}

// refuseFlaws has every flaw refused, and what it is made from accepted.
func refuseFlaws(t *testing.T, s *tokenauth.Site, c *tokenauth.Client) {
	t.Helper()
	for _, f := range flaws {
		t.Run(f.name, func(t *testing.T) {
			var changes []func(*tokenauth.Draft)
			if f.before != nil {
				changes = append(changes, f.before)
			}
			b := s.Bearer(s.Namespace, changes...)
			if f.until != nil {
				defer f.until(b)
			}
			if f.after != nil {
				awaitAccepted(t, c, b)
				f.after(b)
			}
			demandRefused(t, c, b.Token, f.want...)
		})
	}
}

// awaitAccepted waits until the bearer is accepted, as itself.
func awaitAccepted(t *testing.T, c *tokenauth.Client, b *tokenauth.Bearer) {
	t.Helper()
	identity, err := runtimeid.New(b.Pod.Namespace, string(b.Sandbox.GetUID()), string(b.Pod.UID))
	if err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, "the bearer is accepted", func(ctx context.Context) error {
		resp, err := c.Authenticate(ctx, b.Token)
		if err == nil && (resp.GetSandboxId() != b.SandboxID || resp.GetRuntimeIdentity() != identity.String()) {
			t.Fatalf("the bearer is accepted as another: %v", resp)
		}
		return err
	})
}

// demandRefused has the next answer be a refusal for one of the reasons, with its code.
func demandRefused(t *testing.T, c *tokenauth.Client, token string, want ...verdict.Reason) {
	t.Helper()
	if err := refusal(t.Context(), c, token, want...); err != nil {
		t.Error(err)
	}
}

// awaitRefused waits for such a refusal.
func awaitRefused(t *testing.T, c *tokenauth.Client, token string, want ...verdict.Reason) {
	t.Helper()
	cluster.Eventually(t, fmt.Sprintf("the bearer is refused: %v", want), func(ctx context.Context) error { return refusal(ctx, c, token, want...) })
}

// refusal is nil when a call is refused for one of the reasons.
func refusal(ctx context.Context, c *tokenauth.Client, token string, want ...verdict.Reason) error {
	resp, err := c.Authenticate(ctx, token)
	decision, explained := verdict.FromError(err)
	if err == nil {
		return fmt.Errorf("got %v, want one of %v", resp, want)
	}
	if !explained || !slices.Contains(want, decision.Reason) {
		return fmt.Errorf("got %w (%s), want one of %v", err, decision.Explain(), want)
	}
	if spec, _ := decision.Reason.Spec(); status.Code(err) != spec.Code || decision.Outcome() != spec.Outcome || decision.Retryable() != spec.Retryable {
		return fmt.Errorf("%w (%s) is not what its reason stands for: %+v", err, decision.Explain(), spec)
	}
	return nil
}
