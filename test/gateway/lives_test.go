package gateway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

// place is where one sandbox after the other lives, each with an id of its own and the same name.
type place struct {
	name string
	mu   sync.Mutex
	ids  []string // the newest last
}

func (p *place) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ids) == 0 {
		return "nobody"
	}
	return p.ids[len(p.ids)-1]
}

func (p *place) next() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids = append(p.ids, fmt.Sprintf("%s-%d", p.name, len(p.ids)))
	return p.ids[len(p.ids)-1]
}

// TestManyLives: two users do whatever comes to their minds with each of some sandboxes, of a driver that fails and loses
// answers. In the end nothing is left of which nobody knows, everything can be deleted, and the events tell a story without gaps.
func TestManyLives(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 2} {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			s := begin(t, onDemand)
			var places []*place
			var users sync.WaitGroup
			for i := range 4 {
				p := &place{name: fmt.Sprintf("box-%d", i)}
				places = append(places, p)
				for user := range 2 {
					random := rand.New(rand.NewPCG(seed, uint64(2*i+user)))
					users.Go(func() { s.wander(random, p) })
				}
			}
			users.Wait()
			s.driver.Unscript()
			rows, err := s.g.List()
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				if err := s.g.Delete(s.ctx, row.ID); err != nil && status.Code(err) != codes.NotFound {
					t.Errorf("%s cannot be deleted: %v", row.ID, err)
				}
				if err := s.g.AwaitRemoved(s.ctx, row.ID); err != nil {
					t.Errorf("%s does not go: %v", row.ID, err)
				}
			}
			failed := s.story()
			for _, p := range places {
				for _, id := range p.ids {
					// A compensation that failed behind the row's end leaks (contract 2.6), and is told.
					if s.driver.Has(id) && !failed[id] {
						t.Errorf("%s is in the driver, in no row, and nobody said so", id)
					}
				}
			}
		})
	}
}

// wander does random things in one place.
func (s *site) wander(random *rand.Rand, p *place) {
	methods := []string{"StartSandbox", "StopSandbox", "DeleteSandbox", "GetSandbox"}
	for range 25 {
		switch method := methods[random.IntN(len(methods))]; random.IntN(6) {
		case 0:
			s.driver.Script(method, scripted.Fail(codes.Unavailable, "by chance"))
		case 1:
			if method != "GetSandbox" {
				s.driver.Lose(method, codes.Unavailable)
			}
		default:
		}
		switch random.IntN(6) {
		case 0, 1:
			w := wish(p.name)
			w.ID = p.next()
			_, _ = s.g.Create(s.ctx, w)
		case 2:
			_ = s.g.Stop(s.ctx, p.last())
		case 3:
			_, _ = s.g.Start(s.ctx, p.last())
		case 4:
			_ = s.g.Delete(s.ctx, p.last())
		case 5:
			// The newest may have been refused; whoever has the name counts.
			if box, err := s.g.Find("team-a", p.name); err == nil {
				s.tryReady(box.ID)
				_ = s.g.Stop(s.ctx, box.ID)
				_, _ = s.g.Start(s.ctx, box.ID)
				if random.IntN(2) == 0 {
					_ = s.g.Delete(s.ctx, box.ID)
				}
			}
		}
	}
}

// tryReady lets the sandbox become ready if there is one.
func (s *site) tryReady(id string) {
	if !s.driver.ShowIfAny(id, scripted.Ready()...) {
		return
	}
	token, err := s.exchange(scripted.Bearer(id), id)
	if err != nil {
		return
	}
	if v, err := s.open(token); err == nil {
		v.confirmIfOpen()
	}
}

// story checks that each sandbox's events lead from phase to phase without a gap, and returns of which a compensation failed.
func (s *site) story() (failed map[string]bool) {
	s.t.Helper()
	failed = map[string]bool{}
	last := map[string]phase.Phase{}
	told := map[gateway.Kind]int{}
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	for {
		e, err := s.events.Next(ended)
		if err != nil {
			break
		}
		told[e.Kind]++
		was, known := last[e.SandboxID]
		switch e.Kind {
		case gateway.Created:
			if known {
				s.t.Errorf("created twice: %s", e)
			}
			last[e.SandboxID] = e.To
		case gateway.PhaseChanged, gateway.StatusChanged:
			if e.From != was || !known {
				s.t.Errorf("from %q: %s", was, e)
			}
			last[e.SandboxID] = e.To
		case gateway.Removed:
			if e.From != was || !known {
				s.t.Errorf("from %q: %s", was, e)
			}
			delete(last, e.SandboxID)
		case gateway.CompensationFailed, gateway.ReleaseFailed:
			failed[e.SandboxID] = true
		default:
		}
	}
	if told[gateway.PhaseChanged] < 20 || told[gateway.Removed] < 4 || told[gateway.SessionConfirmed] == 0 {
		s.t.Errorf("not much of a story: %v", told)
	}
	return failed
}
