package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/portcullis-mesh/portcullis/test/demo"
)

// sweep removes what a demo that was killed has left. A cluster of ours that does not run has gone with everything in it.
func sweep(ctx context.Context, t *demo.Timeline, place *demo.Place, prefix string) error {
	if err := place.Take(); err != nil {
		return err
	}
	defer place.Free()
	kubeconfigs := []string{""} // the current one
	if os.Getenv("KUBE") != demo.Current {
		var err error
		if kubeconfigs, err = runningClusters(ctx); err != nil {
			return err
		}
	}
	if len(kubeconfigs) == 0 {
		t.Note("nothing is up, and no cluster of ours runs", "")
	}
	var problems []error
	for _, path := range kubeconfigs {
		problems = append(problems, t.Check("nothing is up, nothing of a demo is there", func() (string, error) {
			if path != "" {
				if err := os.Setenv("KUBECONFIG", path); err != nil {
					return "", err
				}
			}
			site, err := demo.UseCurrent(ctx, "127.0.0.1")
			if err != nil {
				return "", err
			}
			return site.Name + " at " + site.REST.Host, demo.Sweep(ctx, site, prefix, place.World())
		}))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return place.Remove()
}

// runningClusters are the kubeconfigs of those of our clusters that run.
func runningClusters(ctx context.Context) ([]string, error) {
	root, err := demo.Root()
	if err != nil {
		return nil, err
	}
	kube, err := demo.Kube(ctx, root, func(string) {})
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, profile := range []string{demo.Node, demo.ControlPlane} {
		out, err := exec.CommandContext(ctx, kube, "kubeconfig", profile).Output()
		if path := strings.TrimSpace(string(out)); err == nil && path != "" {
			paths = append(paths, path)
		}
	}
	return paths, ctx.Err()
}
