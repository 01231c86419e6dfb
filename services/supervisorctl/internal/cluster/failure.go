package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
)

// What an error may have in it.
var (
	// ErrAbsent: the API server said that there is no such object.
	ErrAbsent = errors.New("it does not exist")
	// ErrExists: there is an object of that name already, and nothing was made.
	ErrExists = errors.New("an object of that name exists")
	// ErrConflict: the object is not what the write rests on any more, and nothing was written.
	ErrConflict = errors.New("it was changed or replaced meanwhile")
	// ErrRefused: the API server refuses the write for what it says: admission, quota, a webhook or validation. Nothing was written, and
	// the same write will be refused again. Of a source Secret: we may not read it.
	ErrRefused = errors.New("the cluster refuses it")
	// ErrUnsettled: it is not known whether the write was carried out.
	ErrUnsettled = errors.New("it is not known whether it was done")

	errNotServed = errors.New("the resource is not served")
	// errReplaced goes with ErrConflict: the object of that name has another uid.
	errReplaced = errors.New("another object has the name")
)

// readFailure tells absence from everything else.
func readFailure(err error, of schema.GroupResource, namespace, name string) error {
	what := describe("read", of, namespace, name)
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return fmt.Errorf("%s: %w", what, told(err, of))
	}
	s := &status.ErrStatus
	switch {
	case said(s, metav1.StatusReasonNotFound, of, name):
		return fmt.Errorf("%s: %w", what, ErrAbsent)
	case of == secrets && s.Code == http.StatusForbidden && s.Reason == metav1.StatusReasonForbidden && !unexpected(s):
		// One that a setting names: whoever gave the other rights has to give this one.
		return fmt.Errorf("%s: %w: %w", what, ErrRefused, told(err, of))
	case s.Reason == metav1.StatusReasonNotFound && of.Group != "":
		return fmt.Errorf("%s: %w: %w", what, errNotServed, err)
	}
	return fmt.Errorf("%s: %w", what, told(err, of))
}

// writeFailure says what became of a write.
func writeFailure(err error, verb string, of schema.GroupResource, namespace, name string) error {
	what := describe(verb, of, namespace, name)
	var status *apierrors.StatusError
	var kind error
	switch {
	case errors.As(err, &status):
		kind = kindOf(&status.ErrStatus, verb, of, name)
	case !errors.Is(err, kubeclient.ErrThrottled): // a throttled one was not sent
		kind = ErrUnsettled
	}
	if kind == nil {
		return fmt.Errorf("%s: %w", what, told(err, of))
	}
	return fmt.Errorf("%s: %w: %w", what, kind, told(err, of))
}

// The verbs of Ungate and ChangeSandbox, which send patches that test what they rest on.
const verbUngate, verbChange = "ungate", "change"

// kindOf is what an answer to a write means; nil when the write was not carried out for a reason that may pass by itself.
func kindOf(s *metav1.Status, verb string, of schema.GroupResource, name string) error {
	switch {
	case denied(s):
		return ErrRefused
	case uncounted(s):
		return nil
	case s.Code >= http.StatusInternalServerError:
		return ErrUnsettled
	case unexpected(s): // by what stands before the API server
		return nil
	case said(s, metav1.StatusReasonNotFound, of, name):
		return ErrAbsent
	case s.Reason == metav1.StatusReasonNotFound && s.Details != nil && s.Details.Kind == namespaces.Resource:
		return ErrRefused
	case said(s, metav1.StatusReasonAlreadyExists, of, name):
		return ErrExists
	case s.Code == http.StatusConflict && replaced(s):
		return fmt.Errorf("%w: %w", ErrConflict, errReplaced)
	case s.Code == http.StatusConflict:
		return ErrConflict
	case (verb == verbUngate || verb == verbChange) && untrue(s):
		return ErrConflict
	}
	switch s.Code {
	case http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return ErrRefused
	}
	return nil
}

// untrue reports whether a test of the patch failed: only that refusal names no object, and no field.
func untrue(s *metav1.Status) bool {
	return s.Code == http.StatusUnprocessableEntity && (s.Details == nil || s.Details.Name == "" && len(s.Details.Causes) == 0)
}

// denied reports whether an admission webhook refused the write, for which it may use any code.
func denied(s *metav1.Status) bool {
	return !unexpected(s) && strings.HasPrefix(s.Message, "admission webhook ") && strings.Contains(s.Message, " denied the request")
}

// signUncounted is in what the API server answers as long as nobody has counted what a quota that was just made is about, which takes a second.
const signUncounted = "status unknown for quota: "

// uncounted reports whether a quota admits nothing only because it is new. Of a webhook, which may say the same, see denied.
func uncounted(s *metav1.Status) bool {
	return s.Code == http.StatusForbidden && !unexpected(s) && strings.Contains(s.Message, signUncounted)
}

// replaced reports whether the precondition on the uid did not hold. The API server says so before it looks at the store and after
// it, in different words.
func replaced(s *metav1.Status) bool {
	return strings.Contains(s.Message, "the UID in the precondition") || strings.Contains(s.Message, "Precondition failed: UID in precondition")
}

// gone reports whether a delete found nothing that it was for.
func gone(err error) bool { return errors.Is(err, ErrAbsent) || errors.Is(err, errReplaced) }

// said reports whether the API server itself said this of this very object. client-go makes an error of the same reason out of a
// proxy's answer, and of the API server's for a resource that it does not know.
func said(s *metav1.Status, reason metav1.StatusReason, of schema.GroupResource, name string) bool {
	d := s.Details
	return s.Reason == reason && d != nil && d.Name == name && d.Kind == of.Resource && d.Group == of.Group && !unexpected(s)
}

// unexpected reports whether client-go made the status of an answer that was none.
func unexpected(s *metav1.Status) bool {
	if s.Details == nil {
		return false
	}
	for _, cause := range s.Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	return false
}

// told is err as it may be told. Whatever refuses a Secret may repeat it, so of Secrets only the code is kept, and the words of the
// refusals that name numbers and names alone.
func told(err error, of schema.GroupResource) error {
	if of != secrets {
		return err
	}
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		s := &status.ErrStatus
		text := ""
		for _, sign := range [...]string{"exceeded quota: ", signUncounted, "because it is being terminated"} {
			if s.Code == http.StatusForbidden && !denied(s) && strings.Contains(s.Message, sign) {
				text = ": " + s.Message
			}
		}
		return fmt.Errorf("the API server answered %d %s%s", s.Code, http.StatusText(int(s.Code)), text)
	}
	for _, known := range [...]error{kubeclient.ErrThrottled, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, known) {
			return known
		}
	}
	var connection *net.OpError
	if errors.As(err, &connection) {
		return connection
	}
	return errors.New("the connection failed, or the answer could not be read")
}

func describe(verb string, of schema.GroupResource, namespace, name string) string {
	switch {
	case name == "":
		return fmt.Sprintf("list %s in namespace %s", of, namespace)
	case namespace == "":
		return fmt.Sprintf("%s %s %s", verb, of, name)
	}
	return fmt.Sprintf("%s %s %s/%s", verb, of, namespace, name)
}
