package inquiry

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/claims"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// ahead is what is read while the review runs. The nil ahead reads nothing.
type ahead struct {
	ns  *early[metav1.ObjectMeta]
	own *early[metav1.ObjectMeta]
	box *early[sandboxapi.Sandbox]
}

// early is one read that nobody has asked for yet. question is written before ready is closed and may be read after that; of
// the Sandbox it is known only when the Pod is, and zero when there is none to read. value and err may be read once done is
// closed.
type early[T any] struct {
	question    authenticate.Question
	ready, done chan struct{}
	used        bool
	got[T]
}

type got[T any] struct {
	value *T
	err   error
}

func newEarly[T any](q authenticate.Question) *early[T] {
	e := &early[T]{question: q, ready: make(chan struct{}), done: make(chan struct{})}
	if q != (authenticate.Question{}) {
		close(e.ready)
	}
	return e
}

// read makes the read. A defect in a client is this read's failure, and not the daemon's end.
func (e *early[T]) read(ask func() (*T, error)) {
	defer close(e.done)
	defer func() {
		if r := recover(); r != nil {
			e.got = got[T]{err: fmt.Errorf("reading ahead panicked: %v", r)}
		}
	}()
	e.value, e.err = ask()
}

// take is the answer of a read that was made for q in the same words; it waits for it. False when there is none.
func take[T any](e *early[T], q authenticate.Question) (got[T], bool) {
	if e == nil {
		return got[T]{}, false
	}
	<-e.ready
	if e.question != q {
		return got[T]{}, false
	}
	<-e.done
	e.used = true
	return e.got, true
}

func (a *ahead) namespace() *early[metav1.ObjectMeta] {
	if a == nil {
		return nil
	}
	return a.ns
}

func (a *ahead) pod() *early[metav1.ObjectMeta] {
	if a == nil {
		return nil
	}
	return a.own
}

// sandbox is the read that follows that of the Pod, when that Pod was the right one.
func (a *ahead) sandbox() *early[sandboxapi.Sandbox] {
	if a == nil || !a.own.used {
		return nil
	}
	return a.box
}

// readAhead begins what the token's claims suggest.
func (c *course) readAhead(ctx context.Context) {
	i := c.inquirer
	token := c.request.Credential.Expose() // for its claims, which are no secret
	hint, ok := claims.Of(token)
	clear(token)
	if !ok || !i.worth(hint.Namespace) {
		return
	}
	c.early = &ahead{
		own: newEarly[metav1.ObjectMeta](authenticate.Question{Subject: authenticate.SubjectPod, Namespace: hint.Namespace, Name: hint.PodName}),
		box: newEarly[sandboxapi.Sandbox](authenticate.Question{}),
	}
	own, box := c.early.own, c.early.box
	c.ended.Go(func() { i.podAndSandbox(ctx, hint, own, box) })
	if i.policy.Scheme.Mode == driverconf.ModeOperator {
		ns := newEarly[metav1.ObjectMeta](authenticate.Question{Subject: authenticate.SubjectNamespace, Namespace: hint.Namespace})
		c.early.ns = ns
		c.ended.Go(func() {
			ns.read(func() (*metav1.ObjectMeta, error) { return i.cluster.Namespace(ctx, hint.Namespace) })
		})
	}
}

// podAndSandbox reads the Pod that a token claims, and, if it is the one by its uid, the Sandbox that owns it.
func (i *Inquirer) podAndSandbox(ctx context.Context, hint claims.Hint, own *early[metav1.ObjectMeta], box *early[sandboxapi.Sandbox]) {
	own.read(func() (*metav1.ObjectMeta, error) { return i.cluster.Pod(ctx, hint.Namespace, hint.PodName) })
	if own.err == nil && own.value != nil && string(own.value.UID) == hint.PodUID {
		if owner, err := sandboxapi.OwnerOf(own.value.OwnerReferences); err == nil {
			box.question = authenticate.Question{
				Subject: authenticate.SubjectSandbox, Namespace: hint.Namespace, Name: owner.Name, Version: owner.Version,
			}
		}
	}
	close(box.ready)
	if q := box.question; q != (authenticate.Question{}) {
		box.read(func() (*sandboxapi.Sandbox, error) { return i.cluster.Sandbox(ctx, q.Version, q.Namespace, q.Name) })
		return
	}
	close(box.done)
}

// count tells the metrics how much of what was read ahead was of use, once all of it has ended.
func (c *course) count() {
	if c.early == nil {
		return
	}
	m := c.inquirer.metrics
	m.readAhead(authenticate.SubjectPod, c.early.own.used)
	if c.early.box.question != (authenticate.Question{}) {
		m.readAhead(authenticate.SubjectSandbox, c.early.box.used)
	}
	if c.early.ns != nil {
		m.readAhead(authenticate.SubjectNamespace, c.early.ns.used)
	}
}
