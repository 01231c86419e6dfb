package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

func (p *play) core() corev1client.CoreV1Interface { return p.stage.site.Cluster.Client().CoreV1() }

func (p *play) namespaceMake(ctx context.Context, args []string) (answer, error) {
	labels := map[string]string{}
	if len(args) == 2 {
		if args[1] != "allowed" {
			return answer{}, fmt.Errorf("%q is not allowed", args[1])
		}
		key, value, _ := strings.Cut(p.stage.site.Label, "=")
		labels[key] = value
	}
	name := p.namespace(args[0])
	p.spare[name] = true
	_, err := p.core().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	if err != nil {
		return answer{}, err
	}
	// What is made in it needs its account.
	return done, poll(ctx, func() (bool, error) {
		_, err := p.core().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, ignoreAbsence(err)
	})
}

func (p *play) namespaceLabel(ctx context.Context, args []string) (answer, error) {
	key, value, _ := strings.Cut(p.stage.site.Label, "=")
	text := fmt.Sprintf("%q", value)
	switch args[1] {
	case "on":
	case "off":
		text = "null"
	default:
		return answer{}, fmt.Errorf("%q is neither on nor off", args[1])
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, text)
	_, err := p.core().Namespaces().Patch(ctx, p.namespace(args[0]), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return done, err
}

// anchor is an object that cannot go while it has its finalizer.
const anchor = "anchor"

func (p *play) namespaceHold(ctx context.Context, args []string) (answer, error) {
	name := p.namespace(args[0])
	_, err := p.core().ConfigMaps(name).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: anchor, Finalizers: []string{"portcullis.test/" + anchor}},
	}, metav1.CreateOptions{})
	if err == nil {
		p.held = append(p.held, name)
	}
	return done, err
}

func (p *play) namespaceUnhold(ctx context.Context, args []string) (answer, error) {
	return done, p.unhold(ctx, p.namespace(args[0]))
}

func (p *play) unhold(ctx context.Context, namespace string) error {
	_, err := p.core().ConfigMaps(namespace).Patch(ctx, anchor, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err == nil {
		p.held = slices.DeleteFunc(p.held, func(one string) bool { return one == namespace })
	}
	return err
}

func (p *play) namespaceDelete(ctx context.Context, args []string) (answer, error) {
	return done, p.deleteNamespace(ctx, p.namespace(args[0]))
}

func (p *play) deleteNamespace(ctx context.Context, namespace string) error {
	return ignoreAbsence(p.core().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
}

func (p *play) namespaceState(ctx context.Context, args []string) (answer, error) {
	name := p.namespace(args[0])
	if p.stage.site.Mode == "managed" {
		actual, err := p.stage.scheme().NamespaceOf(name)
		if err != nil {
			return answer{}, err
		}
		name = actual
	}
	ns, err := p.core().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return answer{word: "gone"}, nil
	}
	return answer{word: string(ns.Status.Phase)}, err
}

func ignoreAbsence(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// lookAgain is the time between two looks.
const lookAgain = 50 * time.Millisecond

// poll asks until it is so.
func poll(ctx context.Context, so func() (bool, error)) error {
	for {
		ok, err := so()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("not within the time that a command has")
		case <-time.After(lookAgain):
		}
	}
}
