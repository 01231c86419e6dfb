package lookups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clients "k8s.io/client-go/metadata"

	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// ErrAbsent is in an error that says that the API server answered, and that there is no such object; about a TokenReview,
// that the answer has no status.
var ErrAbsent = errors.New("it does not exist")

// Subjects, as they are in the label subject.
const (
	subjectReview    = "tokenreview"
	subjectNamespace = "namespace"
	subjectPod       = "pod"
	subjectSandbox   = "sandbox"
)

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// Cluster reads from one API server. Safe for concurrent use.
type Cluster struct {
	client  kubeclient.Client
	timeout time.Duration
	metrics *metrics
}

// New makes a Cluster of a client that bounds its calls, kubeclient.Clients.Calls, and registers the metrics
// portcullis_tokenauth_lookup_seconds and _tokenreviews_total. timeout bounds each read and must be positive. It sends
// nothing.
func New(client kubeclient.Client, timeout time.Duration, reg prometheus.Registerer) (*Cluster, error) {
	if timeout <= 0 {
		return nil, fmt.Errorf("lookups: the timeout is %s, must be positive", timeout)
	}
	if client.Typed == nil || client.Metadata == nil {
		return nil, errors.New("lookups: no client was given")
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	return &Cluster{client: client, timeout: timeout, metrics: m}, nil
}

// Namespace reads the metadata of a live Namespace.
func (c *Cluster) Namespace(ctx context.Context, name string) (*metav1.ObjectMeta, error) {
	return read(ctx, c, subjectNamespace, []string{name}, func(ctx context.Context) (*metav1.ObjectMeta, error) {
		return metadata(ctx, c.client.Metadata.Resource(namespaces), namespaces.GroupResource(), name)
	})
}

// Pod reads the metadata of a live Pod.
func (c *Cluster) Pod(ctx context.Context, namespace, name string) (*metav1.ObjectMeta, error) {
	return read(ctx, c, subjectPod, []string{namespace, name}, func(ctx context.Context) (*metav1.ObjectMeta, error) {
		return metadata(ctx, c.client.Metadata.Resource(pods).Namespace(namespace), pods.GroupResource(), name)
	})
}

// Sandbox reads the metadata of a live Sandbox through one version of its resource. That the version is not served is an
// error without ErrAbsent.
func (c *Cluster) Sandbox(ctx context.Context, version sandboxapi.Version, namespace, name string) (*sandboxapi.Sandbox, error) {
	resource := version.GroupVersionResource()
	return read(ctx, c, subjectSandbox, []string{namespace, name}, func(ctx context.Context) (*sandboxapi.Sandbox, error) {
		if !version.Known() {
			return nil, fmt.Errorf("the version %q of the resource is not known", version)
		}
		found, err := metadata(ctx, c.client.Metadata.Resource(resource).Namespace(namespace), resource.GroupResource(), name)
		if err != nil {
			return nil, err
		}
		box, err := sandboxapi.FromMetadata(found)
		if err != nil {
			return nil, fmt.Errorf("the Sandbox cannot be understood: %w", err)
		}
		return &box, nil
	})
}

// metadata reads the metadata of one object.
func metadata(ctx context.Context, from clients.ResourceInterface, resource schema.GroupResource, name string) (*metav1.ObjectMeta, error) {
	found, err := from.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, readFailure(err, resource, name)
	}
	return &found.ObjectMeta, nil
}

// read bounds and measures one read. names become parts of a path, and some came from a review or a Pod.
func read[T any](ctx context.Context, c *Cluster, subject string, names []string, ask func(context.Context) (*T, error)) (*T, error) {
	for _, name := range names {
		if name == "" || len(content.IsPathSegmentName(name)) > 0 {
			return nil, errors.New("a name is empty, or no object of the cluster can have it")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	began := time.Now()
	value, err := ask(ctx)
	c.metrics.read(subject, err, time.Since(began))
	return value, err
}
