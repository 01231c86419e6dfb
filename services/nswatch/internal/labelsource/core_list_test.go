package labelsource

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestPeriodAndTimeoutFollowTheCost(t *testing.T) {
	for _, c := range []struct {
		name            string
		costs           []time.Duration
		period, timeout time.Duration
	}{
		{"cheap", []time.Duration{10 * time.Millisecond, 10 * time.Millisecond}, testRelist, testMaxAge / 4},
		{"5 %", []time.Duration{250 * time.Millisecond, 250 * time.Millisecond}, testRelist, testMaxAge / 4},
		{"one stall", []time.Duration{10 * time.Millisecond, time.Second}, testRelist, testMaxAge / 4},
		{"more than 5 %", []time.Duration{300 * time.Millisecond, 300 * time.Millisecond}, 6 * time.Second, testMaxAge / 4},
		{"proof allows no more", []time.Duration{time.Second, time.Second}, 6500 * time.Millisecond, 4 * time.Second},
		{"most of a proof's life", []time.Duration{8 * time.Second, 8 * time.Second}, 10 * time.Second, 9 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			d.untilList()
			for _, cost := range c.costs {
				d.untilList()
				d.at += cost
				d.core.listed(d.at, listOf(40, "a"))
				d.next()
			}
			if d.core.list.period != c.period || d.core.list.timeout != c.timeout || d.core.stretched() != (c.period > testRelist) {
				t.Errorf("period %s, timeout %s, want %s and %s", d.core.list.period, d.core.list.timeout, c.period, c.timeout)
			}
			began := d.core.list.began
			if d.untilList(); d.at-began != c.period {
				t.Errorf("the next list is asked for %s after the last", d.at-began)
			}
		})
	}
}

func TestListsThatHangAreGivenMoreTime(t *testing.T) {
	d := newDesk(t)
	for _, want := range []time.Duration{2500 * time.Millisecond, 5 * time.Second, 9 * time.Second, 9 * time.Second} {
		p := d.next()
		if p.list == nil || p.list.timeout != want {
			t.Fatalf("plan is %+v, want a list within %s", p.list, want)
		}
		d.at += want
		d.core.listFailed(d.at, failure{kind: kindTimeout, err: errLate})
		d.report()
		d.at = d.next().wake
	}
}

func TestServerSaysWhenToComeBack(t *testing.T) {
	d := newDesk(t)
	d.settle(40, "a")
	d.core.wish()
	d.next()
	d.core.listFailed(d.at, failure{kind: kindThrottled, err: errors.New("429"), retryAfter: 3 * time.Second})
	if at := d.at; d.sleep().list == nil || d.at-at != 3*time.Second {
		t.Errorf("the next list is after %s", d.at-at)
	}
}

// TestStretchedPeriodIsExplained: the line says what slow lists do to the heartbeats, and with which figures.
func TestStretchedPeriodIsExplained(t *testing.T) {
	var log bytes.Buffer
	j := journal{log: zerolog.New(&log)}
	j.period(true, 7*time.Second, 6*time.Second)
	j.period(true, 7*time.Second, 6*time.Second)
	line := log.String()
	for _, want := range []string{"heartbeats pause", "source_max_age", `"period_seconds":7`, `"duration_ms":6000`} {
		if strings.Count(line, want) == 0 || strings.Count(line, "\n") != 1 {
			t.Errorf("%q is not in the only line %q", want, line)
		}
	}
}
