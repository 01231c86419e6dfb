package app

import (
	"errors"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// TestEnding: only a term that ended by itself has a reason to give.
func TestEnding(t *testing.T) {
	why := errors.New("epoch 9 by other")
	for name, tc := range map[string]struct {
		end  allowlist.End
		err  error
		want string
	}{
		"stopped":         {allowlist.End{Cause: allowlist.EndStopped}, nil, ""},
		"Lease lost":      {allowlist.End{Cause: allowlist.EndLeaseLost, Err: why}, nil, ""},
		"superseded":      {allowlist.End{Cause: allowlist.EndSuperseded, Err: why}, nil, allowlist.EndSuperseded.String() + ": epoch 9 by other"},
		"clock":           {allowlist.End{Cause: allowlist.EndClock}, nil, allowlist.EndClock.String()},
		"no term":         {allowlist.End{}, why, "epoch 9 by other"},
		"no cause is one": {allowlist.End{}, nil, allowlist.EndCause(0).String()},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := ending(tc.end, tc.err); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if err := ending(allowlist.End{}, nil); err == nil {
		t.Error("the zero end is taken for a requested one")
	}
}
