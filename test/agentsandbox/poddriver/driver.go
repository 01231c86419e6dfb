package poddriver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// workers is how many Pods are driven at the same time.
const workers = 4

// Config configures a Driver.
type Config struct {
	// Owns tells whether the driver is responsible for a namespace. It is required and must give the same answer every
	// time; agentsandbox.Namespaces and NamespacePrefix make such functions.
	Owns func(namespace string) bool
	// Rule chooses a Pod's behaviour; false leaves the choice to the Pod's annotation. It may be nil, and is called again
	// on every event of the Pod.
	Rule func(*corev1.Pod) (Behaviour, bool)
	// Bind makes the driver bind Pods without gates to the Node, for a cluster without a scheduler.
	Bind bool
	// Log gets what goes wrong, at debug level: to a test most of it is expected.
	Log zerolog.Logger
}

// Driver drives the Pods of the namespaces it owns.
type Driver struct {
	cfg    Config
	client kubernetes.Interface
	pods   cache.SharedIndexInformer
	claims cache.SharedIndexInformer
	ready  chan struct{}

	mu         sync.Mutex
	podQueue   queue[types.NamespacedName] // nil before Run
	claimQueue queue[claimKey]
	overrides  map[types.NamespacedName]Behaviour
	seen       map[types.UID]seen
	lastError  error // of the latest list or watch
}

// New makes a driver that has contacted nothing yet. The client needs an administrator's rights.
func New(cfg Config, client kubernetes.Interface) (*Driver, error) {
	if cfg.Owns == nil {
		return nil, errors.New("configure the pod driver: Owns is not set; say which namespaces are this test's")
	}
	d := &Driver{
		cfg:       cfg,
		client:    client,
		ready:     make(chan struct{}),
		overrides: map[types.NamespacedName]Behaviour{},
		seen:      map[types.UID]seen{},
	}
	var err error
	d.pods, err = d.informer("pods", &corev1.Pod{}, d.podChanged)
	if err != nil {
		return nil, err
	}
	d.claims, err = d.informer("persistentvolumeclaims", &corev1.PersistentVolumeClaim{}, d.claimChanged)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Driver) informer(resource string, kind runtime.Object, changed func(o any, deleted bool)) (cache.SharedIndexInformer, error) {
	source := cache.NewListWatchFromClient(d.client.CoreV1().RESTClient(), resource, "", fields.Everything())
	informer := cache.NewSharedIndexInformer(source, kind, 0, cache.Indexers{})
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		d.cfg.Log.Debug().Err(err).Str("resource", resource).Msg("list or watch ended, starting again")
		d.mu.Lock()
		d.lastError = err
		d.mu.Unlock()
	})
	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { changed(o, false) },
			UpdateFunc: func(_, o any) { changed(o, false) },
			DeleteFunc: func(o any) {
				if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = tombstone.Obj
				}
				changed(o, true)
			},
		})
	}
	if err != nil {
		return nil, fmt.Errorf("prepare to watch %s: %w", resource, err)
	}
	return informer, nil
}

// Override gives one Pod a behaviour, from now on and for every later Pod of that name, whatever rule and annotation say.
func (d *Driver) Override(namespace, name string, b Behaviour) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.overrides[key] = b
	if d.podQueue != nil {
		d.podQueue.Add(key)
	}
}

// Ready is closed once the Node is registered and all Pods are seen.
func (d *Driver) Ready() <-chan struct{} { return d.ready }

// Run works until ctx ends, which is no error, and returns when all its goroutines have. It may be called once. Ending
// before the Pods were ever listed is an error that tells why they were not.
func (d *Driver) Run(ctx context.Context) error {
	d.mu.Lock()
	d.podQueue, d.claimQueue = newQueue[types.NamespacedName](), newQueue[claimKey]()
	d.mu.Unlock()
	stop := func() { d.podQueue.ShutDown(); d.claimQueue.ShutDown() }
	defer stop()

	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { d.pods.RunWithContext(ctx) })
	running.Go(func() { d.claims.RunWithContext(ctx) })
	registered := make(chan struct{})
	running.Go(func() { d.keepNode(ctx, registered) })
	if err := d.awaitStart(ctx, registered); err != nil {
		return err
	}
	close(d.ready)
	for range workers {
		running.Go(func() { work(ctx, d.podQueue, d.cfg.Log, d.drive) })
	}
	running.Go(func() { work(ctx, d.claimQueue, d.cfg.Log, d.provision) })
	<-ctx.Done()
	stop()
	return nil
}

func (d *Driver) awaitStart(ctx context.Context, registered <-chan struct{}) error {
	synced := cache.WaitForCacheSync(ctx.Done(), d.pods.HasSynced, d.claims.HasSynced)
	if synced {
		select {
		case <-registered:
			return nil
		case <-ctx.Done():
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Errorf("pod driver stopped before it could start: last error: %w", errors.Join(context.Cause(ctx), d.lastError))
}
