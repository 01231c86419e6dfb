package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// Cluster reads and writes at one API server. Safe for concurrent use. Make it with New.
type Cluster struct {
	client  kubeclient.Client
	timeout time.Duration
	now     func() time.Time
	// older is until when the older version is tried first.
	older atomic.Pointer[time.Time]
}

// reprobe is for how long the older version of the Sandbox resource is tried first after it answered where the newer one is not
// served: an upgrade of the resource's definition is noticed then.
const reprobe = 30 * time.Second

// New makes a Cluster of a client that bounds its calls, kubeclient.Clients.Calls. timeout bounds each request and must be
// positive. It sends nothing.
func New(client kubeclient.Client, timeout time.Duration) (*Cluster, error) {
	if timeout <= 0 {
		return nil, fmt.Errorf("cluster: the timeout is %s, must be positive", timeout)
	}
	if client.Typed == nil {
		return nil, errors.New("cluster: no client was given")
	}
	return &Cluster{client: client, timeout: timeout, now: time.Now}, nil
}

func resource(group, name string) schema.GroupResource {
	return schema.GroupResource{Group: group, Resource: name}
}

var (
	pods       = resource("", "pods")
	services   = resource("", "services")
	secrets    = resource("", "secrets")
	events     = resource("", "events")
	namespaces = resource("", "namespaces")
	policies   = resource(networkingv1.GroupName, "networkpolicies")
	sandboxes  = resource(sandboxapi.Group, sandboxapi.Resource)
)

// Namespace reads a Namespace.
func (c *Cluster) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return read(ctx, c, namespaces, "", name, func(ctx context.Context) (*corev1.Namespace, error) {
		return c.client.Typed.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	})
}

