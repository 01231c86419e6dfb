package lookups

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
)

// judged tells the absence of an object from everything else that went wrong, and says what to do about what is known.
func judged(err error, resource schema.GroupResource, name string) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return err
	}
	switch {
	case absent(&status.ErrStatus, resource, name):
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	case status.ErrStatus.Code == http.StatusNotFound:
		return fmt.Errorf("the API server does not serve %s, or something before it answered 404: install the resource's definition, and look at what is between: %w", resource, err)
	case status.ErrStatus.Code == http.StatusForbidden:
		return fmt.Errorf("grant tokenauth's ServiceAccount the verb get on %s: %w", resource, err)
	}
	return err
}

// absent reports that the API server itself said that this very object does not exist. client-go makes an error of the same
// reason out of any 404, also of a proxy's, and of the API server's for a resource that it does not know.
func absent(s *metav1.Status, resource schema.GroupResource, name string) bool {
	d := s.Details
	if s.Reason != metav1.StatusReasonNotFound || d == nil || d.Name != name || d.Kind != resource.Resource || d.Group != resource.Group {
		return false
	}
	for _, cause := range d.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return false
		}
	}
	return true
}

// reviewFailure is err without what the API server may have repeated: it has seen the credential.
func reviewFailure(err error) error {
	var (
		status    *apierrors.StatusError
		transport *url.Error
	)
	switch {
	case errors.Is(err, kubeclient.ErrThrottled):
		return err // nothing was sent
	case errors.As(err, &status):
		return statusFailure(int(status.ErrStatus.Code))
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("the API server did not answer in time")
	case errors.Is(err, context.Canceled):
		return errors.New("the call ended before the API server answered")
	case errors.As(err, &transport):
		// Nothing was read: it names the address and what is wrong with the connection.
		return transport
	default:
		return fmt.Errorf("the answer cannot be understood (%T)", err)
	}
}

func statusFailure(code int) error {
	advice := ""
	switch code {
	case http.StatusUnauthorized:
		advice = ": it does not accept our own credentials; look at the token of tokenauth's ServiceAccount"
	case http.StatusForbidden:
		advice = ": grant tokenauth's ServiceAccount the verb create on tokenreviews (ClusterRole system:auth-delegator)"
	case http.StatusNotFound:
		advice = ": the API server does not serve TokenReviews of authentication.k8s.io/v1"
	case http.StatusTooManyRequests:
		advice = ": it holds us back; look at its priority levels"
	}
	return fmt.Errorf("the API server answered %d %s%s", code, http.StatusText(code), advice)
}
