package labelsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
)

func TestKindsOfFailures(t *testing.T) {
	oldTooLarge := metav1.Status{Code: 504, Reason: metav1.StatusReasonTimeout, Message: "Too large resource version: 9, current: 1"}
	for _, c := range []struct {
		name string
		err  error
		want kind
	}{
		{"gone", &apierrors.StatusError{ErrStatus: metav1.Status{Code: 410, Reason: metav1.StatusReasonGone}}, kindExpired},
		{"too large, as servers before 1.19 say it", &apierrors.StatusError{ErrStatus: oldTooLarge}, kindTooLarge},
		{"a timeout of the server", &apierrors.StatusError{ErrStatus: metav1.Status{Code: 504, Reason: metav1.StatusReasonTimeout}}, kindServer},
		{"our own rate limit", fmt.Errorf("client rate limiter: %w", kubeclient.ErrThrottled), kindThrottled},
		{"deadline", &url.Error{Op: "Get", URL: "https://a", Err: context.DeadlineExceeded}, kindTimeout},
		{"cut", io.ErrUnexpectedEOF, kindUnreachable},
		{"older", fmt.Errorf("%w: x", errOlder), kindOlder},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("%s is %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	for seconds, want := range map[int32]time.Duration{0: 0, 2: 2 * time.Second, 3600: maxRetryAfter} {
		f := fail("list", "a=b", &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: 429, Reason: metav1.StatusReasonTooManyRequests, Details: &metav1.StatusDetails{RetryAfterSeconds: seconds},
		}})
		if f.retryAfter != want {
			t.Errorf("%d seconds become %s", seconds, f.retryAfter)
		}
	}
}

func TestFailuresAreOneLine(t *testing.T) {
	f := fail("list", "a=b", errors.New("one\ntwo\x1b[31m"))
	if text := f.err.Error(); strings.ContainsAny(text, "\n\x1b") || !strings.HasPrefix(text, `could not find out which namespaces match "a=b": list namespaces: one; two`) {
		t.Errorf("the text is %q", text)
	}
}

func TestJournalSaysWhatIsNewAndCountsTheRest(t *testing.T) {
	var out bytes.Buffer
	j := journal{log: zerolog.New(&out), failures: map[string]*rate{}}
	lines := func() int { return strings.Count(out.String(), "\n") }
	f := failure{kind: kindServer, err: errors.New("no")}
	for i := range 5 {
		j.failed(time.Duration(i)*time.Second, taskList, f)
	}
	if lines() != 1 {
		t.Errorf("five failures in four seconds make\n%s", out.String())
	}
	j.failed(time.Second, taskWatch, f)
	j.failed(time.Second, taskList, failure{kind: kindForbidden, err: errors.New("no")})
	if lines() != 3 {
		t.Errorf("other failures are not told:\n%s", out.String())
	}
	j.failed(logEvery, taskList, f)
	if !strings.Contains(out.String(), `"count":4`) {
		t.Errorf("those in between are not counted:\n%s", out.String())
	}
	out.Reset()
	j.period(true, 6*time.Second, 300*time.Millisecond)
	j.period(true, 7*time.Second, 350*time.Millisecond)
	j.period(false, 5*time.Second, time.Millisecond)
	if lines() != 2 || !strings.Contains(out.String(), `"level":"warn","period_seconds":6,"duration_ms":300`) {
		t.Errorf("the stretched period is told as\n%s", out.String())
	}
}
