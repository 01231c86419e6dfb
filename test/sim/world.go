package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

const (
	gatewayID = "gate"
	// healthy is the time without faults at the beginning, in which every process starts.
	healthy = 6 * time.Second
	// settled is how long every reader must stay Fresh and truthful at the end.
	settled = 2 * time.Second
)

// Options are what a schedule is made from. The same Options have the same schedule.
type Options struct {
	Seed uint64
	// Sabotage breaks one thing on purpose, so that tests see that the invariants bite.
	Sabotage Sabotage
	// Trace keeps the schedule for Result.Schedule.
	Trace bool
}

// Result is what became of one schedule.
type Result struct {
	Seed uint64
	// Violations are in the order in which they came; the run ends with the first few.
	Violations []Violation
	// Events, Checks and Yeses count what happened, what was asked, and what was granted.
	Events, Checks, Yeses int
	// Beats is how many heartbeats readers accepted, Terms how many terms began.
	Beats, Terms int
	// Faults are the kinds of faults that happened, each once.
	Faults []string
	// Simulated is how long the schedule lasted, in simulated time; Healed how long after the last fault every reader
	// was Fresh and truthful for good.
	Simulated, Healed time.Duration

	lines []string
}

// Schedule is the event log with simulated times, when Options.Trace asked for it.
func (r Result) Schedule() string { return strings.Join(r.lines, "\n") + "\n" }

// World is one schedule under way.
type World struct {
	random   *rand.Rand
	now      time.Duration
	agenda   agenda
	options  Options
	settings allowlist.Settings
	signers  []*allowlist.Signer // the second one is rotated in on the way
	stranger *allowlist.Signer   // holds no key that anyone trusts
	keys     allowlist.KeySet

	source  *source
	broker  *broker
	lease   lease
	leaders []*leader
	readers []*reader
	judge   *judge
	weather *weather
	// archive is every record that a writer has sent, for the attacker.
	archive []*message

	result Result
}

// Run plays one schedule. It is deterministic and starts no goroutine.
func Run(options Options) Result {
	w := newWorld(options)
	w.source.start()
	for _, l := range w.leaders {
		l.begin()
	}
	for _, r := range w.readers {
		r.begin()
	}
	w.weather.start()
	for !w.over() {
		e := w.agenda.take()
		w.now = e.at
		e.do()
		w.result.Events++
		w.judge.look()
	}
	w.result.Simulated, w.result.Seed = w.now, options.Seed
	w.result.Healed = max(w.judge.goodSince-w.weather.calm, 0)
	return w.result
}

func newWorld(options Options) *World {
	w := &World{random: rand.New(rand.NewPCG(options.Seed, 0x706f727463756c6c)), options: options}
	w.settings = w.drawSettings()
	stream := &seeded{w.random}
	for range 2 {
		w.signers = append(w.signers, must(allowlist.GenerateSigner(stream)))
	}
	w.stranger = must(allowlist.GenerateSigner(stream))
	w.keys = must(allowlist.NewKeySet(w.signers[0].Public(), w.signers[1].Public()))
	w.weather = newWeather(w)
	w.judge = newJudge(w)
	w.source = newSource(w)
	w.broker = newBroker(w)
	for i := range 2 + w.random.IntN(2) {
		w.leaders = append(w.leaders, newLeader(w, fmt.Sprintf("nswatch-%d", i)))
	}
	for i := range 2 + w.random.IntN(2) {
		w.readers = append(w.readers, newReader(w, fmt.Sprintf("reader-%d", i)))
	}
	w.note("seed %d: %d leaders, %d readers, max_staleness %s, source_max_age %s, max_clock_skew %s, faults until %s: %s",
		options.Seed, len(w.leaders), len(w.readers), w.settings.MaxStaleness, w.settings.SourceMaxAge, w.settings.MaxClockSkew,
		w.weather.calm, w.weather)
	return w
}

// drawSettings makes bounds small, so that a short schedule crosses each of them.
func (w *World) drawSettings() allowlist.Settings {
	s := allowlist.DefaultSettings()
	between := func(low, high int) driverconf.Duration {
		return driverconf.Duration(time.Duration(low+w.random.IntN(high-low+1)) * time.Second)
	}
	s.MaxStaleness = between(4, 6)
	s.SourceMaxAge = between(3, 4)
	s.HeartbeatTTL = between(2, 3)
	s.MaxClockSkew = between(2, 5)
	s.FileFailureGrace = between(3, 12)
	s.StopGrace = between(1, 3)
	s.LabelRelist = between(1, 1)
	s.FilePoll = between(1, 1)
	return s
}

// over reports that there is nothing more to learn.
func (w *World) over() bool {
	switch {
	case len(w.result.Violations) > 0:
		return true
	case w.judge.goodSince > 0 && w.now >= w.judge.goodSince+settled && w.now >= w.weather.calm+settled:
		return true
	default:
		return len(w.agenda.events) == 0
	}
}

func (w *World) after(d time.Duration, do func()) { w.agenda.add(w.now+max(d, 0), do) }

// note adds a line to the schedule.
func (w *World) note(format string, args ...any) {
	if w.options.Trace {
		w.result.lines = append(w.result.lines, fmt.Sprintf("%10.4fs  ", w.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

// chance is true once in one/p draws.
func (w *World) chance(p float64) bool { return w.random.Float64() < p }

// between draws a duration.
func (w *World) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)+1))
}

// pick draws one of several.
func pick[T any](w *World, from []T) T { return from[w.random.IntN(len(from))] }

// seeded makes keys that follow from the seed. They protect nothing.
type seeded struct{ random *rand.Rand }

func (s *seeded) Read(p []byte) (int, error) {
	var word [8]byte
	for i := range p {
		if i%8 == 0 {
			binary.LittleEndian.PutUint64(word[:], s.random.Uint64())
		}
		p[i] = word[i%8]
	}
	return len(p), nil
}

// must is for what cannot fail in a simulation: if it does, the simulation is wrong.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
