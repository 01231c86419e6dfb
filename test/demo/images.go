package demo

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// images are what Pods run.
type images struct{ supervisor, runtime, workload string }

// imageUser is numeric, so that the kubelet can verify runAsNonRoot.
const imageUser = "65532:65532"

// deliver makes the images available to the cluster: into our node's containerd, or into the registry below prefix. Where no Pod runs,
// names suffice.
func deliver(ctx context.Context, site *Site, programs map[string]string, prefix string) (images, error) {
	if !site.Real {
		return images{"registry.example/supervisor:1", "registry.example/runtime:1", "registry.example/agent:1"}, nil
	}
	if site.Socket == "" && prefix == "" {
		return images{}, errors.New("the nodes of this cluster must be able to pull the three images of the demo: " +
			"give a registry that you may push to and they can pull from, as IMAGES=registry.example/you")
	}
	var made images
	for program, ref := range map[string]*string{supervisorProgram: &made.supervisor, runtimeProgram: &made.runtime, workloadProgram: &made.workload} {
		body, err := os.ReadFile(programs[program])
		if err != nil {
			return images{}, fmt.Errorf("make the image of %s: %w", program, err)
		}
		digest := sha256.Sum256(body)
		*ref = program + ":" + hex.EncodeToString(digest[:6])
		if site.Socket != "" {
			*ref = "portcullis.demo/" + *ref
			err = load(ctx, site.Socket, *ref, program, body)
		} else {
			*ref = strings.TrimSuffix(prefix, "/") + "/" + *ref
			err = push(ctx, *ref, program, body)
		}
		if err != nil {
			return images{}, err
		}
	}
	return made, nil
}

// load imports an image that the node does not have.
func load(ctx context.Context, socket, ref, program string, body []byte) error {
	ctr := func(args ...string) ([]byte, error) {
		return exec.CommandContext(ctx, "ctr", append([]string{"--address", socket, "--namespace", "k8s.io", "images"}, args...)...).CombinedOutput()
	}
	if out, err := ctr("list", "--quiet", "name=="+ref); err == nil && strings.TrimSpace(string(out)) == ref {
		return nil
	}
	image, tag, err := pack(ref, program, body)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return fmt.Errorf("load image %s: %w", ref, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	archive := filepath.Join(dir, "image.tar")
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		return fmt.Errorf("write image %s: %w", ref, err)
	}
	if out, err := ctr("import", archive); err != nil {
		return fmt.Errorf("load image %s: %w: %s", ref, err, bytes.TrimSpace(out))
	}
	return nil
}

// push writes an image to its registry, with the credentials of the docker configuration.
func push(ctx context.Context, ref, program string, body []byte) error {
	image, tag, err := pack(ref, program, body)
	if err != nil {
		return err
	}
	if err := remote.Write(tag, image, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push image %s: %w", ref, err)
	}
	return nil
}

// pack is the image with /PROGRAM alone.
func pack(ref, program string, body []byte) (v1.Image, name.Tag, error) {
	fail := func(err error) (v1.Image, name.Tag, error) {
		return nil, name.Tag{}, fmt.Errorf("make image %s: %w", ref, err)
	}
	tag, err := name.NewTag(ref, name.StrictValidation)
	if err != nil {
		return fail(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err = w.WriteHeader(&tar.Header{Name: program, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(body))})
	if err == nil {
		_, err = w.Write(body)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return fail(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return fail(err)
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return fail(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return fail(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{"/" + program}, User: imageUser}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return fail(err)
	}
	return image, tag, nil
}
