package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/poddriver"
)

// marks are the labels of what the demo makes.
func (w *World) marks() map[string]string { return map[string]string{labelDemo: w.options.Prefix} }

func (w *World) marked() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: labelDemo + "=" + w.options.Prefix}
}

// makeNamespace makes one of the demo's. One that somebody else made is left alone.
func (w *World) makeNamespace(ctx context.Context, name string, labels map[string]string) error {
	_, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s is there, and the demo did not make it: delete it if nobody needs it", name)
	}
	if err != nil {
		return fmt.Errorf("make namespace %s: %w", name, err)
	}
	// Pods can be made once its ServiceAccount is there.
	return eventually(ctx, func() error {
		_, err := w.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// Remains is what there is of the demo in the cluster, by kind.
func (w *World) Remains(ctx context.Context) (map[string][]string, error) {
	found := map[string][]string{}
	namespaces, err1 := w.client.CoreV1().Namespaces().List(ctx, w.marked())
	roles, err2 := w.client.RbacV1().ClusterRoles().List(ctx, w.marked())
	bindings, err3 := w.client.RbacV1().ClusterRoleBindings().List(ctx, w.marked())
	volumes, err4 := w.volumes(ctx)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, fmt.Errorf("look for what is left: %w", err)
	}
	for _, one := range namespaces.Items {
		found[kindNamespaces] = append(found[kindNamespaces], one.Name)
	}
	for _, one := range roles.Items {
		found[kindRoles] = append(found[kindRoles], one.Name)
	}
	for _, one := range bindings.Items {
		found[kindBindings] = append(found[kindBindings], one.Name)
	}
	for _, one := range volumes {
		found[kindVolumes] = append(found[kindVolumes], one.Name)
	}
	return found, nil
}

// The kinds of objects that stay when nobody removes them: all others are in the namespaces.
const (
	kindNamespaces = "namespaces"
	kindRoles      = "cluster roles"
	kindBindings   = "cluster role bindings"
	kindVolumes    = "volumes"
)

func kinds() []string { return []string{kindNamespaces, kindRoles, kindBindings, kindVolumes} }

// removeObjects deletes all of it and returns when it is gone. What confirms the deletion of Pods must run. The definition of Sandboxes is
// marked before that which says that it is the demo's to mark goes.
func (w *World) removeObjects(ctx context.Context) error {
	if err := w.markDefinition(ctx); err != nil {
		return err
	}
	if err := w.askRemoval(ctx); err != nil {
		return err
	}
	return eventually(ctx, func() error {
		found, err := w.Remains(ctx)
		if err != nil {
			return err
		}
		for _, kind := range kinds() {
			if len(found[kind]) > 0 {
				return errors.Join(fmt.Errorf("%s are left: %s", kind, strings.Join(found[kind], ", ")), w.askRemoval(ctx))
			}
		}
		return nil
	})
}

func (w *World) askRemoval(ctx context.Context) error {
	found, err := w.Remains(ctx)
	if err != nil {
		return err
	}
	now := metav1.DeleteOptions{}
	var problems []error
	for _, name := range found[kindNamespaces] {
		problems = append(problems, busy(w.client.CoreV1().Namespaces().Delete(ctx, name, now)))
	}
	for _, name := range found[kindRoles] {
		problems = append(problems, gone(w.client.RbacV1().ClusterRoles().Delete(ctx, name, now)))
	}
	for _, name := range found[kindBindings] {
		problems = append(problems, gone(w.client.RbacV1().ClusterRoleBindings().Delete(ctx, name, now)))
	}
	if len(found[kindNamespaces]) == 0 { // a volume stays as long as its claim
		for _, name := range found[kindVolumes] {
			problems = append(problems, gone(w.client.CoreV1().PersistentVolumes().Delete(ctx, name, now)))
		}
	}
	return errors.Join(problems...)
}

// busy takes away the errors of a namespace that goes already.
func busy(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return gone(err)
}

// sweepFormer removes what a demo that was killed left behind.
func (w *World) sweepFormer(ctx context.Context, t *Timeline) error {
	found, err := w.Remains(ctx)
	if err != nil || len(found) == 0 {
		return err
	}
	return t.Check("what a former demo left is removed", func() (string, error) {
		var lines []string
		for _, kind := range kinds() {
			lines = append(lines, fmt.Sprintf("%d %s", len(found[kind]), kind))
		}
		return strings.Join(lines, ", "), w.removeFormer(ctx)
	})
}

func (w *World) removeFormer(ctx context.Context) error {
	run, tasks := newTasks(ctx)
	if !w.site.Real { // somebody has to confirm that its Pods are gone
		pods, err := poddriver.New(poddriver.Config{Owns: agentsandbox.NamespacePrefix(w.options.Prefix + "-")}, w.client)
		if err != nil {
			return err
		}
		tasks.run("stand-in for the kubelet", func() error { return pods.Run(run) })
		select {
		case <-pods.Ready(): // ended before that it complains
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), tasks.end())
		}
	}
	err := w.removeObjects(ctx)
	return errors.Join(err, tasks.end())
}

// look is how often something is looked at that is waited for.
const look = 50 * time.Millisecond

// eventually tries until there is no error, and returns the last one when ctx ends.
func eventually(ctx context.Context, try func() error) error {
	var last error
	for {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil { // what the end of the wait did to the last try says nothing
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", last, context.Cause(ctx))
		case <-time.After(look):
		}
	}
}

// Sweep removes what is left of demos with the prefix.
func Sweep(ctx context.Context, site *Site, prefix, dir string) error {
	w := &World{options: Options{Site: site, Prefix: prefix, Dir: dir}, site: site}
	var err error
	if w.client, err = kubernetes.NewForConfig(site.REST); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if w.dynamic, err = dynamic.NewForConfig(site.REST); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	return errors.Join(w.removeFormer(ctx), w.removeDefinition(ctx))
}
