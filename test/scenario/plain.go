package scenario

import (
	"regexp"
	"slices"
	"strings"
)

// normaliser makes a text the same in every run.
type normaliser struct{ names [][2]string }

// stands makes a name of this run one of the story.
func (n *normaliser) stands(actual, name string) {
	n.names = append(n.names, [2]string{actual, name})
	// A name that holds another goes first.
	slices.SortStableFunc(n.names, func(a, b [2]string) int { return len(b[0]) - len(a[0]) })
}

// chance is what is another in every run, and what stands for it. The order counts.
var chance = []struct {
	of   *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "DIGEST"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
	// What gRPC says of a connection that broke depends on the moment.
	{regexp.MustCompile(`(connection error:|error reading|transport:|unexpected EOF|write unix|read unix|dial unix).*`), "the connection broke"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\b(epoch|revision|beat|sequence|process) \d+`), "$1 N"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s|m\d+(\.\d+)?s)\b`), "LENGTH"},
}

func (n *normaliser) plain(text string) string {
	for _, name := range n.names {
		text = strings.ReplaceAll(text, name[0], name[1])
	}
	for _, c := range chance {
		text = c.of.ReplaceAllString(text, c.name)
	}
	return text
}
