package agentsandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
)

// errOutdated says that the cache the decision came from lags behind the API server.
var errOutdated = errors.New("the sandbox has changed since it was read from the cache")

// reconcile observes one Sandbox, decides, acts and writes the status. It returns when the Sandbox has to be looked at
// again without an event, 0 for never.
func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	readError := c.cfg.Faults.at(ctx, reconcile.Observe, key)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	raw, observed, err := c.observe(key)
	if raw == nil || err != nil {
		return 0, err
	}
	if readError != nil { // as if the API server had answered so
		observed.Pods, observed.PodError = nil, readError
	}

	decision := reconcile.Decide(*observed, c.cfg.Dialect, time.Now())
	actError := readError
	for _, action := range decision.Actions {
		err := c.cfg.Faults.at(ctx, action.Step, key)
		if err == nil {
			err = c.act(ctx, observed.Sandbox, action)
		}
		if ctx.Err() != nil || errors.Is(err, errOutdated) {
			return 0, err
		}
		if err != nil {
			err = fmt.Errorf("%s %s: %w", action.Step, action.Name, err)
			actError = errors.Join(actError, err)
			if action.Step.OfPod() {
				observed.PodError = errors.Join(observed.PodError, err)
			} else {
				observed.ChildError = errors.Join(observed.ChildError, err)
			}
		}
	}
	if actError != nil {
		decision = reconcile.Decide(*observed, c.cfg.Dialect, time.Now())
	}
	if err := c.writeStatus(ctx, key, raw, observed.Sandbox, decision.Status); err != nil {
		return 0, errors.Join(actError, err)
	}
	return decision.Again, actError
}

// observe reads everything about one Sandbox from the caches. Without the Sandbox it returns nils.
func (c *Controller) observe(key types.NamespacedName) (*unstructured.Unstructured, *reconcile.Observed, error) {
	raw := c.cached(c.cfg.Dialect.Version.Resource(), key.Namespace, key.Name)
	if raw == nil {
		return nil, nil, nil
	}
	sandbox, err := api.Decode(raw)
	if err != nil {
		return nil, nil, err
	}
	observed := &reconcile.Observed{Sandbox: sandbox}
	hash := api.NameHash(sandbox.Name)
	all, err := c.informer[pods].GetIndexer().ByIndex(cache.NamespaceIndex, key.Namespace)
	if err != nil {
		return nil, nil, fmt.Errorf("list pods of namespace %s from the cache: %w", key.Namespace, err)
	}
	for _, o := range all {
		u := o.(*unstructured.Unstructured)
		if u.GetLabels()[api.LabelNameHash] != hash && u.GetName() != sandbox.Name && u.GetName() != sandbox.PodName() {
			continue
		}
		pod, err := decode[corev1.Pod](u)
		if err != nil {
			return nil, nil, err
		}
		observed.Pods = append(observed.Pods, pod)
	}
	for _, t := range sandbox.Spec.VolumeClaimTemplates {
		if u := c.cached(claims, key.Namespace, sandbox.ClaimName(t)); u != nil {
			claim, err := decode[corev1.PersistentVolumeClaim](u)
			if err != nil {
				return nil, nil, err
			}
			observed.Claims = append(observed.Claims, claim)
		}
	}
	if u := c.cached(services, key.Namespace, key.Name); u != nil {
		if observed.Service, err = decode[corev1.Service](u); err != nil {
			return nil, nil, err
		}
	}
	return raw, observed, nil
}

func (c *Controller) cached(resource schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	o, exists, err := c.informer[resource].GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !exists { // the cache has no other errors than a bad key
		return nil
	}
	return o.(*unstructured.Unstructured)
}

func decode[T any](u *unstructured.Unstructured) (*T, error) {
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &typed); err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return &typed, nil
}

// act carries out one action.
func (c *Controller) act(ctx context.Context, s *api.Sandbox, a reconcile.Action) error {
	client := c.resource(a.Step).Namespace(s.Namespace)
	switch a.Step {
	case reconcile.CreatePod, reconcile.CreateClaim, reconcile.CreateService:
		if err := c.confirm(ctx, s); err != nil {
			return err
		}
		_, err := client.Create(ctx, &unstructured.Unstructured{Object: a.Object}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%w: %w", errOutdated, err)
		}
		return err
	case reconcile.PatchPod, reconcile.ClearPodName:
		body, err := json.Marshal(a.Patch)
		if err != nil {
			return err
		}
		_, err = client.Patch(ctx, a.Name, types.MergePatchType, body, metav1.PatchOptions{})
		return err
	default:
		err := client.Delete(ctx, a.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
}

// resource returns the client for what a step changes.
func (c *Controller) resource(step reconcile.Step) dynamic.NamespaceableResourceInterface {
	switch step {
	case reconcile.CreateClaim:
		return c.client.Resource(claims)
	case reconcile.CreateService, reconcile.DeleteService:
		return c.client.Resource(services)
	case reconcile.CreatePod, reconcile.DeletePod, reconcile.PatchPod:
		return c.client.Resource(pods)
	default:
		return c.client.Resource(c.cfg.Dialect.Version.Resource())
	}
}

// confirm asks the API server whether the Sandbox is still the one that was decided upon.
func (c *Controller) confirm(ctx context.Context, s *api.Sandbox) error {
	live, err := c.client.Resource(c.cfg.Dialect.Version.Resource()).Namespace(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errOutdated
	}
	if err != nil {
		return fmt.Errorf("confirm the sandbox: %w", err)
	}
	if live.GetUID() != s.UID || live.GetGeneration() != s.Generation || live.GetDeletionTimestamp() != nil {
		return errOutdated
	}
	return nil
}

// writeStatus replaces the status if it changed. It is guarded by resourceVersion; losing to another writer is an error
// that leads to another pass.
func (c *Controller) writeStatus(
	ctx context.Context, key types.NamespacedName, raw *unstructured.Unstructured, s *api.Sandbox, status *api.Status,
) error {
	if status == nil || equality.Semantic.DeepEqual(s.Status, *status) {
		return nil
	}
	if err := c.cfg.Faults.at(ctx, reconcile.WriteStatus, key); err != nil {
		return err
	}
	encoded, err := api.Encode(status)
	if err != nil {
		return err
	}
	updated := raw.DeepCopy()
	updated.Object["status"] = encoded
	_, err = c.client.Resource(c.cfg.Dialect.Version.Resource()).Namespace(key.Namespace).
		UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the status of sandbox %s: %w", key, err)
	}
	return nil
}
