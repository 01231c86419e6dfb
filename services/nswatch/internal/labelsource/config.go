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
	// when a list takes more than 5 % of it, up to three quarters of SourceMaxAge, which itself is not stretched.
	LabelRelist time.Duration
	// SourceMaxAge is how old a proof may be (rule W4). A list that takes longer proves nothing, so no list is given
	// that long. More than LabelRelist.
	SourceMaxAge time.Duration
}

// ErrStockRule marks a selector that the stock table refuses by a rule of its own (package driverconf), so that whoever
// has applied that has said it.
var ErrStockRule = errors.New("the stock settings refuse it")

// CheckSelector tells why New would refuse a selector; nil when it would not. The error does not name the setting.
// ErrStockRule is in it when the selector does not parse, or leaves the choice to nobody: it selects namespaces that
// nobody labelled.
func CheckSelector(selector string) error {
	_, err := canonical(selector)
	return err
}

// canonical is the selector on one line, in an order of its own.
func canonical(text string) (string, error) {
	selector, err := labels.Parse(text)
	if err != nil {
		return "", refusal{fmt.Errorf("%q is not a label selector: %w", text, err)}
	}
	if selector.Empty() || selector.Matches(labels.Set{everyNamespace: nobody}) {
		return "", refusal{fmt.Errorf("%q selects namespaces that nobody labelled, so that every namespace would be trusted: "+
			"add a requirement that only trusted namespaces meet, such as openshell.ai/workspace=true", text)}
	}
	text = selector.String()
	if len(text) > maxSelector {
		return "", fmt.Errorf("the selector has %d bytes, at most %d are possible: use a label of its own for trusted namespaces", len(text), maxSelector)
	}
	return text, nil
}

// refusal is an error that is an ErrStockRule beside what it says.
type refusal struct{ error }

func (r refusal) Is(target error) bool { return target == ErrStockRule }
func (r refusal) Unwrap() error        { return r.error }

const (
	// everyNamespace is the label that the API server puts on each namespace.
	everyNamespace = "kubernetes.io/metadata.name"
	// nobody is a value of it that no selector can name.
	nobody = "(nobody)"
)

func (c Config) check() error {
	if c.LabelRelist <= 0 || c.SourceMaxAge <= c.LabelRelist {
		return errors.New("label source: label_relist must be positive and source_max_age longer, or no list would be proven until the next")
	}
	return nil
}
