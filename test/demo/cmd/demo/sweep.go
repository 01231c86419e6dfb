package main

import (
	"context"
	"errors"
	"fmt"
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
		path, err := kubeconfigOf(ctx, kube, profile)
		switch {
		case errors.Is(err, errNotRunning):
			continue
		case err != nil:
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// errNotRunning is a cluster of ours that does not run.
var errNotRunning = errors.New("it does not run")

// kubeconfigOf asks the program kube for that of a cluster of ours. errNotRunning only when kube says so: whatever else it fails over, there
// may be a cluster with a demo's objects in it.
func kubeconfigOf(ctx context.Context, kube, profile string) (string, error) {
	out, err := exec.CommandContext(ctx, kube, "kubeconfig", profile).Output()
	if err == nil {
		if path := strings.TrimSpace(string(out)); path != "" {
			return path, nil
		}
		return "", fmt.Errorf("find out whether the %s cluster runs: kube names no kubeconfig", profile)
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var said string
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		said = strings.TrimSpace(string(exit.Stderr))
	}
	if strings.HasPrefix(said, "kube: no "+profile+" cluster is running") {
		return "", errNotRunning
	}
	return "", fmt.Errorf("find out whether the %s cluster runs, in which something of a demo may be left: kube: %w: %s", profile, err, said)
}
