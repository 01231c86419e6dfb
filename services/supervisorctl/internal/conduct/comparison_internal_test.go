package conduct

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
)

// A comparison is repeated when anything is another: the object, its state, or what it is compared with.
func TestComparisonIsOfOneState(t *testing.T) {
	type question struct {
		found metav1.ObjectMeta
		box   companion.Sandbox
	}
	base := question{metav1.ObjectMeta{UID: "u", ResourceVersion: "1"}, companion.Sandbox{ID: "a", Generation: "g"}}
	for name, c := range map[string]struct {
		change func(*question)
		again  bool
	}{
		"nothing":             {func(*question) {}, false},
		"the object":          {func(q *question) { q.found.UID = "v" }, true},
		"its state":           {func(q *question) { q.found.ResourceVersion = "2" }, true},
		"the Sandbox":         {func(q *question) { q.box.ID = "b" }, true},
		"the generation":      {func(q *question) { q.box.Generation = "h" }, true},
		"a state of no name":  {func(q *question) { q.found.ResourceVersion = "" }, true},
		"an object of no uid": {func(q *question) { q.found.UID = "" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			var remembered comparison
			asked := 0
			ask := func(q question) companion.Comparison {
				return remembered.of(&q.found, q.box, func() companion.Comparison {
					asked++
					return companion.Comparison{Difference: string(rune('0' + asked))}
				})
			}
			first, then := base, base
			c.change(&then)
			if got := ask(first).Difference; got != "1" {
				t.Fatalf("first %q", got)
			}
			want := "1"
			if c.again {
				want = "2"
			}
			if got := ask(then).Difference; got != want {
				t.Errorf("then %q, want %q", got, want)
			}
		})
	}
}
