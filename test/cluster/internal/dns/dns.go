// Package dns gives a node cluster its name server: CoreDNS in a Pod of kube-system, behind the Service that clusters
// have it behind, so that network policies which allow name resolution mean here what they mean elsewhere.
//
// Every Pod of the cluster is told of the server's address, whether it runs or not: only who asks for it pays for it.
//
// Invariant: to deploy it again changes nothing.
//
// Callers: package cluster, for tests, the kube command, and package node for the address.
package dns

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/image"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/manifest"
)

// What Pods are told.
const (
	Address = "10.96.0.10" // within the range of cluster addresses
	Domain  = "cluster.local"
)

// ref is the name of the image, which is made from the program that is to be deployed.
const ref = "portcullis.test/coredns:1"

// readyLimit bounds the wait for a server that will never answer.
const readyLimit = 90 * time.Second

//go:embed coredns.yaml
var manifests string

// Deploy loads the program into the node's containerd that listens at socket, as an image, deploys it, and returns once
// it answers. The archive of the image is written to dir.
func Deploy(ctx context.Context, typed kubernetes.Interface, untyped dynamic.Interface, socket, program, dir string) error {
	archive := filepath.Join(dir, "coredns.tar")
	err := image.Write(archive, image.Spec{Ref: ref, Programs: map[string]string{"/coredns": program}, Entrypoint: []string{"/coredns"}})
	if err != nil {
		return err
	}
	if err := image.Load(ctx, socket, archive); err != nil {
		return err
	}
	text := strings.NewReplacer("$IMAGE", ref, "$ADDRESS", Address, "$DOMAIN", Domain).Replace(manifests)
	if err := manifest.NewApplier(untyped, typed).Apply(ctx, metav1.NamespaceSystem, []byte(text)); err != nil {
		return fmt.Errorf("deploy the name server: %w", err)
	}
	last := errors.New("never asked")
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, readyLimit, true, func(ctx context.Context) (bool, error) {
		d, err := typed.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
		switch {
		case err != nil:
			last = err
		case d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < 1 || d.Status.AvailableReplicas < 1:
			last = fmt.Errorf("its Deployment has %+v", d.Status)
		default:
			return true, nil
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the name server: %w (last: %w)", err, last)
	}
	return nil
}
