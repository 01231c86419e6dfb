package apistatus_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/apistatus"
)

const secret = "s3cr3t-value"

var resource = schema.GroupResource{Group: "agents.x-k8s.io", Resource: "sandboxes"}

func invalid(list ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: resource.Group, Kind: "Sandbox"}, "box", list)
}

func forbidden(text string) error {
	return apierrors.NewForbidden(resource, "box", errors.New(text))
}

func TestTold(t *testing.T) {
	env := field.NewPath("spec", "podTemplate", "spec", "containers").Index(0).Child("env").Index(3).Child("value")
	var many []*field.Error
	for i := range 20 {
		many = append(many, field.Required(field.NewPath("spec").Index(i), secret))
	}
	webhook := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 403, Reason: secret + "!", Message: `admission webhook "images.example.org" denied the request: no ` + secret,
	}}
	cases := map[string]struct {
		err  error
		want string
	}{
		"a field": {
			invalid(field.Invalid(env, secret, "must not be "+secret)),
			"the API server refuses it: Invalid: spec.podTemplate.spec.containers[0].env[3].value (FieldValueInvalid)",
		},
		"two fields, one twice": {
			invalid(field.Invalid(env, secret, "x"), field.Invalid(env, secret, "y"), field.Required(field.NewPath("spec", "x"), "")),
			"the API server refuses it: Invalid: spec.podTemplate.spec.containers[0].env[3].value (FieldValueInvalid), spec.x (FieldValueRequired)",
		},
		"a path that is none":       {invalid(field.Invalid(field.NewPath("spec").Key(secret+`"; drop`), secret, "x")), "the API server refuses it: Invalid"},
		"a path without end":        {invalid(field.Invalid(field.NewPath(strings.Repeat("x", 200)), secret, "x")), "the API server refuses it: Invalid"},
		"a quota":                   {forbidden("exceeded quota: compute, requested: pods=1, used: pods=" + secret), "the API server refuses it: Forbidden, by the quota compute"},
		"a quota, nothing said":     {forbidden("failed quota: compute: must specify limits.cpu"), "the API server refuses it: Forbidden, by the quota compute"},
		"a policy":                  {forbidden("ValidatingAdmissionPolicy 'no-root' with binding 'all' denied request: " + secret), "the API server refuses it: Forbidden, by the admission policy no-root"},
		"a webhook, an odd reason":  {webhook, "the API server refuses it, by the admission webhook images.example.org"},
		"a missing right":           {forbidden(`User "system:serviceaccount:a:b" cannot create resource`), "the API server refuses it: Forbidden"},
		"wrapped":                   {fmt.Errorf("make it: %w", forbidden("no")), "the API server refuses it: Forbidden"},
		"many fields":               {invalid(many...), ""},
		"not of the API server":     {errors.New(secret), "the API server gave no reason"},
		"none":                      {nil, "the API server gave no reason"},
		"a name that no object has": {forbidden("exceeded quota: " + secret + "\n; x, requested"), "the API server refuses it: Forbidden"},
	}
	for name, c := range cases {
		got := apistatus.Told(c.err)
		if c.want != "" && got != c.want || strings.Contains(got, secret) || len(got) > 1200 {
			t.Errorf("%s: %q\nwant %q", name, got, c.want)
		}
	}
	if got := apistatus.Told(invalid(many...)); !strings.HasSuffix(got, ", and 12 more") {
		t.Errorf("many fields: %q", got)
	}
}

func TestLogged(t *testing.T) {
	path := field.NewPath("spec", "x")
	cases := map[string]struct {
		err  error
		want string
	}{
		"a string":        {invalid(field.Invalid(path, secret, "no")), `Sandbox.agents.x-k8s.io "box" is invalid: spec.x: Invalid value: (left out): no`},
		"quotes in it":    {invalid(field.Invalid(path, `a"`+secret, "no")), `Sandbox.agents.x-k8s.io "box" is invalid: spec.x: Invalid value: (left out): no`},
		"a choice":        {invalid(field.NotSupported(path, secret, []string{"a"})), ""},
		"twice":           {invalid(field.Duplicate(path, secret), field.Invalid(path, secret, "no")), ""},
		"an object":       {invalid(field.Invalid(path, map[string]string{"a": secret}, "no")), ""},
		"half an object":  {errors.New(`value: {"a":"` + secret), "value: (left out)"},
		"a number":        {invalid(field.Invalid(path, 4711, "no")), `Sandbox.agents.x-k8s.io "box" is invalid: spec.x: Invalid value: (left out): no`},
		"a right":         {forbidden(`User "me" cannot create resource "x"`), `sandboxes.agents.x-k8s.io "box" is forbidden: User "me" cannot create resource "x"`},
		"of no API":       {errors.New("connection refused"), "connection refused"},
		"none":            {nil, ""},
		"without an end":  {errors.New(strings.Repeat("ä", 1<<20)), ""},
		"an open quote":   {errors.New(`value: "` + secret), "value: (left out)"},
		"no UTF-8 at all": {errors.New("a\xffb"), "ab"},
	}
	for name, c := range cases {
		got := apistatus.Logged(c.err)
		if c.want != "" && got != c.want || strings.Contains(got, secret) || len(got) > 700 || !utf8.ValidString(got) {
			t.Errorf("%s: %q\nwant %q", name, got, c.want)
		}
		if quiet := apistatus.Quiet(c.err); (quiet == nil) != (c.err == nil) || quiet != nil && (quiet.Error() != got || !errors.Is(quiet, c.err)) {
			t.Errorf("%s: quiet %v", name, quiet)
		}
	}
	if !apierrors.IsForbidden(apistatus.Quiet(forbidden("no"))) {
		t.Error("what kind of refusal it is, is lost")
	}
}
