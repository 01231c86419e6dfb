package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/apistatus"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// What an error may have in it.
var (
	// ErrExists: another Sandbox has the name, and nothing was made.
	ErrExists = errors.New("another sandbox has the name")
	// ErrRefused: the API server refuses the object for what it says, and nothing was made. What it said is in the error too, for
	// apistatus.Told.
	ErrRefused = errors.New("the cluster refuses it")
	// ErrTerminating: the namespace is being deleted, and nothing was made.
	ErrTerminating = errors.New("its namespace is being deleted")
	// ErrUnsettled: it is not known whether the object was made.
	ErrUnsettled = errors.New("it is not known whether it was made")
	// ErrChanged: somebody has written to the object since it was read, or another has its name, and nothing was done.
	ErrChanged = errors.New("it was written to meanwhile")
	// ErrNotServed: the API server serves no known version of the Sandbox resource.
	ErrNotServed = errors.New("no known version of the Sandbox resource is served: install the Agent Sandbox definitions")
)

// Cluster is one API server. Safe for concurrent use. Make it with New.
type Cluster struct {
	client    kubeclient.Client
	scheme    workspace.Scheme
	namespace string // all that is looked at in shared mode; empty is every namespace
	ours      labels.Selector
	now       func() time.Time
	// older is until when the older version of the resource is tried first.
	older atomic.Pointer[time.Time]
}

// reprobe is for how long the older version is tried first after it answered where the newer one is not served.
const reprobe = 30 * time.Second

// New makes a Cluster of a client that bounds its calls, kubeclient.Clients.Calls. It sends nothing.
func New(scheme workspace.Scheme, client kubeclient.Client) (*Cluster, error) {
	if client.Typed == nil || client.Dynamic == nil || client.Metadata == nil {
		return nil, errors.New("cluster: a client is missing")
	}
	ours, err := workspace.SelectGateway(scheme.GatewayID)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c := &Cluster{client: client, scheme: scheme, ours: ours, now: time.Now}
	if scheme.Mode == driverconf.ModeShared {
		c.namespace = scheme.Namespace
	}
	return c, nil
}

// Made is a Sandbox object that this call made.
type Made struct {
	Namespace, Name string
	UID             types.UID
	Version         sandboxapi.Version
	// ResourceVersion is of when it was made or found.
	ResourceVersion string
}

// Create makes a Sandbox. render renders it for a version of the resource; its generation annotation must be one that no other
// object has. The errors are ErrExists, ErrRefused, ErrTerminating, ErrUnsettled and ErrNotServed, and that of render unchanged; any other says
// that nothing was made for a reason that may pass.
func (c *Cluster) Create(ctx context.Context, render func(sandboxapi.Version) (*unstructured.Unstructured, error)) (Made, error) {
	for _, version := range c.versions() {
		object, err := render(version)
		if err != nil {
			return Made{}, err
		}
		made, err := c.create(ctx, version, object)
		if errors.Is(err, ErrNotServed) {
			continue
		}
		if err == nil {
			c.answered(version)
		}
		return made, err
	}
	c.older.Store(nil)
	return Made{}, ErrNotServed
}

func (c *Cluster) create(ctx context.Context, version sandboxapi.Version, object *unstructured.Unstructured) (Made, error) {
	of := c.client.Dynamic.Resource(version.GroupVersionResource()).Namespace(object.GetNamespace())
	what := fmt.Sprintf("make Sandbox %s/%s", object.GetNamespace(), object.GetName())
	done, err := of.Create(ctx, object, metav1.CreateOptions{})
	err = apistatus.Quiet(err) // it may quote the object
	var status *apierrors.StatusError
	switch {
	case err == nil:
		return madeOf(version, done), nil
	case apierrors.IsNotFound(err) && unserved(err):
		return Made{}, ErrNotServed
	case apierrors.IsAlreadyExists(err):
		return c.perhapsOurs(ctx, version, object, fmt.Errorf("%s: %w", what, ErrExists))
	case errors.Is(err, kubeclient.ErrThrottled): // it was not sent
		return Made{}, fmt.Errorf("%s: %w", what, err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return Made{}, fmt.Errorf("%s: %w: %w", what, ErrTerminating, err)
	case apierrors.IsTooManyRequests(err), apierrors.IsUnauthorized(err), apierrors.IsConflict(err): // nobody has judged it
		return Made{}, fmt.Errorf("%s: %w", what, err)
	case errors.As(err, &status) && status.ErrStatus.Code < 500 && !apierrors.IsTimeout(err):
		return Made{}, fmt.Errorf("%s: %w: %w", what, ErrRefused, err)
	default:
		return c.perhapsOurs(ctx, version, object, fmt.Errorf("%s: %w: %w", what, ErrUnsettled, err))
	}
}

// perhapsOurs finds out whether the object that has the name is the one that was to be made; otherwise is what to answer if not.
func (c *Cluster) perhapsOurs(ctx context.Context, version sandboxapi.Version, want *unstructured.Unstructured, otherwise error) (Made, error) {
	if ctx.Err() != nil { // the caller is gone; the answer to it does not matter, whether there is something to undo does
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), undoing)
		defer cancel()
	}
	seen, err := c.client.Dynamic.Resource(version.GroupVersionResource()).Namespace(want.GetNamespace()).Get(ctx, want.GetName(), metav1.GetOptions{})
	if err != nil {
		if errors.Is(otherwise, ErrExists) || apierrors.IsNotFound(err) {
			return Made{}, otherwise
		}
		return Made{}, fmt.Errorf("%w; and looking for it: %w", otherwise, err)
	}
	const generation = workspace.AnnotationGeneration
	if g := want.GetAnnotations()[generation]; g != "" && seen.GetAnnotations()[generation] == g {
		return madeOf(version, seen), nil
	}
	if errors.Is(otherwise, ErrExists) {
		return Made{}, otherwise
	}
	return Made{}, fmt.Errorf("make Sandbox %s/%s: %w", want.GetNamespace(), want.GetName(), ErrExists)
}

func madeOf(version sandboxapi.Version, u *unstructured.Unstructured) Made {
	return Made{Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), Version: version, ResourceVersion: u.GetResourceVersion()}
}

// unserved reports whether a 404 is about the resource and not about a namespace.
func unserved(err error) bool {
	var status *apierrors.StatusError
	return errors.As(err, &status) && (status.ErrStatus.Details == nil || status.ErrStatus.Details.Kind != "namespaces")
}

// versions are the versions of the resource in the order in which to try them.
func (c *Cluster) versions() []sandboxapi.Version {
	if until := c.older.Load(); until != nil && c.now().Before(*until) {
		return []sandboxapi.Version{sandboxapi.V1alpha1, sandboxapi.V1beta1}
	}
	return sandboxapi.Versions()
}

func (c *Cluster) answered(version sandboxapi.Version) {
	if version == sandboxapi.V1alpha1 {
		if until := c.older.Load(); until == nil || !c.now().Before(*until) {
			c.older.Store(new(c.now().Add(reprobe)))
		}
		return
	}
	c.older.Store(nil)
}
