//go:build portcullis_long

package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// TestRelayCutOff: of two lifecycles behind a relay the one that has the calls is cut off from the API server, while the relay and the other
// reach it as before. Until the relay has gone over nothing wrong is answered: what cannot be known is refused, no list lacks what was there, and
// nothing is said to be absent that another lifecycle has just made. Then all goes on with the other, and the former one, when it is back, is
// soon behind in nothing.
func TestRelayCutOff(t *testing.T) {
	t.Parallel()
	with := standIns(t)
	for name, cut := range map[string]func(*lifecycle.Gate){
		"refused": func(g *lifecycle.Gate) {
			g.Set(lifecycle.Refused, 1, true, func(lifecycle.Request) bool { return true })
			g.Cut()
		},
		"silent": (*lifecycle.Gate).Silence,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := raiseGated(t, with, "shared", relayed)
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
			defer cancel()
			s := &severed{gated: g, former: g.Driver}
			s.cutOff(t, ctx, cut)
		})
	}
}

// severed is a site whose lifecycles have parted.
type severed struct {
	*gated
	former, other computev1.ComputeDriverClient // lifecycles, past the relay
	stays, later  *computev1.DriverSandbox
	refused       *computev1.DriverSandbox // whose create was refused
}

func (s *severed) cutOff(t *testing.T, ctx context.Context, cut func(*lifecycle.Gate)) {
	s.Past(mesh.Lifecycle) // the other
	must(t, s.Mesh.Run(ctx, mesh.Replica))
	must(t, s.Mesh.Run(ctx, mesh.Relay))
	s.Driver, s.other = dial(t, s.Mesh.SocketOf(mesh.Relay)), dial(t, s.Mesh.SocketOf(mesh.Replica))
	s.stays, s.later, s.refused = s.Wish("team", "stays"), s.Wish("team", "later"), s.Wish("team", "refused")
	must(t, made(ctx, s.Driver, s.stays))
	f := follow(t, s.Site)
	f.demand(t, "it is ready", func() bool { return f.ready[s.stays.GetId()] })
	if chosen, _ := s.chosen(t, ctx); chosen != mesh.Lifecycle {
		s.Mesh.Kill(mesh.Replica)
		f.demandEnd(t, codes.Unavailable)
		s.Eventually("the one behind the gate has the calls", func() error {
			_, err := s.Driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
			return err
		})
		f = follow(t, s.Site)
		f.demand(t, "it is told of", func() bool { return f.ready[s.stays.GetId()] })
		must(t, s.Mesh.Run(ctx, mesh.Replica))
	}

	cut(s.gate)
	answered := make(chan error, 1)
	go func() { answered <- made(ctx, s.Driver, s.refused) }() // at the one that is cut off
	must(t, made(ctx, s.other, s.later))
	rounds := 1
	for !s.asked(t, ctx) {
		rounds++
		select {
		case <-ctx.Done():
			t.Fatal("the relay stays with a lifecycle that is cut off")
		case <-time.After(500 * time.Millisecond):
		}
	}
	if err := <-answered; status.Code(err) != codes.Unavailable {
		t.Errorf("a create without the API server is answered %v", err)
	}
	t.Logf("%d rounds of questions until the relay has gone over", rounds)
	f.demandEnd(t, codes.Unavailable)
	s.goesOn(t, ctx)

	s.gate.Open()
	s.gate.Pass()
	s.gate.Cut() // what hangs
	s.Mesh.Kill(mesh.Replica)
	s.Eventually("the former one lists nothing that was deleted while it was away", func() error { // its view is the former one for a moment
		all, err := s.Driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
		if err == nil && len(all.GetSandboxes()) != 0 {
			err = fmt.Errorf("it lists %d sandboxes", len(all.GetSandboxes()))
		}
		return err
	})
	must(t, made(ctx, s.Driver, s.refused))
	_, err := s.Driver.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: s.refused.GetId()})
	must(t, err)
}

func made(ctx context.Context, driver computev1.ComputeDriverClient, wish *computev1.DriverSandbox) error {
	_, err := driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
	return err
}

// nobodyKnows are the codes of a look that came to nothing: that of the relay, and that of contract 2.7.
var nobodyKnows = map[codes.Code]bool{codes.Unavailable: true, codes.Internal: true}

// asked asks the relay for all that it may know, and judges the answers. It reports whether a list knows what the other lifecycle has made.
func (s *severed) asked(t *testing.T, ctx context.Context) (over bool) {
	t.Helper()
	for _, wish := range []*computev1.DriverSandbox{s.stays, s.later} {
		got, err := s.Driver.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: wish.GetId()})
		if err != nil && !nobodyKnows[status.Code(err)] || err == nil && got.GetSandbox().GetId() != wish.GetId() {
			t.Errorf("sandbox %s, which there is: %v, %v", wish.GetName(), got.GetSandbox().GetId(), err)
		}
	}
	all, err := s.Driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
	if err != nil {
		if status.Code(err) != codes.Unavailable {
			t.Errorf("a list: %v", err)
		}
		return false
	}
	has := func(wish *computev1.DriverSandbox) bool {
		return slices.ContainsFunc(all.GetSandboxes(), func(one *computev1.DriverSandbox) bool { return one.GetId() == wish.GetId() })
	}
	if !has(s.stays) || has(s.refused) {
		t.Errorf("a list has what stays: %t, and what was refused: %t", has(s.stays), has(s.refused))
	}
	return has(s.later)
}

// goesOn leads both sandboxes to their ends through the relay, which has the other lifecycle now, and asks the one that is cut off beside it.
func (s *severed) goesOn(t *testing.T, ctx context.Context) {
	f := follow(t, s.Site)
	f.demand(t, "both are told of", func() bool { return f.ready[s.stays.GetId()] && f.ready[s.later.GetId()] })
	for _, wish := range []*computev1.DriverSandbox{s.stays, s.later} {
		_, stopped := s.Driver.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: wish.GetId()})
		_, deleted := s.Driver.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: wish.GetId()})
		must(t, errors.Join(stopped, deleted))
	}
	f.demand(t, "both are told to be gone", func() bool { return f.deleted[s.stays.GetId()] > 0 && f.deleted[s.later.GetId()] > 0 })
	s.Eventually("nothing is left", func() error {
		var problems []error
		for _, wish := range []*computev1.DriverSandbox{s.stays, s.later, s.refused} {
			problems = append(problems, nothingLeft(ctx, s.Site, s.Shared, wish.GetId(), wish.GetName()))
		}
		return errors.Join(problems...)
	})
	// That they are absent the one that is cut off cannot say: it has what its view was told last, or has nothing to say.
	for _, wish := range []*computev1.DriverSandbox{s.stays, s.later} {
		_, err := s.former.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: wish.GetId()})
		if err == nil && wish == s.later || err != nil && !nobodyKnows[status.Code(err)] {
			t.Errorf("the lifecycle that is cut off says of a sandbox that is gone: %v", err)
		}
	}
}
