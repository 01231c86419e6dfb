package images

import (
	"fmt"
	"path"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
)

// Facts that all images share.
const (
	// User is numeric, so that the kubelet can verify runAsNonRoot.
	User = "65532:65532"
	// Source is where the sources of the daemons are.
	Source = "https://github.com/portcullis-mesh/portcullis"
	// License is that of the daemons and of the NATS server.
	License = "Apache-2.0"
	// NATS is the name of the recipe that is no daemon.
	NATS = "nats"
)

// Recipe says what goes into an image.
type Recipe struct {
	// Name is the image's name below the repository, and for a daemon the program's.
	Name string
	// Description is one line for people.
	Description string
	// Source is where the program's sources are.
	Source string

	module     string // directory of the module that pins everything, relative to the repository's root
	pkg        string // main package, relative to module, or an import path
	program    string // file name in the image
	repository string // that the image has whatever repository is chosen for ours; empty for a daemon
}

// Entrypoint is the path of the program in the image.
func (r Recipe) Entrypoint() string { return "/" + r.program }

// ours reports whether the program is made from this repository's own sources.
func (r Recipe) ours() bool { return r.repository == "" }

// reference is the image's full name, in the form in which containerd looks up what a Pod names: with a registry always, and Docker's by
// the name that people use.
func (r Recipe) reference(repository, tag string) (string, error) {
	repository = path.Join(repository, r.Name)
	if !r.ours() {
		repository = r.repository
	}
	parsed, err := name.NewTag(repository + ":" + tag)
	if err != nil {
		return "", fmt.Errorf("the image cannot be called %s:%s: %w", repository, tag, err)
	}
	registry := parsed.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = "docker.io"
	}
	return registry + "/" + parsed.RepositoryStr() + ":" + parsed.TagStr(), nil
}

func daemon(called, description string) Recipe {
	return Recipe{Name: called, Description: description, Source: Source, module: "services/" + called, pkg: "./cmd/" + called, program: called}
}

// Recipes lists every image: the daemons first, then the NATS server of the version that the daemons are tested with.
func Recipes() []Recipe {
	return []Recipe{
		daemon("nswatch", "Publishes which namespaces a gateway may trust"),
		daemon("tokenauth", "Says who a bearer is and whether its namespace may be trusted now"),
		daemon("supervisorctl", "Provisions, watches, repairs and removes what surrounds a sandbox"),
		daemon("lifecycle", "Serves the compute driver contract to the gateway"),
		{
			Name: NATS, Description: "The NATS server, built from its Go module", Source: "https://github.com/nats-io/nats-server",
			module: "test", pkg: "github.com/nats-io/nats-server/v2", program: "nats-server", repository: "docker.io/library/nats",
		},
	}
}

// Names are those of all recipes.
func Names() (names []string) {
	for _, r := range Recipes() {
		names = append(names, r.Name)
	}
	return names
}

// choose returns the recipes of the names, all of them for none.
func choose(names []string) (chosen []Recipe, unknown string) {
	all := Recipes()
	if len(names) == 0 {
		return all, ""
	}
	for _, wanted := range names {
		i := slices.IndexFunc(all, func(r Recipe) bool { return r.Name == wanted })
		if i < 0 {
			return nil, wanted
		}
		chosen = append(chosen, all[i])
	}
	return chosen, ""
}