// Policy reads a NetworkPolicy.
func (c *Cluster) Policy(ctx context.Context, namespace, name string) (*networkingv1.NetworkPolicy, error) {
	return read(ctx, c, policies, namespace, name, func(ctx context.Context) (*networkingv1.NetworkPolicy, error) {
		return c.client.Typed.NetworkingV1().NetworkPolicies(namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

// mostPolicies is how many policies of a namespace are looked through.
const mostPolicies = 1000

// Policies reads all NetworkPolicies of a namespace, as the API server has them at hand: it is for reports alone, and a list of the newest
// state is one that others wait for. More than 1000 are an error.
func (c *Cluster) Policies(ctx context.Context, namespace string) ([]networkingv1.NetworkPolicy, error) {
	list, err := read(ctx, c, policies, namespace, "", func(ctx context.Context) (*networkingv1.NetworkPolicyList, error) {
		return c.client.Typed.NetworkingV1().NetworkPolicies(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0", Limit: mostPolicies})
	})
	if err != nil {
		return nil, err
	}
	if list.Continue != "" || len(list.Items) > mostPolicies { // a list of what is at hand knows no limit
		return nil, fmt.Errorf("namespace %s has more than %d NetworkPolicies, too many to look through", namespace, mostPolicies)
	}
	return list.Items, nil
}

// Service reads a Service.
func (c *Cluster) Service(ctx context.Context, namespace, name string) (*corev1.Service, error) {
	return read(ctx, c, services, namespace, name, func(ctx context.Context) (*corev1.Service, error) {
		return c.client.Typed.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

// Pod reads a Pod.
func (c *Cluster) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return read(ctx, c, pods, namespace, name, func(ctx context.Context) (*corev1.Pod, error) {
		return c.client.Typed.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

// AwaitPod returns once something of a Pod has changed since the version, or, with an empty one, once there is a Pod of that name. It
// says that it is time for a look, and nothing else: what it was told may be no longer so. The error says that nobody will say.
func (c *Cluster) AwaitPod(ctx context.Context, namespace, name, version string) error {
	w, err := c.client.Typed.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: version,
	})
	if err != nil {
		return readFailure(err, pods, namespace, name)
	}
	defer w.Stop()
	select {
	case event, open := <-w.ResultChan():
		if open && event.Type != watch.Error {
			return nil
		}
		return fmt.Errorf("the watch of Pod %s/%s ended", namespace, name)
	case <-ctx.Done():
		return fmt.Errorf("the watch of Pod %s/%s was ended: %w", namespace, name, context.Cause(ctx))
	}
}

// SourceSecret reads a Secret that the settings name. It is for those alone: no other Secret may be read.
func (c *Cluster) SourceSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return read(ctx, c, secrets, namespace, name, func(ctx context.Context) (*corev1.Secret, error) {
		return c.client.Typed.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

// Sandbox reads a Sandbox through the newest version of the resource that the API server serves. That it serves none is an error
// without ErrAbsent. Where only the older one is served it is read at once, and the newer one is asked for again after some time, so
// an upgrade of the resource's definition is followed without a restart.
func (c *Cluster) Sandbox(ctx context.Context, namespace, name string) (*sandboxapi.Object, error) {
	var unserved error
	for _, version := range c.versions() {
		object, err := c.sandbox(ctx, version, namespace, name)
		if errors.Is(err, errNotServed) {
			unserved = err
			continue
		}
		if err == nil || errors.Is(err, ErrAbsent) {
			c.answered(version)
		}
		return object, err
	}
	c.older.Store(nil)
	return nil, fmt.Errorf("no known version of the Sandbox resource is served: install the Agent Sandbox definitions: %w", unserved)
}

func (c *Cluster) sandbox(ctx context.Context, version sandboxapi.Version, namespace, name string) (*sandboxapi.Object, error) {
	return read(ctx, c, sandboxes, namespace, name, func(ctx context.Context) (*sandboxapi.Object, error) {
		return askForSandbox(ctx, c.client.Typed.CoreV1().RESTClient().Get(), version, namespace, name)
	})
}

// askForSandbox sends a request that is answered with a Sandbox, which is read as it comes: through the dynamic client it would be read twice
// without a type and then once more with one, which was a fifth of a start's processor time.
func askForSandbox(ctx context.Context, request *rest.Request, version sandboxapi.Version, namespace, name string) (*sandboxapi.Object, error) {
	for _, segment := range []string{namespace, name} {
		if wrong := rest.IsValidPathSegmentName(segment); segment == "" || len(wrong) > 0 {
			return nil, fmt.Errorf("%q cannot be in the path of a Sandbox %q", segment, wrong)
		}
	}
	gvr := version.GroupVersionResource()
	result := request.AbsPath("/apis", gvr.Group, gvr.Version, "namespaces", namespace, gvr.Resource, name).
		SetHeader("Accept", "application/json").Do(ctx)
	if err := result.Error(); err != nil { // which says why, as Raw does not
		return nil, err
	}
	answer, err := result.Raw()
	if err != nil {
		return nil, err
	}
	object, err := sandboxapi.ObjectFromJSON(answer)
	return &object, err
}

func (c *Cluster) versions() []sandboxapi.Version {
	versions := sandboxapi.Versions()
	if until := c.older.Load(); until != nil && c.now().Before(*until) {
		slices.Reverse(versions)
	}
	return versions
}

// answered keeps that the older version answered because the newer one is not served. It does not prolong what is kept.
func (c *Cluster) answered(version sandboxapi.Version) {
	until := c.older.Load()
	switch kept := until != nil && c.now().Before(*until); {
	case version == sandboxapi.V1beta1:
		c.older.Store(nil)
	case !kept:
		c.older.Store(new(c.now().Add(reprobe)))
	}
}

// read bounds one request and says what it was for when it fails.
func read[T any](ctx context.Context, c *Cluster, of schema.GroupResource, namespace, name string, ask func(context.Context) (*T, error)) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	found, err := ask(ctx)
	if err != nil {
		return nil, readFailure(err, of, namespace, name)
	}
	return found, nil
}
