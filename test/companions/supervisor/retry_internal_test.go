package supervisor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

var (
	errLost  = boundary.Failed(boundary.Unavailable, "lost")
	errFinal = boundary.Failed(boundary.Denied, "no")
)

// try is one call of hold.
type try struct {
	succeeds bool
	takes    time.Duration
	err      error
}

func TestKeep(t *testing.T) {
	t.Parallel()
	const total = time.Minute
	for name, tc := range map[string]struct {
		tries []try // no more than these are made
		want  error
	}{
		"refused":                       {[]try{{err: errFinal}}, errFinal},
		"refused later":                 {[]try{{err: errLost}, {err: errors.New("no such host")}, {err: errFinal}}, errFinal},
		"never there":                   {[]try{{takes: total / 2, err: errLost}, {takes: total, err: errLost}}, errLost},
		"held for long, then lost":      {[]try{{true, 100 * total, errLost}, {takes: total / 2, err: errLost}, {err: errFinal}}, errFinal},
		"held for long, then not there": {[]try{{true, 100 * total, errLost}, {takes: 2 * total, err: errLost}}, errLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &clock{now: time.Now()}
			p := Patience{First: time.Nanosecond, Most: time.Microsecond, Total: total, clock: c}
			made := 0
			err := p.keep(t.Context(), zerolog.Nop(), func(_ context.Context, succeeded func()) error {
				if made == len(tc.tries) {
					t.Error("tried again")
					return errFinal
				}
				this := tc.tries[made]
				made++
				if this.succeeds {
					succeeded()
				}
				c.now = c.now.Add(this.takes)
				return this.err
			})
			if !errors.Is(err, tc.want) || made != len(tc.tries) {
				t.Errorf("%d tries, then %v; want %d, then %v", made, err, len(tc.tries), tc.want)
			}
		})
	}
}

func TestKeepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	err := DefaultPatience().keep(ctx, zerolog.Nop(), func(context.Context, func()) error {
		cancel()
		return errFinal
	})
	if err != nil {
		t.Errorf("stopped with %v", err)
	}
}
