package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/demo"
)

// TestDownCommand: as it is printed it reaches the demo that printed it, in a shell without our variables.
func TestDownCommand(t *testing.T) {
	for name, c := range map[string]struct{ kube, kubeconfig, prefix, want string }{
		"ours":               {"", "", "", "make down"},
		"ours, chosen":       {"node", "/k", "", "make down"},
		"another prefix":     {"", "", "other", "make down DEMO_PREFIX=other"},
		"current":            {"current", "", "", "make down KUBE=current"},
		"current, of a file": {"current", "/etc/kube/config", "other", "make down KUBE=current KUBECONFIG=/etc/kube/config DEMO_PREFIX=other"},
		"current, odd file":  {"current", "/a b/$c", "", `make down KUBE=current KUBECONFIG="/a b/\$\$c"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBE", c.kube)
			t.Setenv("KUBECONFIG", c.kubeconfig)
			t.Setenv("DEMO_PREFIX", c.prefix)
			if got := downCommand(); got != c.want {
				t.Errorf("it is %s, want %s", got, c.want)
			}
		})
	}
}

// TestQuoted: through a shell and make every value arrives as it was.
func TestQuoted(t *testing.T) {
	makefile := filepath.Join(t.TempDir(), "Makefile")
	if err := os.WriteFile(makefile, []byte("show:\n\t@printenv KUBECONFIG\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"/etc/kube/config", "a:b", "/with a space/k", "/with $dollar/k", "/it's/k", `/say "so"/k`, "/`id`/k", `/back\slash k`} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "make -s -f "+makefile+" show KUBECONFIG="+quoted(value)).CombinedOutput()
		if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != value {
			t.Errorf("%s arrives as %s, error %v", value, got, err)
		}
	}
}

// TestKubeconfigOf: that a cluster does not run is known only from kube's word for it.
func TestKubeconfigOf(t *testing.T) {
	for name, c := range map[string]struct {
		script     string
		path       string
		notRunning bool
		says       string
	}{
		"runs":             {script: "echo /run/kubeconfig", path: "/run/kubeconfig"},
		"does not run":     {script: "echo 'kube: no node cluster is running: start one' >&2; exit 1", notRunning: true},
		"another does not": {script: "echo 'kube: no controlplane cluster is running: start one' >&2; exit 1", says: "no controlplane"},
		"cannot look":      {script: "echo 'kube: lock: permission denied' >&2; exit 1", says: "permission denied"},
		"is killed":        {script: "kill -9 $$", says: "killed"},
		"says nothing":     {script: "exit 0", says: "no kubeconfig"},
		"fails wordlessly": {script: "exit 1", says: "exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			kube := filepath.Join(t.TempDir(), "kube")
			if err := os.WriteFile(kube, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			path, err := kubeconfigOf(t.Context(), kube, demo.Node)
			if path != c.path || errors.Is(err, errNotRunning) != c.notRunning || (c.path != "") != (err == nil) {
				t.Fatalf("it is %q, error %v", path, err)
			}
			if c.says != "" && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestKubeSaysSo: the real kube says that nothing runs in the words that are looked for. In a temporary directory of its own nothing does.
func TestKubeSaysSo(t *testing.T) {
	root, err := demo.Root()
	if err != nil {
		t.Fatal(err)
	}
	kube := filepath.Join(t.TempDir(), "kube")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", kube, "./test/cluster/cmd/kube")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("TMPDIR", t.TempDir())
	for _, profile := range []string{demo.Node, demo.ControlPlane} {
		if path, err := kubeconfigOf(t.Context(), kube, profile); !errors.Is(err, errNotRunning) {
			t.Errorf("%s: %q, error %v", profile, path, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := kubeconfigOf(ended, kube, demo.Node); !errors.Is(err, context.Canceled) {
		t.Errorf("of one that was interrupted: %v", err)
	}
}
