package labelsource

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// kind is why a list or a watch ended without what was asked for. It is a metric label.
type kind string

const (
	// kindClosed: the server ended the watch as it does in the normal course of things.
	kindClosed kind = "closed"
	// kindExpired: 410, the version that was asked for is forgotten.
	kindExpired kind = "expired"
	// kindTooLarge: the server does not know the version yet: it lags, or was restored. An API server 1.37 says so to
	// lists only; a watch from such a version is accepted and silent until the server has caught up.
	kindTooLarge kind = "too_large"
	// kindMalformed: the answer cannot be understood.
	kindMalformed kind = "malformed"
	// kindOlder: the list is older than what was used before.
	kindOlder kind = "older"
	// kindUnauthorized and kindForbidden: 401 and 403.
	kindUnauthorized kind = "unauthorized"
	kindForbidden    kind = "forbidden"
	// kindThrottled: 429, or the client's own limit.
	kindThrottled kind = "throttled"
	// kindTimeout: no answer in time.
	kindTimeout kind = "timeout"
	// kindServer: any other answer that is an error.
	kindServer kind = "server_error"
	// kindUnreachable: no answer.
	kindUnreachable kind = "unreachable"
	// kindBehind: the lists show what the watch did not.
	kindBehind kind = "behind"
)

var (
	listKinds = []kind{
		kindExpired, kindTooLarge, kindMalformed, kindOlder, kindUnauthorized, kindForbidden, kindThrottled, kindTimeout, kindServer, kindUnreachable,
	}
	watchKinds = []kind{
		kindClosed, kindExpired, kindTooLarge, kindMalformed, kindUnauthorized, kindForbidden, kindThrottled, kindTimeout, kindServer, kindUnreachable, kindBehind,
	}
)

// failure is an end that has to be dealt with.
type failure struct {
	kind kind
	err  error
	// retryAfter is what the server asked for; zero when it did not.
	retryAfter time.Duration
}

// maxRetryAfter bounds what a server may ask for: the heartbeats stop meanwhile.
const maxRetryAfter = 5 * time.Second

// repairable tells the ends that a fresh list or another watch mends, and that are no news to anybody.
func (f failure) repairable() bool {
	switch f.kind {
	case kindClosed, kindExpired, kindTooLarge, kindBehind, kindTimeout:
		return true
	default:
		return false
	}
}

// needsList tells the ends after which the version that the watch had reached is of no use.
func (f failure) needsList() bool {
	return f.kind == kindExpired || f.kind == kindTooLarge || f.kind == kindMalformed
}

var errMalformed = errors.New("the answer cannot be understood")

// fail makes a failure of the error of a request. verb is the one that RBAC knows.
func fail(verb, selector string, err error) failure {
	f := failure{kind: classify(err)}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		f.retryAfter = min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	f.err = fmt.Errorf("could not find out which namespaces match %q: %s namespaces: %w%s", selector, verb, pemfile.OneLine(err), f.kind.advice(verb))
	return f
}

func (k kind) advice(verb string) string {
	switch k {
	case kindUnauthorized:
		return ": the API server does not accept our credentials: check the ServiceAccount token or the kubeconfig"
	case kindForbidden:
		return fmt.Sprintf(": grant nswatch's ServiceAccount the verb %q on the resource \"namespaces\" in a ClusterRole", verb)
	case kindOlder:
		return ": the server lags; if etcd was restored from a backup, restart nswatch to accept its state"
	default:
		return ""
	}
}

func classify(err error) kind {
	switch {
	case errors.Is(err, errOlder):
		return kindOlder
	case errors.Is(err, errMalformed):
		return kindMalformed
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return kindExpired
	case tooLarge(err):
		return kindTooLarge
	case apierrors.IsUnauthorized(err):
		return kindUnauthorized
	case apierrors.IsForbidden(err):
		return kindForbidden
	case apierrors.IsTooManyRequests(err) || errors.Is(err, kubeclient.ErrThrottled):
		return kindThrottled
	case apierrors.HasStatusCause(err, causeDecoding) || apierrors.IsUnexpectedObjectError(err):
		return kindMalformed
	case errors.As(err, new(apierrors.APIStatus)):
		return kindServer
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		return kindTimeout
	default:
		return kindUnreachable
	}
}

// causeDecoding is how client-go marks what it could not read of a watch, an unknown type of event for one.
const causeDecoding metav1.CauseType = "ClientWatchDecoding"

// tooLarge knows the cause that servers give since 1.17, and the text of those that gave none.
func tooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		apierrors.IsTimeout(err) && strings.Contains(err.Error(), "Too large resource version")
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
