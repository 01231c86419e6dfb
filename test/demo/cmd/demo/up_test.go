//go:build portcullis_long

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/crd"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/demo"
)

// TestUp is `make up` and `make down`, as users have them: what up prints is done, line by line, and after down nothing is left.
func TestUp(t *testing.T) {
	t.Run("current kubeconfig", func(t *testing.T) {
		c := cluster.StartPrivate(t).Cluster
		p := newPerson(t, "current", c.Kubeconfig(), ownTmp(t), false)
		p.live(func() { // somebody else's down takes nothing away
			newPerson(t, "current", c.Kubeconfig(), ownTmp(t), false).does("make", "down")
			if have, err := crd.Installed(t.Context(), c.RESTConfig()); have == "" || err != nil {
				t.Errorf("the definition of Sandboxes is gone while they are used: %v", err)
			}
		})
		p.demandClean(c)
	})
	t.Run("without root", func(t *testing.T) { // which has a cluster of its own
		p := newPerson(t, "", "", ownTmp(t), true)
		p.live()
	})
}

// TestUpOnANode is the same with real Pods, in which commands run. It needs root.
func TestUpOnANode(t *testing.T) {
	c := cluster.Start(t, cluster.Node)
	p := newPerson(t, "node", "", os.TempDir(), false)
	p.live()
	p.demandNoObjects(c)
}

// live is everything from up to down, with what happens meanwhile.
func (p *person) live(meanwhile ...func()) {
	t := p.t
	t.Helper()
	out := p.does("make", "up")
	if keeper := p.keeper(); !strings.Contains(p.line(keeper), "\x00keep\x00") {
		t.Fatalf("the state file names process %d, which is %q\n%s", keeper, p.line(keeper), out)
	}
	again := p.does("make", "up")
	_, guide, _ := strings.Cut(out, "\nThe cluster")
	if !strings.Contains(again, fmt.Sprintf("process %d keeps it", p.keeper())) || guide == "" || !strings.HasSuffix(again, guide) {
		t.Errorf("the second up says\n%s\nand the first said\n%s", again, out)
	}
	for _, happens := range meanwhile {
		happens()
	}
	followAll(p, out)
	if out := p.doesElsewhere(downPrinted(p.t, out)); !strings.Contains(out, "has ended") {
		t.Errorf("down says\n%s", out)
	}
	p.demandGone()
	if out := p.does("make", "down"); !strings.Contains(out, "nothing") {
		t.Errorf("the second down says\n%s", out)
	}
	p.demandGone()
}

// downPrinted is the command that up says removes it all.
func downPrinted(t *testing.T, out string) string {
	t.Helper()
	_, after, _ := strings.Cut(out, "\nIt is up. '")
	line, _, found := strings.Cut(after, "' removes it;")
	if !found {
		t.Fatalf("it does not say what removes it:\n%s", out)
	}
	return line
}

// line is a process's command line.
func (p *person) line(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(text)
}

// demandGone demands that no process and no file of this person's is left. A cluster of his own goes a minute after its last user.
func (p *person) demandGone() {
	p.t.Helper()
	if exists(p.place()) {
		p.t.Errorf("%s is left", p.place())
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	for {
		err := p.lookForFiles()
		if all := p.processes(); len(all) > 0 {
			err = fmt.Errorf("there are\n%s", strings.Join(all, "\n"))
		}
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			p.t.Fatalf("not all processes have ended, or not all files are gone: %v", err)
		case <-time.After(lookAgain):
		}
	}
}

// lookForFiles finds what is left. A cluster of ours that has gone, or was looked for, leaves its directory, with locks and a log.
func (p *person) lookForFiles() error {
	if p.tmp == os.TempDir() { // which is not his own
		return nil
	}
	ours := filepath.Dir(p.place())
	clusters := []string{filepath.Join(ours, demo.ControlPlane), filepath.Join(ours, demo.Node)}
	return filepath.WalkDir(p.tmp, func(path string, entry os.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil
		case err != nil:
			return err
		case path == p.tmp, path == ours, slices.Contains(clusters, path), !entry.IsDir() && slices.Contains(clusters, filepath.Dir(path)):
			return nil
		}
		return fmt.Errorf("%s is left", path)
	})
}

// demandClean demands that nothing is left in a cluster that knew no Sandboxes before.
func (p *person) demandClean(c *cluster.Cluster) {
	p.t.Helper()
	p.demandNoObjects(c)
	if have, err := crd.Installed(p.t.Context(), c.RESTConfig()); have != "" || err != nil {
		p.t.Errorf("the definition of Sandboxes is left in the cluster: %q, %v", have, err)
	}
}

// demandNoObjects demands that nothing with this person's prefix is in the cluster.
func (p *person) demandNoObjects(c *cluster.Cluster) {
	p.t.Helper()
	namespaces, err1 := c.Client().CoreV1().Namespaces().List(p.t.Context(), metav1.ListOptions{})
	roles, err2 := c.Client().RbacV1().ClusterRoles().List(p.t.Context(), metav1.ListOptions{})
	bindings, err3 := c.Client().RbacV1().ClusterRoleBindings().List(p.t.Context(), metav1.ListOptions{})
	volumes, err4 := c.Client().CoreV1().PersistentVolumes().List(p.t.Context(), metav1.ListOptions{})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		p.t.Fatal(err)
	}
	var left []string
	for _, one := range namespaces.Items {
		left = append(left, one.Name)
	}
	for _, one := range roles.Items {
		left = append(left, one.Name)
	}
	for _, one := range bindings.Items {
		left = append(left, one.Name)
	}
	for _, one := range volumes.Items {
		if one.Spec.ClaimRef != nil {
			left = append(left, one.Spec.ClaimRef.Namespace)
		}
	}
	for _, name := range left {
		if strings.HasPrefix(name, p.prefix) {
			p.t.Errorf("%s is left in the cluster", name)
		}
	}
}

// TestUpIsKilled: whatever of an up is killed, half way, down removes what there was.
func TestUpIsKilled(t *testing.T) {
	c := cluster.StartPrivate(t).Cluster
	for name, victim := range map[string]func(p *person, starter int) int{
		"the one in the background": func(p *person, _ int) int { return p.keeper() },
		"the one that shows it":     func(_ *person, starter int) int { return starter },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t, "current", c.Kubeconfig(), ownTmp(t), false)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p.does("make", "--dry-run", "up") // make itself works here
			program := p.program()
			up := p.command(ctx, program, "up")
			if err := up.Start(); err != nil {
				t.Fatal(err)
			}
			cluster.Eventually(t, "the first daemon runs", func(context.Context) error {
				all := strings.Join(p.processes(), "\n")
				if !strings.Contains(all, "/nswatch --config") {
					return fmt.Errorf("there are\n%s", all)
				}
				return nil
			})
			if _, err := c.Client().CoreV1().Namespaces().Get(t.Context(), p.prefix+"-mesh", metav1.GetOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(victim(p, up.Process.Pid), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := up.Wait(); err == nil {
				t.Error("up says that all is well")
			}
			p.does("make", "down")
			p.demandGone()
			p.demandClean(c)
			p.does("make", "down")
			p.demandGone()
		})
	}
}

// program builds the demo as make does.
func (p *person) program() string {
	path := filepath.Join(p.t.TempDir(), "demo")
	p.does("go", "build", "-buildvcs=false", "-o", path, "./test/demo/cmd/demo")
	return path
}
