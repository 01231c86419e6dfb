package app

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/inquiry"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// panicking panics with what it is.
type panicking struct{ value any }

func (p panicking) Explain(context.Context, inquiry.Request) (authenticate.Result, []authenticate.Finding) {
	panic(p.value)
}

// TestADefectIsNoRefusal: its exit code is that of "nothing was decided", and nothing of the value is told.
func TestADefectIsNoRefusal(t *testing.T) {
	for want, value := range map[string]any{"type string": "a credential", "type boundsError": &inquiry.Panic{Type: "boundsError", Stack: []byte("a credential")}} {
		_, _, err := decide(t.Context(), panicking{value}, inquiry.Request{})
		var told bytes.Buffer
		if code := daemon.Exit(&told, Name, err); code != daemon.ExitFailed || !strings.Contains(told.String(), want) || strings.Contains(told.String(), "a credential") {
			t.Errorf("%d %s", code, told.String())
		}
	}
}

// TestExitCodesOfDecisions has every kind of outcome, the zero decision among them.
func TestExitCodesOfDecisions(t *testing.T) {
	for _, test := range []struct {
		decision verdict.Decision
		want     int
	}{
		{verdict.Grant(verdict.Evidence{}), 0},
		{verdict.Refuse(verdict.PodNotFound, "pod.found", "x"), 2},
		{verdict.Refuse(verdict.Stale, "namespace.accepted", "x"), 3},
		{verdict.Refuse(verdict.TooManyCalls, "request.concurrency", "x"), 3},
		{verdict.Decision{}, 3},
	} {
		if code := daemon.Exit(&bytes.Buffer{}, Name, refusal(test.decision)); code != test.want {
			t.Errorf("%s: %d, want %d", test.decision.Explain(), code, test.want)
		}
	}
}
