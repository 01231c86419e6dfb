package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kinds of a sandbox's own objects.
const (
	kindSandboxes = "Sandboxes"
	kindPods      = "Pods"
	kindServices  = "Services"
	kindSecrets   = "Secrets"
	kindClaims    = "volume claims"
)

// left names the objects of these kinds in the workspace.
func (w *World) left(ctx context.Context, kinds ...string) (string, error) {
	core, all := w.client.CoreV1(), metav1.ListOptions{}
	lists := map[string]func() ([]string, error){
		kindSandboxes: func() ([]string, error) {
			l, err := w.dynamic.Resource(sandboxes).Namespace(w.team).List(ctx, all)
			if err != nil {
				return nil, err
			}
			return names(l.Items, "Sandbox ", func(i int) string { return l.Items[i].GetName() }), nil
		},
		kindPods: func() ([]string, error) {
			l, err := core.Pods(w.team).List(ctx, all)
			if err != nil {
				return nil, err
			}
			return names(l.Items, "Pod ", func(i int) string { return l.Items[i].Name }), nil
		},
		kindServices: func() ([]string, error) {
			l, err := core.Services(w.team).List(ctx, all)
			if err != nil {
				return nil, err
			}
			return names(l.Items, "Service ", func(i int) string { return l.Items[i].Name }), nil
		},
		kindSecrets: func() ([]string, error) {
			l, err := core.Secrets(w.team).List(ctx, all)
			if err != nil {
				return nil, err
			}
			return names(l.Items, "Secret ", func(i int) string { return l.Items[i].Name }), nil
		},
		kindClaims: func() ([]string, error) {
			l, err := core.PersistentVolumeClaims(w.team).List(ctx, all)
			if err != nil {
				return nil, err
			}
			return names(l.Items, "volume claim ", func(i int) string { return l.Items[i].Name }), nil
		},
	}
	var found []string
	for _, kind := range kinds {
		some, err := lists[kind]()
		if err != nil {
			return "", fmt.Errorf("look for %s: %w", kind, err)
		}
		found = append(found, some...)
	}
	return strings.Join(found, ", "), nil
}

func names[T any](items []T, kind string, name func(int) string) []string {
	var all []string
	for i := range items {
		all = append(all, kind+name(i))
	}
	return all
}

// Stopping is what the timeline calls the end of all processes.
const Stopping = "gateway, daemons and NATS stop when asked"

// leave is the last act: all of it ends and goes, and then it is looked for.
func (w *World) leave(ctx context.Context, t *Timeline) error {
	for _, part := range []struct {
		what string
		do   func(context.Context) (string, error)
	}{
		{"the sandbox's volume claim has gone", func(ctx context.Context) (string, error) {
			return "Kubernetes' garbage collector has seen that its Sandbox is gone", w.awaitNone(ctx, kindClaims)
		}},
		{Stopping, func(ctx context.Context) (string, error) {
			return "each with exit code 0; the last nswatch waited for a successor, and then withdrew the list", w.stopProcesses(ctx)
		}},
		{"what was made in the cluster is deleted", func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, longWait)
			defer cancel()
			return "", w.removeObjects(ctx)
		}},
		{"looked for in the cluster, and not found", w.lookCluster},
		{"looked for on this machine, and not found", w.lookMachine},
	} {
		if err := t.Check(part.what, func() (string, error) { return part.do(ctx) }); err != nil {
			return err
		}
	}
	w.undone = false
	return nil
}

// lookCluster looks by name as well, so that what lost its label is found.
func (w *World) lookCluster(ctx context.Context) (string, error) {
	found, err := w.Remains(ctx)
	if err != nil {
		return "", err
	}
	for _, kind := range kinds() {
		if len(found[kind]) > 0 {
			return "", fmt.Errorf("%s %s", kind, strings.Join(found[kind], ", "))
		}
	}
	namespaces, err1 := w.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	roles, err2 := w.client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	bindings, err3 := w.client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	objects, err4 := w.dynamic.Resource(sandboxes).List(ctx, metav1.ListOptions{})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return "", fmt.Errorf("look for what is left: %w", err)
	}
	var left []string
	add := func(kind, name string) {
		if strings.HasPrefix(name, w.options.Prefix+"-") {
			left = append(left, kind+" "+name)
		}
	}
	for _, one := range namespaces.Items {
		add("namespace", one.Name)
	}
	for _, one := range roles.Items {
		add("cluster role", one.Name)
	}
	for _, one := range bindings.Items {
		add("cluster role binding", one.Name)
	}
	for _, one := range objects.Items {
		add("Sandbox in namespace", one.GetNamespace())
	}
	if len(left) > 0 {
		return "", errors.New("left are " + strings.Join(left, ", "))
	}
	return fmt.Sprintf("namespaces, cluster roles, bindings named %s-*; volumes of their claims;\nSandboxes in any namespace of that name", w.options.Prefix), nil
}

func (w *World) lookMachine(context.Context) (string, error) {
	var left, gone []string
	for name, pid := range w.pids {
		if alive(pid) {
			left = append(left, "process "+name)
		}
		gone = append(gone, name)
	}
	if socket := w.mesh.Socket(); exists(socket) {
		left = append(left, "socket "+socket)
	}
	if len(left) > 0 {
		slices.Sort(left)
		return "", errors.New("left are " + strings.Join(left, ", "))
	}
	slices.Sort(gone)
	return "processes " + strings.Join(gone, ", ") + "\nsocket " + w.mesh.Socket(), nil
}
