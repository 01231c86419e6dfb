//go:build portcullis_long

package e2e_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/demo"
)

// TestDemo plays the demo's story, whose every line is a check, under names of its own.
func TestDemo(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Node)
	root, err := demo.Root()
	noError(t, err)
	programs, err := demo.Programs(t.Context(), root, func(string) {})
	noError(t, err)
	site, err := demo.Use(t.Context(), "the tests' node", c.Kubeconfig())
	noError(t, err)
	place, err := os.MkdirTemp("", "demo") // the paths of sockets must be short
	noError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(place) })
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails

	line := demo.NewTimeline(t.Output(), demo.Style{}, false, time.Now)
	defer line.Close()
	w, err := demo.Build(t.Context(), demo.Options{
		Site: site, Root: root, Programs: programs, Dir: filepath.Join(place, "w"), Prefix: "demo-" + hex.EncodeToString(id),
	}, line)
	defer func() { noError(t, w.Close(context.WithoutCancel(t.Context()))) }()
	noError(t, err)
	noError(t, demo.Play(t.Context(), line, w.Story()))
	for _, m := range line.Moments() {
		if m.Kind == demo.Broken || m.Kind == demo.NotShown {
			t.Errorf("%s: %s %s", m.Kind, m.What, m.Detail)
		}
	}
}
