package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/test/demo"
)

// usualPrefix is that of everything in the cluster, unless DEMO_PREFIX is another.
const usualPrefix = "portcullis-demo"

// longestPrefix leaves room for what comes behind it in names, and in paths of sockets.
const longestPrefix = 20

// setting is where and under which names a demo runs. What the variables say is looked at before anything is built.
func setting() (place *demo.Place, prefix string, err error) {
	if err := known(os.Getenv("KUBE")); err != nil {
		return nil, "", err
	}
	prefix = cmp.Or(os.Getenv("DEMO_PREFIX"), usualPrefix)
	if problems := validation.IsDNS1123Label(prefix); len(problems) > 0 || len(prefix) > longestPrefix {
		return nil, "", fmt.Errorf("DEMO_PREFIX is %.40q: it is to be a DNS label of at most %d characters", prefix, longestPrefix)
	}
	place, err = demo.Home(prefix)
	return place, prefix, err
}

// known refuses a choice of cluster that there is not.
func known(choice string) error {
	switch choice {
	case "", demo.Node, demo.ControlPlane, demo.Current:
		return nil
	}
	return fmt.Errorf("KUBE is %.40q: it is one of %s, %s, %s", choice, demo.Node, demo.ControlPlane, demo.Current)
}

const (
	title    = "Portcullis: authorization follows the cluster live, and closes when nobody can prove that it is current."
	subtitle = "Every line marked ok was checked. What is not shown here is marked skip, and says why."
)

// play is the demo.
func play(ctx context.Context, recording string) (err error) {
	place, prefix, err := setting()
	if err == nil {
		err = place.Take()
	}
	if err != nil {
		return err
	}
	defer place.Free()
	t := screen()
	defer t.Close()
	t.Title(title, subtitle)
	err = stage(ctx, t, place, prefix, func(w *demo.World) error { return demo.Play(ctx, t, w.Story()) })
	switch {
	case ctx.Err() != nil:
		t.End("Interrupted.")
		err = context.Cause(ctx)
	case err != nil:
		t.End("FAILED.")
	default:
		t.End("Done.")
	}
	err = errors.Join(err, place.Remove()) // what is left in a cluster, if something is, down finds without it
	if recording != "" {
		err = errors.Join(err, record(recording, t.Moments()))
	}
	return err
}

// cleaning is what the timeline calls the removal of everything.
const cleaning = "cleaned up"

// stage prepares a World, has something done with it, and removes it whatever came of that.
func stage(ctx context.Context, t *demo.Timeline, place *demo.Place, prefix string, do func(*demo.World) error) error {
	t.Step("0  Prepare", "A real Kubernetes API, NATS, four daemons as processes, each with its own ServiceAccount and its shipped Roles, and a gateway.")
	t.Obey(ctx)
	site, options, err := prepare(ctx, t, place, prefix)
	if err != nil {
		return err
	}
	defer site.Release()
	w, err := demo.Build(ctx, options, t)
	if err == nil {
		err = do(w)
	}
	if err == nil {
		return w.Close(ctx) // what the story has left to do
	}
	t.Obey(context.Background())
	if ctx.Err() != nil {
		t.Note("interrupted: everything that was made is removed", "")
	}
	return errors.Join(err,
		t.Check(demo.Stopping, func() (string, error) { return "", w.Halt(ctx) }), // one that ended before may be why nothing went on
		t.Check(cleaning, func() (string, error) { return "", w.Close(ctx) }))
}

// prepare builds the programs and has a cluster, which starts meanwhile.
func prepare(ctx context.Context, t *demo.Timeline, place *demo.Place, prefix string) (*demo.Site, demo.Options, error) {
	root, err := demo.Root()
	if err != nil {
		return nil, demo.Options{}, err
	}
	o := demo.Options{Root: root, Dir: place.World(), Prefix: prefix, Images: os.Getenv("IMAGES")}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		starting sync.WaitGroup
		failed   error
	)
	err = t.Check("programs are built", func() (_ string, err error) {
		counted := demo.Counted(t, "building: package")
		kube, err := demo.Kube(ctx, root, counted)
		if err != nil {
			return "", err
		}
		starting.Go(func() { o.Site, failed = startCluster(ctx, t, root, kube) })
		o.Programs, err = demo.Programs(ctx, root, counted)
		return "9 programs of this tree", err
	})
	if err != nil {
		cancel()
		starting.Wait()
		if o.Site != nil {
			o.Site.Release()
		}
		return nil, o, err
	}
	err = t.Check("the cluster", func() (string, error) {
		if starting.Wait(); failed != nil {
			return "", failed
		}
		seen := o.Site.Name + " at " + o.Site.REST.Host
		if !o.Site.Real {
			seen += "; no kubelet: Pods are stand-ins"
		}
		return seen, nil
	})
	return o.Site, o, err
}

func startCluster(ctx context.Context, t *demo.Timeline, root, kube string) (*demo.Site, error) {
	choice := os.Getenv("KUBE")
	if choice == "" {
		choice = demo.ControlPlane
		if os.Geteuid() == 0 {
			choice = demo.Node
		}
	}
	if choice == demo.Current {
		return demo.UseCurrent(ctx, os.Getenv("GATEWAY_HOST"))
	}
	return demo.Attach(ctx, choice, root, kube, func(line string) { t.Note(line, "") })
}

// record keeps the moments.
func record(path string, moments []demo.Moment) error {
	text, err := json.MarshalIndent(moments, "", " ")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o600)
	}
	return err
}
