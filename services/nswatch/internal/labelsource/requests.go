package labelsource

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
)

const (
	// acceptList has one form only: the decoder reads no other.
	acceptList = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	// leastWatch and mostWatch bound how long the server is asked to keep a watch; a random time between them spreads
	// the ends of watches that began together.
	leastWatch = 5 * time.Minute
	mostWatch  = 10 * time.Minute
	// overtime is how long after that a watch is ended from this side.
	overtime = 30 * time.Second
)

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	errLate    = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
	errEnded   = fmt.Errorf("the watch went on longer than the server was asked for: %w", context.DeadlineExceeded)
)

// requests sends lists and watches. It is safe for concurrent use.
type requests struct {
	lists    rest.Interface
	watches  metadata.ResourceInterface
	selector string
}

func newRequests(clients *kubeclient.Clients, selector string) requests {
	return requests{
		lists:    clients.Calls.Typed.CoreV1().RESTClient(),
		watches:  clients.Watches.Metadata.Resource(namespaces),
		selector: selector,
	}
}

// list asks for the whole list in its newest state: no resource version, no pages.
func (r requests) list(ctx context.Context) (in listing, f *failure) {
	err := func() error {
		body, err := r.lists.Get().Resource(namespaces.Resource).Param("labelSelector", r.selector).SetHeader("Accept", acceptList).Stream(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		in, err = decodeList(body)
		return err
	}()
	if err == nil {
		return in, nil
	}
	if ctx.Err() != nil { // whatever it made of the error
		err = errLate
	}
	failed := fail("list", r.selector, err)
	return listing{}, &failed
}

// watch asks for all that happens after the version from, gives tell each change until it says no, and returns why the
// watch ended.
func (r requests) watch(ctx context.Context, from uint64, tell func(change) bool) failure {
	length := leastWatch + rand.N(mostWatch-leastWatch) //nolint:gosec // it only spreads load
	seconds := int64(length / time.Second)
	ctx, cancel := context.WithTimeout(ctx, length+overtime)
	defer cancel()
	stream, err := r.watches.Watch(ctx, metav1.ListOptions{
		LabelSelector: r.selector, ResourceVersion: version(from), AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if err == nil {
		err = follow(stream, tell)
		stream.Stop()
		// client-go's reader ends when it finds nobody here, and then closes the channel.
		for range stream.ResultChan() {
		}
	}
	switch {
	case ctx.Err() != nil:
		err = errEnded
	case err == nil:
		return failure{kind: kindClosed}
	}
	return fail("watch", r.selector, err)
}

func follow(stream watch.Interface, tell func(change) bool) error {
	for event := range stream.ResultChan() {
		e, err := understand(event)
		if err != nil {
			return err
		}
		if !tell(e) {
			return nil
		}
	}
	return nil
}

// understand makes a change of an event. The error is the server's own, or errMalformed.
func understand(event watch.Event) (change, error) {
	var e change
	switch event.Type {
	case watch.Added, watch.Modified:
		e.form = upsert
	case watch.Deleted:
		e.form = removal
	case watch.Bookmark:
		e.form = bookmark
	case watch.Error:
		return e, apierrors.FromObject(event.Object)
	default:
		return e, malformed("there is an event of the unknown type %.40q", string(event.Type))
	}
	object, err := accessor(event.Object)
	if err != nil {
		return e, err
	}
	if e.order, err = parseOrder(object.GetResourceVersion()); err != nil || e.form == bookmark {
		return e, err
	}
	if object.GetName() == "" {
		return e, malformed("there is an event about a namespace without a name")
	}
	e.namespace = allowlist.Candidate{
		Name: object.GetName(), UID: string(object.GetUID()), Terminating: object.GetDeletionTimestamp() != nil,
	}
	return e, nil
}

func accessor(object runtime.Object) (metav1.Object, error) {
	if _, isStatus := object.(*metav1.Status); isStatus || object == nil {
		return nil, malformed("there is an event about no namespace")
	}
	m, err := meta.Accessor(object)
	if err != nil {
		return nil, malformed("there is an event about no namespace: %v", err)
	}
	return m, nil
}
