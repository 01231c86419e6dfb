package lookups

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
)

// readFailure tells the absence of an object from everything else that went wrong, and says what to do about what is known.
func readFailure(err error, resource schema.GroupResource, name string) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return unanswered(err)
	}
	if absent(&status.ErrStatus, resource, name) {
		return ErrAbsent
	}
	advice := ""
	switch status.ErrStatus.Code {
	case http.StatusNotFound:
		advice = fmt.Sprintf(": it does not serve %s, or the answer is not its own: install the resource's definition, and look at what is between", resource)
	case http.StatusForbidden:
		advice = fmt.Sprintf(": grant tokenauth's ServiceAccount the verb get on %s", resource)
	}
	return answered(int(status.ErrStatus.Code), advice)
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

// reviewFailure says what went wrong with a TokenReview.
func reviewFailure(err error) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return unanswered(err)
	}
	advice := ""
	switch status.ErrStatus.Code {
	case http.StatusForbidden:
		advice = ": grant tokenauth's ServiceAccount the verb create on tokenreviews (ClusterRole system:auth-delegator)"
	case http.StatusNotFound:
		advice = ": the API server does not serve TokenReviews of authentication.k8s.io/v1"
	}
	return answered(int(status.ErrStatus.Code), advice)
}

// answered is an error answer. What the server writes in it is left out: it has seen the credentials, and what stands before
// it may send back whatever it got.
func answered(code int, advice string) error {
	switch code {
	case http.StatusUnauthorized:
		advice = ": it does not accept our own credentials; look at the token of tokenauth's ServiceAccount"
	case http.StatusTooManyRequests:
		advice = ": it holds us back; look at its priority levels"
	}
	text := strconv.Itoa(code)
	if name := http.StatusText(code); name != "" {
		text += " " + name
	}
	return fmt.Errorf("the API server answered %s%s", text, advice)
}

// unanswered is a request that got no answer, or none that makes sense. The texts of package net/http hold what the other side
// sent when that is no HTTP, so only errors that are made on this side are shown, and of the others their type.
func unanswered(err error) error {
	var (
		dns      *net.DNSError
		errno    syscall.Errno
		verified *tls.CertificateVerificationError
		record   tls.RecordHeaderError
		alert    tls.AlertError
		network  net.Error
	)
	const none = "there was no answer from the API server: "
	switch {
	case errors.Is(err, kubeclient.ErrThrottled):
		return err // nothing was sent
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("the API server did not answer in time")
	case errors.Is(err, context.Canceled):
		return errors.New("the call ended before the API server answered")
	case errors.As(err, &dns):
		return fmt.Errorf(none+"the name %q was not resolved: look at the server in the kubeconfig, and at DNS", dns.Name)
	case errors.As(err, &verified):
		return errors.New(none + "its certificate is not one of the authority that we trust, not for this name, or not valid now: look at certificate-authority")
	case errors.As(err, &record), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return errors.New(none + "the TLS handshake failed: look at the server's address and at the client certificate")
	case errors.As(err, &errno):
		return fmt.Errorf(none+"%w", errno)
	case errors.As(err, &network) && network.Timeout():
		return errors.New(none + "the connection timed out")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New(none + "the connection was closed")
	default:
		return fmt.Errorf("the connection to the API server broke, or the answer cannot be understood (%T)", innermost(err))
	}
}

// innermost is the error that all others are around.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
