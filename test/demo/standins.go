package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/crd"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/poddriver"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
)

// standIns play what is not there: the Agent Sandbox controller, a kubelet, a provisioner of volumes.
type standIns struct {
	tasks     *tasks
	uninstall func(context.Context) error
}

func (s *standIns) stop(ctx context.Context) error {
	problems := []error{s.tasks.end()}
	if s.uninstall != nil {
		problems = append(problems, s.uninstall(ctx))
	}
	return errors.Join(problems...)
}

// startStandIns plays what the cluster lacks, in the demo's namespaces.
func (w *World) startStandIns(ctx context.Context) (seen string, err error) {
	run, tasks := newTasks(ctx)
	w.stand = &standIns{tasks: tasks}
	have, err := w.claimDefinition(ctx)
	if err != nil {
		return "", err
	}
	owns := agentsandbox.NamespacePrefix(w.options.Prefix + "-")
	var ready []<-chan struct{}
	if !w.site.Real {
		pods, err := poddriver.New(poddriver.Config{Owns: owns}, w.client)
		if err != nil {
			return "", err
		}
		tasks.run("stand-in for the kubelet", func() error { return pods.Run(run) })
		ready = append(ready, pods.Ready())
		seen = "; Pods are stand-ins"
	} else if err := w.provideVolumes(run, ctx, tasks); err != nil {
		return "", err
	}
	if have != "" && have.Versions() == nil {
		return "those of the cluster" + seen, nil
	}
	if !w.site.Own {
		w.stand.uninstall = w.removeDefinition
	}
	if err := crd.Install(ctx, w.site.REST, crd.V1beta1); err != nil {
		return "", err
	}
	if err := w.markDefinition(ctx); err != nil {
		return "", err
	}
	controller, err := agentsandbox.New(agentsandbox.Config{Owns: owns, Dialect: reconcile.Newest()}, w.dynamic)
	if err != nil {
		return "", err
	}
	tasks.run("stand-in for the Agent Sandbox controller", func() error { return controller.Run(run) })
	for _, one := range append(ready, controller.Ready()) {
		select {
		case <-one:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	return "stand-in of test/agentsandbox" + seen, nil
}

const volumePoll = 200 * time.Millisecond

// provideVolumes makes a volume on our own node for each claim of ours, which no provisioner there does. Another cluster has a default
// storage class.
func (w *World) provideVolumes(run, ctx context.Context, tasks *tasks) error {
	if w.site.Socket == "" {
		classes, err := w.client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("look for a default storage class: %w", err)
		}
		for _, class := range classes.Items {
			if class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
				return nil
			}
		}
		return errors.New("the cluster has no default storage class, from which a sandbox's workspace could come")
	}
	made := map[string]bool{}
	tasks.run("volumes", func() error {
		for {
			w.provide(run, made)
			select {
			case <-run.Done():
				return nil
			case <-time.After(volumePoll):
			}
		}
	})
	return nil
}

// provide makes the volumes that are missing; what fails is tried again.
func (w *World) provide(ctx context.Context, made map[string]bool) {
	claims, err := w.client.CoreV1().PersistentVolumeClaims(w.team).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, claim := range claims.Items {
		if claim.Spec.VolumeName != "" || made[string(claim.UID)] {
			continue
		}
		made[string(claim.UID)] = w.volume(ctx, &claim) == nil
	}
}

// volume is a directory of the node, which is this machine, for one claim.
func (w *World) volume(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	nodes, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		return errors.Join(err, errors.New("no node"))
	}
	i := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return n.Status.NodeInfo.KubeletVersion != "" })
	host := nodes.Items[max(i, 0)].Labels[corev1.LabelHostname]
	dir, err := os.MkdirTemp(w.options.Dir, "volume-")
	if err != nil {
		return err
	}
	_, err = w.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: w.options.Prefix + "-", Labels: w.marks()},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
			}}}},
		},
	}, metav1.CreateOptions{})
	return err
}

// volumes are those of the demo's claims, whoever made them.
func (w *World) volumes(ctx context.Context) ([]corev1.PersistentVolume, error) {
	all, err := w.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	return slices.DeleteFunc(all.Items, func(v corev1.PersistentVolume) bool {
		of := v.Spec.ClaimRef
		return of == nil || !strings.HasPrefix(of.Namespace, w.options.Prefix+"-")
	}), nil
}

// gone takes away the error of an object that is not there.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
