package agentsandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
)

// The resources that a controller watches besides Sandboxes.
var (
	pods     = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	claims   = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	services = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

const (
	// A Sandbox whose reconciliation failed is tried again after retryMin, doubling up to retryMax. The real controller
	// waits up to 1000 s, longer than a test should.
	retryMin = 10 * time.Millisecond
	retryMax = 2 * time.Second

	// workers is how many Sandboxes are reconciled at the same time. A held one occupies a worker.
	workers = 4
)

// Config configures a Controller.
type Config struct {
	// Owns tells whether this controller is responsible for a namespace. It is required and must give the same answer
	// every time. See Namespaces and NamespacePrefix.
	Owns func(namespace string) bool
	// Dialect chooses the controller to imitate. It is required.
	Dialect reconcile.Dialect
	// Faults interferes with the controller; nil does not.
	Faults *Faults
	// Log gets what goes wrong, at debug level: to a test most of it is expected.
	Log zerolog.Logger
}

// Namespaces returns a Config.Owns that accepts exactly these namespaces.
func Namespaces(names ...string) func(string) bool {
	names = slices.Clone(names)
	return func(namespace string) bool { return slices.Contains(names, namespace) }
}

// NamespacePrefix returns a Config.Owns that accepts namespaces by the beginning of their name, for tests in which the
// code under test makes namespaces. An empty prefix accepts none.
func NamespacePrefix(prefix string) func(string) bool {
	return func(namespace string) bool { return prefix != "" && strings.HasPrefix(namespace, prefix) }
}

func (c Config) validate() error {
	if c.Owns == nil {
		return errors.New("configure the sandbox controller: Owns is not set; say which namespaces are this test's")
	}
	if err := c.Dialect.Validate(); err != nil {
		return fmt.Errorf("configure the sandbox controller: %w", err)
	}
	return nil
}

// Controller brings Sandboxes to life in the namespaces it owns.
type Controller struct {
	cfg      Config
	client   dynamic.Interface
	informer map[schema.GroupVersionResource]cache.SharedIndexInformer
	factory  dynamicinformer.DynamicSharedInformerFactory
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
	ready    chan struct{}

	mu        sync.Mutex
	listError error // of the latest list or watch, for the report of a controller that never became ready
}

// New makes a controller that has contacted nothing yet. The client needs the rights of the real controller: everything
// on pods, persistentvolumeclaims, services, sandboxes and sandboxes/status in all namespaces.
func New(cfg Config, client dynamic.Interface) (*Controller, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Controller{
		cfg:      cfg,
		client:   client,
		informer: map[schema.GroupVersionResource]cache.SharedIndexInformer{},
		factory:  dynamicinformer.NewDynamicSharedInformerFactory(client, 0),
		ready:    make(chan struct{}),
	}
	for _, resource := range []schema.GroupVersionResource{cfg.Dialect.Version.Resource(), pods, claims, services} {
		if err := c.watch(resource); err != nil {
			return nil, fmt.Errorf("prepare to watch %s: %w", resource.Resource, err)
		}
	}
	return c, nil
}

func (c *Controller) watch(resource schema.GroupVersionResource) error {
	informer := c.factory.ForResource(resource).Informer()
	c.informer[resource] = informer
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		c.mu.Lock()
		c.listError = err
		c.mu.Unlock()
		c.cfg.Log.Debug().Err(err).Str("resource", resource.Resource).Msg("list or watch ended, starting again")
	})
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.changed,
		UpdateFunc: func(_, o any) { c.changed(o) },
		DeleteFunc: c.changed,
	})
	return err
}

// changed queues the Sandboxes that an object may matter to: the one of its name (the object may be that Sandbox, or a
// Pod in its way) and its controller.
func (c *Controller) changed(o any) {
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = tombstone.Obj
	}
	m, ok := o.(metav1.Object)
	if !ok || !c.cfg.Owns(m.GetNamespace()) {
		return
	}
	c.queue.Add(types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()})
	if owner := metav1.GetControllerOf(m); owner != nil && owner.Kind == api.Kind {
		c.queue.Add(types.NamespacedName{Namespace: m.GetNamespace(), Name: owner.Name})
	}
}

// Ready is closed once the controller has seen the whole cluster and works.
func (c *Controller) Ready() <-chan struct{} { return c.ready }

// Run works until ctx ends, which is no error, and returns when all its goroutines have. It may be called once. Ending
// before the caches were ever filled is an error that tells why they were not, most likely a missing CRD.
func (c *Controller) Run(ctx context.Context) error {
	c.queue = workqueue.NewTypedRateLimitingQueue( // here and not in New, because it starts goroutines
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryMin, retryMax))
	defer c.queue.ShutDown()
	c.factory.Start(ctx.Done())
	defer c.factory.Shutdown()
	for resource, informer := range c.informer {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			continue
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("stopped before %s had been listed (is the CRD installed?): last error: %w",
			resource.GroupResource(), errors.Join(context.Cause(ctx), c.listError))
	}
	close(c.ready)

	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	working.Wait()
	return nil
}

// next reconciles one Sandbox and reports whether there may be more.
func (c *Controller) next(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	again, err := c.reconcile(ctx, key)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		c.cfg.Log.Debug().Err(err).Stringer("sandbox", key).Msg("reconcile a sandbox, trying again")
		c.queue.AddRateLimited(key)
	case again > 0:
		c.queue.Forget(key)
		c.queue.AddAfter(key, again)
	default:
		c.queue.Forget(key)
	}
	return true
}
