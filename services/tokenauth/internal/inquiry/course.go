package inquiry

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/lookups"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// course is one inquiry under way. It belongs to one goroutine; what is read ahead comes to it by channels.
type course struct {
	inquirer *Inquirer
	request  Request
	facts    authenticate.Facts
	// early is what is read ahead; nil when nothing is.
	early *ahead
	// ended is for the goroutines that read ahead.
	ended sync.WaitGroup
}

// answer finds the answer to the question of a result and adds it to the facts.
func (c *course) answer(ctx context.Context, result authenticate.Result) {
	q, bearer := result.Next, result.Bearer
	cluster, f := c.inquirer.cluster, &c.facts
	switch q.Subject {
	case authenticate.SubjectReview:
		c.readAhead(ctx)
		status, err := cluster.Review(ctx, c.request.Credential, authenticate.Audience)
		f.Review = lookup(q, status, err)
	case authenticate.SubjectList:
		f.List = c.inquirer.list.Check(q.Namespace)
	case authenticate.SubjectListAgain:
		f.ListAgain = c.inquirer.list.Check(q.Namespace)
	case authenticate.SubjectNamespace:
		f.Namespace = c.namespace(ctx, q, bearer)
	case authenticate.SubjectPod:
		f.Pod = c.pod(ctx, q, bearer)
	case authenticate.SubjectSandbox:
		f.Sandbox = c.sandbox(ctx, q, bearer)
	}
}

func (c *course) namespace(ctx context.Context, q authenticate.Question, bearer authenticate.Bearer) authenticate.Lookup[metav1.ObjectMeta] {
	if c.early != nil {
		if got, ok := take(c, c.early.ns, q, bearer); ok {
			return lookup(q, got.value, got.err)
		}
	}
	value, err := c.inquirer.cluster.Namespace(ctx, q.Namespace)
	return lookup(q, value, err)
}

// pod asks again when the Pod is not there, a bounded number of times (bug corpus T14).
func (c *course) pod(ctx context.Context, q authenticate.Question, bearer authenticate.Bearer) authenticate.Lookup[metav1.ObjectMeta] {
	var first got[metav1.ObjectMeta]
	taken := false
	if c.early != nil {
		first, taken = take(c, c.early.own, q, bearer)
	}
	if !taken {
		first.value, first.err = c.inquirer.cluster.Pod(ctx, q.Namespace, q.Name)
	}
	value, err := first.value, first.err
	for _, wait := range c.inquirer.podWaits {
		if !errors.Is(err, lookups.ErrAbsent) || !pause(ctx, wait) {
			break
		}
		value, err = c.inquirer.cluster.Pod(ctx, q.Namespace, q.Name)
	}
	return lookup(q, value, err)
}

func (c *course) sandbox(ctx context.Context, q authenticate.Question, bearer authenticate.Bearer) authenticate.Lookup[sandboxapi.Sandbox] {
	if c.early != nil {
		if got, ok := take(c, c.early.box, q, bearer); ok {
			return lookup(q, got.value, got.err)
		}
	}
	value, err := c.inquirer.cluster.Sandbox(ctx, q.Version, q.Namespace, q.Name)
	return lookup(q, value, err)
}

// lookup is what a read says to the question that it was made for.
func lookup[T any](q authenticate.Question, value *T, err error) authenticate.Lookup[T] {
	switch {
	case err == nil:
		return authenticate.Found(q, value)
	case errors.Is(err, lookups.ErrAbsent):
		return authenticate.Missing[T](q)
	default:
		return authenticate.Failed[T](q, err)
	}
}

// pause waits, and reports whether ctx still holds.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
