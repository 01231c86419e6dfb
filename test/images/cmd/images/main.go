// Command images builds the container images that are shipped, without a container engine.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/portcullis-mesh/portcullis/test/images"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command(os.Stdout).ExecuteContext(ctx); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	root, into, version, commit, repository, tag string
	created                                      int64
	platforms                                    []string
	raw, asJSON                                  bool
}

func command(stdout io.Writer) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:           "images [NAME...]",
		Short:         "Build the images as OCI archives, each with its bills of materials; all of them if none is named",
		Long:          "Build the images as OCI archives, each with its bills of materials; all of them if none is named.\nNames: " + strings.Join(images.Names(), ", "),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), o, args, stdout) },
	}
	f := c.Flags()
	f.StringVar(&o.root, "root", ".", "the repository's root")
	f.StringVar(&o.into, "into", "bin/images", "directory of the archives")
	f.StringVar(&o.version, "version", "", "version of the sources (default: git's)")
	f.StringVar(&o.commit, "commit", "", "commit of the sources (default: git's)")
	f.Int64Var(&o.created, "created", 0, "time of the commit in seconds since 1970 (default: SOURCE_DATE_EPOCH, or git's)")
	f.StringVar(&o.repository, "repository", images.DefaultRepository, "what the daemons' images are called below")
	f.StringVar(&o.tag, "tag", "", "tag of the daemons' images (default: the version)")
	f.StringSliceVar(&o.platforms, "platform", nil, "such as linux/arm64 (default: all that are shipped)")
	f.BoolVar(&o.raw, "raw", false, "do not compress: for archives that stay on this machine")
	f.BoolVar(&o.asJSON, "json", false, "print what was built as JSON")
	return c
}

func run(ctx context.Context, o options, names []string, stdout io.Writer) error {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	stamp, err := stampOf(ctx, root, o)
	if err != nil {
		return err
	}
	platforms := images.Platforms()
	if len(o.platforms) > 0 {
		platforms = nil
	}
	for _, text := range o.platforms {
		p, err := v1.ParsePlatform(text)
		if err != nil || p.OS == "" || p.Architecture == "" {
			return fmt.Errorf("platform %q: write it as linux/amd64", text)
		}
		platforms = append(platforms, *p)
	}
	built, err := images.Build(ctx, images.Options{
		Root: root, Into: o.into, Stamp: stamp, Names: names, Platforms: platforms, Repository: o.repository, Tag: o.tag, Raw: o.raw,
	})
	if err != nil {
		return err
	}
	if o.asJSON {
		return json.NewEncoder(stdout).Encode(built)
	}
	for _, image := range built {
		for platform, size := range image.Sizes {
			fmt.Fprintf(stdout, "%-13s %-11s %5.1f MiB\n", image.Name, platform, float64(size)/(1<<20))
		}
		fmt.Fprintf(stdout, "%s@%s\n  %s\n  %s\n", image.Reference, image.Digest, image.Archive, strings.Join(image.Bills, "\n  "))
	}
	return nil
}

// stampOf takes from git what the flags leave open.
func stampOf(ctx context.Context, root string, o options) (images.Stamp, error) {
	stamp := images.Stamp{Version: o.version, Commit: o.commit}
	var err error
	if stamp.Version == "" {
		if stamp.Version, err = git(ctx, root, "version", "describe", "--tags", "--always", "--dirty"); err != nil {
			return stamp, err
		}
	}
	if stamp.Commit == "" {
		if stamp.Commit, err = git(ctx, root, "commit", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"); err != nil {
			return stamp, err
		}
	}
	seconds := o.created
	if text := os.Getenv("SOURCE_DATE_EPOCH"); seconds == 0 && text != "" {
		if seconds, err = strconv.ParseInt(text, 10, 64); err != nil {
			return stamp, fmt.Errorf("SOURCE_DATE_EPOCH is %q: give seconds since 1970", text)
		}
	}
	if seconds == 0 {
		text, err := git(ctx, root, "created", "log", "-1", "--format=%ct")
		if err != nil {
			return stamp, err
		}
		if seconds, err = strconv.ParseInt(text, 10, 64); err != nil {
			return stamp, fmt.Errorf("git's time of the commit is %q", text)
		}
	}
	stamp.Time = time.Unix(seconds, 0).UTC()
	return stamp, nil
}

// git asks git for what a flag can say as well.
func git(ctx context.Context, root, flag string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("ask git which sources these are (or say it with --%s): %w", flag, err)
	}
	return strings.TrimSpace(string(out)), nil
}
