package traffic

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	extensionv1 "github.com/portcullis-mesh/portcullis/proto/openshell/extension/v1"
)

// callLimit ends a call that will never be answered. It is longer than any that the driver has.
const callLimit = 6 * time.Minute

// Load is what is asked for all the time. All its parts are used at once, each by a goroutine of its own.
type Load struct {
	Driver computev1.ComputeDriverClient
	// Gateway is what GetCapabilities introduces.
	Gateway *extensionv1.PeerMetadata
	// Residents are the ids of sandboxes that are there all the time. They are asked for, listed and watched.
	Residents []string
	Bearers   []Bearer
	Churns    []Churn
	// Pace is the time between two requests of one goroutine; it must be positive.
	Pace time.Duration
}

// Bearer is a credential that is presented again and again, and what has to be answered.
type Bearer struct {
	Standing          Standing
	Sandbox, Identity string
	Credential        string
}

// Churn makes one sandbox after the other in a namespace.
type Churn struct {
	Standing Standing
	// Wish is a new sandbox with a launch bundle; Bundle is one for the start after its stop.
	Wish   func() *computev1.DriverSandbox
	Bundle func(id string) []byte
	// Left waits until nothing is there of a sandbox, and returns what still is when it gives up.
	Left func(ctx context.Context, sandbox *computev1.DriverSandbox) []string
	// Lived, if there is one, is called for each sandbox that was made and is deleted.
	Lived func()
}

// Run makes requests until ctx ends, finishes those that are under way, deletes what the churns have made, and returns every request.
func (l *Load) Run(ctx context.Context) []Request {
	r := &runner{Load: l}
	var all sync.WaitGroup
	begin := func(loop func(context.Context)) { all.Go(func() { loop(ctx) }) }
	begin(r.watch)
	begin(r.paced(r.capabilities))
	begin(r.paced(r.list))
	for _, id := range l.Residents {
		begin(r.paced(func(ctx context.Context) { r.get(ctx, id) }))
	}
	for _, b := range l.Bearers {
		begin(r.paced(func(ctx context.Context) { r.authenticate(ctx, b) }))
	}
	for _, c := range l.Churns {
		begin(r.paced(func(ctx context.Context) { r.life(ctx, c) }))
	}
	all.Wait()
	return r.requests
}

type runner struct {
	*Load
	mu       sync.Mutex
	requests []Request
}

func (r *runner) note(request Request) Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, request)
	return request
}

// paced does something again and again until ctx ends. What is under way then is not cut.
func (r *runner) paced(once func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		tick := time.NewTicker(r.Pace)
		defer tick.Stop()
		for ctx.Err() == nil {
			once(context.WithoutCancel(ctx))
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}
}

// ask makes the attempts of a request.
func (r *runner) ask(ctx context.Context, request Request, call func(context.Context) (Attempt, error)) Request {
	for began := time.Now(); ; {
		once, cancel := context.WithTimeout(ctx, callLimit)
		called := time.Now()
		a, err := call(once)
		a.Took = time.Since(called)
		cancel()
		if err != nil {
			a.Code, a.Message = status.Code(err), status.Convert(err).Message()
		}
		request.Attempts = append(request.Attempts, a)
		rule := rules[request.Call]
		if a.Code == codes.OK || rule.once || rule.grants && request.Standing != Allowed || time.Since(began) > Patience {
			return request
		}
		time.Sleep(Again)
	}
}

func (r *runner) capabilities(ctx context.Context) {
	r.note(r.ask(ctx, Request{Call: Capabilities}, func(ctx context.Context) (Attempt, error) {
		_, err := r.Driver.GetCapabilities(ctx, &computev1.GetCapabilitiesRequest{Gateway: r.Gateway})
		return Attempt{}, err
	}))
}

func (r *runner) get(ctx context.Context, id string) {
	r.note(r.ask(ctx, Request{Call: Get, Sandbox: id}, func(ctx context.Context) (Attempt, error) {
		answer, err := r.Driver.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: id})
		return Attempt{Sandbox: answer.GetSandbox().GetId()}, err
	}))
}

func (r *runner) list(ctx context.Context) {
	r.note(r.ask(ctx, Request{Call: List}, func(ctx context.Context) (Attempt, error) {
		answer, err := r.Driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
		if err != nil {
			return Attempt{}, err
		}
		told := map[string]bool{}
		for _, s := range answer.GetSandboxes() {
			told[s.GetId()] = true
		}
		return Attempt{Lacks: r.lacking(told)}, nil
	}))
}

func (r *runner) authenticate(ctx context.Context, b Bearer) {
	request := Request{Call: Authenticate, Sandbox: b.Sandbox, Standing: b.Standing, Identity: b.Identity}
	r.note(r.ask(ctx, request, func(ctx context.Context) (Attempt, error) {
		answer, err := r.Driver.AuthenticateSandbox(ctx, &computev1.AuthenticateSandboxRequest{Credential: b.Credential})
		return Attempt{Sandbox: answer.GetSandboxId(), Identity: answer.GetRuntimeIdentity()}, err
	}))
}

// life makes a sandbox, stops it, starts it and deletes it. What was refused once is not made again, as by a gateway; what was made is
// deleted whatever becomes of the rest.
func (r *runner) life(ctx context.Context, c Churn) {
	wish := c.Wish()
	id := wish.GetId()
	about := func(call Call) Request { return Request{Call: call, Sandbox: id, Standing: c.Standing} }
	if c.Standing == Allowed { // whether a validation asks for that is the driver's to choose
		r.note(r.ask(ctx, about(Validate), func(ctx context.Context) (Attempt, error) {
			_, err := r.Driver.ValidateSandboxCreate(ctx, &computev1.ValidateSandboxCreateRequest{Sandbox: wish})
			return Attempt{}, err
		}))
	}
	created := r.ask(ctx, about(Create), func(ctx context.Context) (Attempt, error) {
		answer, err := r.Driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
		return Attempt{Identity: answer.GetRuntimeIdentity()}, err
	})
	if created.last().Code != codes.OK {
		created.Left = c.Left(ctx, wish)
		r.note(created)
		return
	}
	r.note(created)
	r.note(r.ask(ctx, about(Stop), func(ctx context.Context) (Attempt, error) {
		_, err := r.Driver.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: id})
		return Attempt{}, err
	}))
	r.note(r.ask(ctx, about(Start), func(ctx context.Context) (Attempt, error) {
		answer, err := r.Driver.StartSandbox(ctx, &computev1.StartSandboxRequest{
			SandboxId: id, GenerationId: Generation, LaunchAuthentication: c.Bundle(id), ExpectedRuntimeIdentity: created.last().Identity,
		})
		return Attempt{Identity: answer.GetRuntimeIdentity()}, err
	}))
	deleted := r.ask(ctx, about(Delete), func(ctx context.Context) (Attempt, error) {
		answer, err := r.Driver.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: id})
		return Attempt{Deleted: answer.GetDeleted()}, err
	})
	if deleted.last().Code == codes.OK {
		deleted.Left = c.Left(ctx, wish)
		if c.Lived != nil {
			c.Lived()
		}
	}
	r.note(deleted)
}

// Generation is the runtime generation of what churns make; bundles must be of the same.
const Generation = "g0000000000000001"
