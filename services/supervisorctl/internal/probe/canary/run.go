package canary

import (
	"context"
	"net"
	"slices"
	"strconv"
	"time"
)

// Run does what the plan says and returns what was seen, at the latest after the plan's limit or soon after ctx ends. It always
// returns a Report.
func Run(ctx context.Context, plan *Plan, network Network) *Report {
	r := &Report{Probe: plan.Probe, Role: plan.Role, End: EndLimit}
	for _, target := range plan.Targets {
		r.Targets = append(r.Targets, Seen{Target: target})
	}
	broken := func(err error) *Report {
		r.End, r.Trouble = EndBroken, err.Error()
		return r
	}
	if err := plan.Check(); err != nil {
		return broken(err)
	}
	l := look{plan: plan, network: network, report: r, began: time.Now()}
	for _, target := range plan.Targets {
		a, err := address(target, network.LookupEnv)
		if err != nil {
			return broken(err)
		}
		l.addresses = append(l.addresses, a)
	}
	ctx, cancel := context.WithTimeout(ctx, plan.limit())
	defer cancel()
	if plan.Role == Supervisor {
		l.supervise(ctx)
		return r
	}
	if err := l.work(ctx); err != nil {
		return broken(err)
	}
	return r
}

// look is one canary at work.
type look struct {
	plan      *Plan
	network   Network
	report    *Report
	addresses []string
	began     time.Time
}

func (l *look) since() time.Duration { return time.Since(l.began) }

// round tries all targets once. False when ctx ended meanwhile: the outcomes say nothing then.
func (l *look) round(ctx context.Context) bool {
	outcomes := l.network.tryAll(ctx, l.addresses)
	if ctx.Err() != nil {
		return false
	}
	for i, o := range outcomes {
		l.report.Targets[i].note(o, l.since().Milliseconds())
	}
	return true
}

// work is the workload canary's part: until it is entered it tries by itself, and then when it is told to.
func (l *look) work(ctx context.Context) error {
	host, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer host.close()
	for l.round(ctx) {
		if l.reached() {
			l.report.End = EndOpen
			return nil
		}
		if host.entered() {
			l.receive(ctx, host)
			return nil
		}
		if !rest(ctx) {
			break
		}
	}
	return nil
}

// reached reports whether the newest tries reached a target, after the time to settle.
func (l *look) reached() bool {
	opened := func(s Seen) bool { return s.Last == Opened }
	return l.since() >= l.plan.settle() && slices.ContainsFunc(l.report.Targets, opened)
}

// receive serves the supervisor canary. The streaks are those since it entered.
func (l *look) receive(ctx context.Context, host *host) {
	l.report.Entered = true
	for i := range l.report.Targets {
		l.report.Targets[i].Streak = 0
	}
	shut := func() bool { return !slices.ContainsFunc(l.report.Targets, func(s Seen) bool { return !s.Held() }) }
	l.report.Parted = host.serve(ctx, func() (answer string, open bool) {
		switch {
		case !l.round(ctx):
			return loose, false
		case l.reached():
			l.report.End = EndOpen
			return loose, true
		case shut():
			return held, false
		}
		return loose, false
	})
	if l.report.End != EndOpen && shut() {
		l.report.End = EndDone
	}
}

// supervise is the supervisor canary's part.
func (l *look) supervise(ctx context.Context) {
	if !l.reachAll(ctx, func(s *Seen) *bool { return &s.Before }) {
		return
	}
	v := l.enter(ctx)
	if v == nil {
		return
	}
	defer v.close()
	l.report.Entered = true
	if !l.knock(ctx) || !l.together(ctx, v) {
		return
	}
	if l.report.Parted = v.part(ctx); !l.report.Parted {
		return
	}
	if slices.ContainsFunc(l.report.Targets, func(s Seen) bool { return !s.During }) {
		l.report.End = EndDone // what follows would prove nothing
		return
	}
	if l.reachAll(ctx, func(s *Seen) *bool { return &s.After }) {
		l.report.End = EndDone
	}
}

// together has the workload canary try all targets, and tries them at the same time: a target that is away just then would look blocked.
// It ends when the last Hold tries were blocked there and opened here. When only the former comes, it is over after the time to settle.
// False when ctx ended or the workload canary left.
func (l *look) together(ctx context.Context, v *door) bool {
	stop := v.until(ctx)
	defer stop()
	until := l.since() + l.plan.settle()
	rows := make([]int, len(l.report.Targets)) // tries in a row that opened
	for v.say(try) && l.round(ctx) {
		all := true
		for i := range l.report.Targets {
			s := &l.report.Targets[i]
			rows[i]++
			if s.Last != Opened {
				rows[i] = 0
			}
			s.During = rows[i] >= Hold
			all = all && s.During
		}
		answer := v.next()
		if answer != held && answer != loose {
			return false
		}
		if answer == held && (all || l.since() >= until) {
			return true
		}
		if !rest(ctx) {
			break
		}
	}
	return false
}

// reachAll opens a connection to every target, for as long as the time to settle. What was reached is marked. False when ctx ended, or
// when a target was not reached, in which case nothing that follows would prove anything.
func (l *look) reachAll(ctx context.Context, mark func(*Seen) *bool) bool {
	until := l.since() + l.plan.settle()
	for l.round(ctx) {
		all := true
		for i := range l.report.Targets {
			s := &l.report.Targets[i]
			reached := mark(s)
			*reached = *reached || s.Last == Opened
			all = all && *reached
		}
		if all {
			return true
		}
		if l.since() >= until {
			l.report.End = EndDone
			return false
		}
		if !rest(ctx) {
			break
		}
	}
	return false
}

// knock tries the port that must be shut until it counts as shut, or has had its time to become so. False when ctx ended.
func (l *look) knock(ctx context.Context) bool {
	began := time.Now()
	at := net.JoinHostPort(l.plan.Peer, strconv.Itoa(int(l.plan.Shut)))
	for {
		o := l.network.try(ctx, at)
		if ctx.Err() != nil {
			return false
		}
		l.report.Shut.note(o, time.Since(began).Milliseconds())
		if l.report.Shut.Held() || time.Since(began) >= l.plan.settle() {
			return true
		}
		if !rest(ctx) {
			return false
		}
	}
}
