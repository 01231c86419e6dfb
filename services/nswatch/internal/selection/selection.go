package selection

import (
	"hash/maphash"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

const (
	// linesPerApply is how many refusals one Apply logs one by one; a summary line has the rest.
	linesPerApply = 10
	// maxRemembered is how many refusals are remembered, the first ones by name: 8 bytes each. Those beyond are in the
	// gauge and in no other metric or log line.
	maxRemembered = allowlist.MaxNames
	// maxLoggedName is how many bytes of a name are logged; a valid one has 63.
	maxLoggedName = 80

	keyNamespace = "namespace"
)

// Selection applies rule W7 to what one source gives. Make it with New. It is not safe for concurrent use: the
// source's goroutine owns it.
type Selection struct {
	refusals allowlist.Refusals
	log      zerolog.Logger
	metrics  *metrics
	limit    int

	seed maphash.Seed
	// known are the refusals of the last Apply.
	known map[uint64]struct{}
}

// New registers the portcullis_nswatch_refused metrics. refusals are the names that are never published, from the
// setting portcullis.allowlist.refused_namespaces. Errors come from reg only.
func New(refusals allowlist.Refusals, log zerolog.Logger, reg prometheus.Registerer) (*Selection, error) {
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	return &Selection{refusals: refusals, log: log, metrics: m, limit: maxRemembered, seed: maphash.MakeSeed()}, nil
}

// Apply returns the list to publish. candidates are the whole of what the source holds, and stay the caller's.
func (s *Selection) Apply(candidates []allowlist.Candidate) allowlist.List {
	list, refused := allowlist.Select(candidates, s.refusals)
	s.metrics.now(refused)
	var appeared []allowlist.Refusal
	remembered := refused[:min(len(refused), s.limit)]
	known := make(map[uint64]struct{}, len(remembered))
	for _, r := range remembered {
		id := s.identify(r)
		known[id] = struct{}{}
		if _, old := s.known[id]; old {
			continue
		}
		s.metrics.appeared(r.Cause)
		appeared = append(appeared, r)
	}
	s.known = known
	s.report(appeared)
	return list
}

// identify names a refusal by a hash. Two refusals with one hash would cost a log line and one in the counter, not
// more.
func (s *Selection) identify(r allowlist.Refusal) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_ = h.WriteByte(byte(r.Cause))
	_, _ = h.WriteString(r.Candidate.Name)
	return h.Sum64()
}

func (s *Selection) report(appeared []allowlist.Refusal) {
	for _, r := range appeared[:min(len(appeared), linesPerApply)] {
		level := zerolog.WarnLevel
		if r.Cause == allowlist.Terminating {
			level = zerolog.InfoLevel
		}
		s.log.WithLevel(level).Str(keyNamespace, shorten(r.Candidate.Name)).Str(telemetry.KeyCause, r.Cause.String()).
			Msg("a namespace of the source is not published")
	}
	if more := len(appeared) - linesPerApply; more > 0 {
		s.log.Warn().Int(telemetry.KeyCount, more).Msg("more namespaces of the source are not published")
	}
}

func shorten(name string) string {
	if len(name) <= maxLoggedName {
		return name
	}
	return strings.ToValidUTF8(name[:maxLoggedName], "") + "..."
}
