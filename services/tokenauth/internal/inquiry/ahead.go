package inquiry

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/claims"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// longestLead is how long before the evaluator asks a read ahead may have ended. The API server takes the token of a Pod for some
// time after the Pod is gone (its own leeway, and what it has cached), so that it is our live read that notices; one that is
// as old as a review, or another read, that hung would not. Beside requests of ordinary speed, a few milliseconds, all reads ahead are
// used.
const longestLead = 500 * time.Millisecond

// mostAhead is how many inquiries read ahead at the same time. What they read is the word of tokens that nobody has verified, so
// whoever makes tokens up must not have it in hand how many requests run.
const mostAhead = 64

// ahead is what is read while the review runs, for the Pod of a hint.
type ahead struct {
	hint    claims.Hint
	ns, own *early[metav1.ObjectMeta] // ns is nil where the namespace is not looked at
	box     *early[sandboxapi.Sandbox]
	defect  atomic.Pointer[Panic]
}

// early is one read that nobody has asked for yet. question is written before ready is closed and may be read after that; of
// a Sandbox that is not remembered it is known only when the Pod is, and zero when there is none to read. got and ended may be
// read once done is closed.
type early[T any] struct {
	question    authenticate.Question
	ready, done chan struct{}
	used        bool
	got[T]
	ended time.Time
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

// errNotMade is the error of a read that panicked.
var errNotMade = errors.New("the read was not made")

func (e *early[T]) read(ask func() (*T, error)) {
	defer close(e.done)
	e.err = errNotMade
	e.value, e.err = ask()
	e.ended = time.Now()
}

// take is the answer of a read that was made for q in the same words, for the Pod that the review names; it waits for it. False
// when there is none, when it is too old, and when nobody was asked, because of our own rate limit or a defect.
func take[T any](c *course, e *early[T], q authenticate.Question, bearer authenticate.Bearer) (got[T], bool) {
	if e == nil || bearer.PodName != c.early.hint.PodName || bearer.PodUID != c.early.hint.PodUID {
		return got[T]{}, false
	}
	<-e.ready
	if e.question != q {
		return got[T]{}, false
	}
	<-e.done
	if errors.Is(e.err, kubeclient.ErrThrottled) || errors.Is(e.err, errNotMade) || time.Since(e.ended) > longestLead {
		return got[T]{}, false
	}
	e.used = true
	return e.got, true
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
	select {
	case i.slots <- struct{}{}:
	default:
		i.metrics.skipped.Inc()
		return
	}
	remembered := i.owners.of(hint)
	own := newEarly[metav1.ObjectMeta](authenticate.Question{Subject: authenticate.SubjectPod, Namespace: hint.Namespace, Name: hint.PodName})
	box := newEarly[sandboxapi.Sandbox](remembered)
	c.early = &ahead{hint: hint, own: own, box: box}
	if remembered == (authenticate.Question{}) {
		c.begin(func() { i.podAndSandbox(ctx, hint, own, box) })
	} else {
		c.begin(func() { i.readPod(ctx, own) })
		c.begin(func() { i.readSandbox(ctx, box) })
	}
	if i.policy.Scheme.Mode != driverconf.ModeShared {
		ns := newEarly[metav1.ObjectMeta](authenticate.Question{Subject: authenticate.SubjectNamespace, Namespace: hint.Namespace})
		c.early.ns = ns
		c.begin(func() {
			ns.read(func() (*metav1.ObjectMeta, error) { return i.cluster.Namespace(ctx, hint.Namespace) })
		})
	}
}

// begin runs a read beside the review. A panic of it is kept for the end of the inquiry.
func (c *course) begin(read func()) {
	defect := &c.early.defect
	c.ended.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				defect.CompareAndSwap(nil, panicOf(r))
			}
		}()
		read()
	})
}

// podAndSandbox reads the Pod that a token claims, and, if it is the one by its uid, the Sandbox that owns it.
func (i *Inquirer) podAndSandbox(ctx context.Context, hint claims.Hint, own *early[metav1.ObjectMeta], box *early[sandboxapi.Sandbox]) {
	leads := false
	defer func() {
		if !leads {
			close(box.ready)
			close(box.done)
		}
	}()
	i.readPod(ctx, own)
	if own.err != nil || own.value == nil || string(own.value.UID) != hint.PodUID {
		return
	}
	owner, err := sandboxapi.OwnerOf(own.value.OwnerReferences)
	if err != nil {
		return
	}
	box.question = authenticate.Question{
		Subject: authenticate.SubjectSandbox, Namespace: hint.Namespace, Name: owner.Name, Version: owner.Version,
	}
	leads = true
	close(box.ready)
	i.readSandbox(ctx, box)
}

func (i *Inquirer) readPod(ctx context.Context, own *early[metav1.ObjectMeta]) {
	q := own.question
	own.read(func() (*metav1.ObjectMeta, error) { return i.cluster.Pod(ctx, q.Namespace, q.Name) })
}

func (i *Inquirer) readSandbox(ctx context.Context, box *early[sandboxapi.Sandbox]) {
	q := box.question
	box.read(func() (*sandboxapi.Sandbox, error) { return i.cluster.Sandbox(ctx, q.Version, q.Namespace, q.Name) })
}

// end waits for what was read ahead, and tells the metrics how much of it was of use. A panic in it becomes one here, where
// the caller of the inquiry meets it, whatever the inquiry's answer was.
func (c *course) end() {
	c.ended.Wait()
	a := c.early
	if a == nil {
		return
	}
	<-c.inquirer.slots
	m := c.inquirer.metrics
	m.readAhead(authenticate.SubjectPod, a.own.used)
	if a.box.question != (authenticate.Question{}) {
		m.readAhead(authenticate.SubjectSandbox, a.box.used)
	}
	if a.ns != nil {
		m.readAhead(authenticate.SubjectNamespace, a.ns.used)
	}
	if defect := a.defect.Load(); defect != nil {
		panic(defect)
	}
}
