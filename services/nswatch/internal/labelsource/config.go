package labelsource

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

const (
	// setting is the stock key that holds the selector (contract 3.1).
	setting = "openshell.drivers.kubernetes.operator_namespace_label"
	// maxSelector is what a snapshot's source may hold.
	maxSelector = 4096
)

// Config is what is listed and how often. The zero value is refused.
type Config struct {
	// Selector is the label selector of the stock key operator_namespace_label.
	Selector string
	// LabelRelist is how often the namespaces are listed whatever the watch says, from begin to begin. It is stretched
	// when a list takes more than 5 % of it, up to three quarters of SourceMaxAge.
	LabelRelist time.Duration
	// SourceMaxAge is how old a proof may be (rule W4). A list that takes longer proves nothing, so no list is given
	// that long. More than LabelRelist.
	SourceMaxAge time.Duration
}

// selector parses the selector and refuses one that leaves the choice to nobody.
func (c Config) selector() (string, error) {
	selector, err := labels.Parse(c.Selector)
	if err != nil {
		return "", fmt.Errorf("%s: %q is not a label selector: %w", setting, c.Selector, err)
	}
	if selector.Empty() || selector.Matches(labels.Set{everyNamespace: probe}) {
		return "", fmt.Errorf("%s: %q selects namespaces that nobody labelled, so that every namespace would be trusted: "+
			"add a requirement that only trusted namespaces meet, such as openshell.ai/workspace=true", setting, c.Selector)
	}
	text := selector.String() // on one line, in an order of its own
	if len(text) > maxSelector {
		return "", fmt.Errorf("%s: the selector has %d bytes, at most %d are possible: use a label of its own for trusted namespaces", setting, len(text), maxSelector)
	}
	return text, nil
}

const (
	// everyNamespace is the label that the API server puts on each namespace.
	everyNamespace = "kubernetes.io/metadata.name"
	// probe is the name of a namespace that nobody means.
	probe = "portcullis-a-namespace-that-nobody-labelled"
)

func (c Config) check() error {
	if c.LabelRelist <= 0 || c.SourceMaxAge <= c.LabelRelist {
		return errors.New("label source: label_relist must be positive and source_max_age longer, or no list would be proven until the next")
	}
	return nil
}
