package workspaces

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// What the API server says of a namespace is told by its reason and the paths of fields, and logged in a bounded way.
func TestFailed(t *testing.T) {
	const value = "s3cr3t-value"
	kind := schema.GroupKind{Kind: "Namespace"}
	invalid := apierrors.NewInvalid(kind, "team", field.ErrorList{field.Invalid(field.NewPath("metadata", "labels"), value, "no")})
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "x", errors.New("exceeded quota: few, requested: 1 "+strings.Repeat("x", 1<<16)))
	ending := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "x", errors.New("it is being terminated"))
	ending.ErrStatus.Details.Causes = append(ending.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	for name, c := range map[string]struct {
		err     error
		reason  verdict.Reason
		message string
	}{
		"invalid":          {invalid, verdict.WorkspaceRefused, "make namespace team: the API server refuses it: Invalid: metadata.labels (FieldValueInvalid)"},
		"a quota":          {quota, verdict.WorkspaceRefused, "make namespace team: the API server refuses it: Forbidden, by the quota few"},
		"it begins to end": {ending, verdict.WorkspaceTerminating, "make namespace team: the namespace is being deleted; try again when it is gone"},
		"in its own time":  {context.DeadlineExceeded, verdict.WorkspaceUnreadable, ""},
		"who asks":         {apierrors.NewUnauthorized("no"), verdict.WorkspaceUnreadable, ""},
		"others write":     {apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "few", errors.New("it was written to")), verdict.WorkspaceUnreadable, ""},
		"nobody answers":   {errors.New(strings.Repeat("x", 1<<16)), verdict.WorkspaceUnreadable, ""},
	} {
		refusal := new(Refusal)
		if !errors.As(failed(t.Context(), stepMake, "make namespace team", c.err), &refusal) {
			t.Fatal("it is no refusal")
		}
		d := refusal.Decision
		if d.Reason != c.reason || c.message != "" && d.Message() != c.message {
			t.Errorf("%s: %s %q", name, d.Reason, d.Message())
		}
		if text := d.Explain(); len(text) > 1024 || strings.Contains(text, value) {
			t.Errorf("%s: logged as %.2000s", name, text)
		}
	}
}
