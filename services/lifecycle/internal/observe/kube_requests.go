package observe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// pageLimit ends a page that takes too long.
	pageLimit = 45 * time.Second
	// leastWatch and mostWatch bound how long the server is asked to keep a watch; a random time between them spreads the ends of
	// watches that began together. overtime is how long after that a watch is ended from this side.
	leastWatch = 5 * time.Minute
	mostWatch  = 10 * time.Minute
	overtime   = 30 * time.Second
)

var errMalformed = errors.New("the answer cannot be understood")

// version reads the version of an object or a list.
func version(text string) (uint64, error) {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil || v == 0 {
		return 0, fmt.Errorf("%w: its resource version is %.40q", errMalformed, text)
	}
	return v, nil
}

// page is one page of a list: its metadata, and its objects.
type page struct {
	meta    metav1.ListInterface
	objects []runtime.Object
}

// listPages asks for all pages of size objects each, and reads each before the next.
func listPages[T any](
	ctx context.Context, selector string, size int64, ask func(context.Context, metav1.ListOptions) (page, error), read func(runtime.Object) (Item[T], error),
) (Listing[T], error) {
	var out Listing[T]
	options := metav1.ListOptions{LabelSelector: selector, Limit: size}
	for {
		p, err := onePage(ctx, options, ask)
		if err != nil {
			return Listing[T]{}, err
		}
		if out.Version == 0 { // every page is of the state of the first
			if out.Version, err = version(p.meta.GetResourceVersion()); err != nil {
				return Listing[T]{}, err
			}
		}
		for _, o := range p.objects {
			i, err := read(o)
			if err != nil {
				return Listing[T]{}, err
			}
			out.Items = append(out.Items, i)
		}
		if options.Continue = p.meta.GetContinue(); options.Continue == "" {
			return out, nil
		}
	}
}

func onePage(ctx context.Context, options metav1.ListOptions, ask func(context.Context, metav1.ListOptions) (page, error)) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, pageLimit)
	defer cancel()
	return ask(ctx, options)
}

// watchFrom tells what happens after a version. read is told of no object that is gone.
func watchFrom[T any](
	ctx context.Context, k kind, selector string, from uint64, open func(context.Context, metav1.ListOptions) (watch.Interface, error),
	read func(runtime.Object) (Item[T], error), tell func(Change[T]) bool,
) error {
	length := leastWatch + rand.N(mostWatch-leastWatch) //nolint:gosec // it only spreads load
	seconds := int64(length / time.Second)
	ctx, cancel := context.WithTimeout(ctx, length+overtime)
	defer cancel()
	stream, err := open(ctx, metav1.ListOptions{
		LabelSelector: selector, ResourceVersion: strconv.FormatUint(from, 10), AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if err != nil {
		return ended("watch", k, err)
	}
	defer func() {
		stream.Stop()
		// The client's reader ends when it finds nobody here, and then closes the channel.
		for range stream.ResultChan() {
		}
	}()
	if !tell(Change[T]{Form: Opened}) {
		return nil
	}
	for event := range stream.ResultChan() {
		ch, err := understand(event, read)
		if err != nil {
			return ended("watch", k, err)
		}
		if !tell(ch) {
			return nil
		}
	}
	return nil
}

// understand makes a change of an event.
func understand[T any](event watch.Event, read func(runtime.Object) (Item[T], error)) (Change[T], error) {
	var ch Change[T]
	switch event.Type {
	case watch.Added, watch.Modified:
		ch.Form = Put
		var err error
		ch.Item, err = read(event.Object)
		return ch, relist(err)
	case watch.Deleted:
		ch.Form = Dropped
	case watch.Bookmark:
		ch.Form = Reached
	case watch.Error:
		return ch, apierrors.FromObject(event.Object)
	default:
		return ch, relist(fmt.Errorf("%w: an event of the type %.40q", errMalformed, string(event.Type)))
	}
	m, err := meta.Accessor(event.Object)
	if err != nil {
		return ch, relist(fmt.Errorf("%w: an event about no object: %w", errMalformed, err))
	}
	ch.UID = key(m)
	ch.Version, err = version(m.GetResourceVersion())
	return ch, relist(err)
}

// relist is that of what a watch told something is missing, which only a list makes good.
func relist(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrRelist, err)
}

// key is the uid. An object without one, which no API server has, is known by its name.
func key(m metav1.Object) string {
	if uid := m.GetUID(); uid != "" {
		return string(uid)
	}
	return m.GetNamespace() + "/" + m.GetName()
}

// itemOf is an object as far as its metadata say.
func itemOf[T any](o runtime.Object) (Item[T], error) {
	m, err := meta.Accessor(o)
	if err != nil {
		return Item[T]{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	v, err := version(m.GetResourceVersion())
	return Item[T]{UID: key(m), Version: v}, err
}
