package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/credentials"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

// probe is one check's dealings with the driver. Its methods are safe for concurrent use.
type probe struct {
	target    Target
	driver    computev1.ComputeDriverClient
	workspace string
	patience  time.Duration

	mu      sync.Mutex
	ids     []string // of sandboxes that may have been made
	streams []*stream
	epoch   uint64
}

func newProbe(ctx context.Context, target Target) (*probe, error) {
	workspace, err := target.Workspace(ctx)
	if err != nil {
		return nil, fmt.Errorf("a workspace for the check could not be had: %w", err)
	}
	return &probe{
		target: target, driver: computev1.NewComputeDriverClient(target.Conn()), workspace: workspace, patience: patience(target),
	}, nil
}

// end deletes what the check made. That it cannot be deleted is a finding of whichever check it happens to.
func (p *probe) end(ctx context.Context) error {
	p.mu.Lock()
	ids, streams := p.ids, p.streams
	p.mu.Unlock()
	for _, s := range streams {
		s.close()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.patience)
	defer cancel()
	return together(len(ids), func(i int) error {
		return p.eventually(ctx, "sandbox "+ids[i]+" can be deleted", func() error {
			_, err := p.driver.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: ids[i]})
			return err
		})
	})
}

// noted makes end delete the sandbox with the id.
func (p *probe) noted(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids = append(p.ids, id)
}

// forget is the opposite of noted, for what was refused: a delete of what is not there asks a driver, and its platform, for a lot.
func (p *probe) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids = slices.DeleteFunc(p.ids, func(one string) bool { return one == id })
}

// eventually tries until there is no error, or the patience or ctx ends.
func (p *probe) eventually(ctx context.Context, what string, try func() error) error {
	return within(ctx, p.patience, what, try)
}

func within(ctx context.Context, limit time.Duration, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	const longest = 200 * time.Millisecond
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, longest) {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it did not come about that %s: %w", what, err)
		case <-time.After(pause):
		}
	}
}

// together does n things at once and joins what went wrong.
func together(n int, do func(i int) error) error {
	problems := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { problems[i] = do(i) })
	}
	all.Wait()
	return errors.Join(problems...)
}

// box is a sandbox of a check.
type box struct {
	wish     *computev1.DriverSandbox
	id       string
	identity string // of the run that was answered last
}

func hexadecimal(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func uuid() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// generation stands in every bundle of the suite: it is the same for all runs of a sandbox at a gateway (contract 2.6).
const generation = "g0000000000000001"

// laterGeneration is what a gateway could send that derives it from the row as it is now.
const laterGeneration = "g00000000000000a7"

// bundle makes credentials for a new run.
func (p *probe) bundle(id string) ([]byte, error) {
	p.mu.Lock()
	p.epoch++
	run := credentials.Run{SandboxID: id, SessionID: uuid(), Generation: generation, Rotation: 1, AuthEpoch: p.epoch}
	p.mu.Unlock()
	made, err := p.target.Bundle(run)
	if err != nil {
		return nil, fmt.Errorf("launch credentials could not be made: %w", err)
	}
	defer made.Wipe()
	return made.Expose(), nil // for the request
}

// wish is a sandbox as a gateway asks for it.
func (p *probe) wish() (*computev1.DriverSandbox, error) {
	id := uuid()
	bundle, err := p.bundle(id)
	if err != nil {
		return nil, err
	}
	p.noted(id)
	return &computev1.DriverSandbox{
		Id: id, Name: "c" + hexadecimal(5), Workspace: p.workspace,
		Spec: &computev1.DriverSandboxSpec{LogLevel: "info", Command: []string{"/bin/run"}, LaunchAuthentication: bundle},
	}, nil
}

// create makes a sandbox and does not wait for it.
func (p *probe) create(ctx context.Context) (*box, error) {
	wish, err := p.wish()
	if err != nil {
		return nil, err
	}
	answer, err := p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
	if err != nil {
		return nil, fmt.Errorf("CreateSandbox of a good sandbox: %w", err)
	}
	return &box{wish: wish, id: wish.GetId(), identity: answer.GetRuntimeIdentity()}, nil
}

// up makes a sandbox and waits until the driver reports it Ready.
func (p *probe) up(ctx context.Context) (*box, error) {
	b, err := p.create(ctx)
	if err != nil {
		return nil, err
	}
	return b, p.reach(ctx, b.id, phase.Ready)
}

// stopped makes a sandbox and stops it, whether it was Ready or not yet.
func (p *probe) stopped(ctx context.Context) (*box, error) {
	b, err := p.create(ctx)
	if err != nil {
		return nil, err
	}
	return b, p.stop(ctx, b.id)
}

func (p *probe) stop(ctx context.Context, id string) error {
	if _, err := p.driver.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: id}); err != nil {
		return fmt.Errorf("StopSandbox: %w", err)
	}
	return nil
}

// starting is the request for a new run of a sandbox.
func (p *probe) starting(b *box) (*computev1.StartSandboxRequest, error) {
	bundle, err := p.bundle(b.id)
	if err != nil {
		return nil, err
	}
	return &computev1.StartSandboxRequest{
		SandboxId: b.id, GenerationId: generation, LaunchAuthentication: bundle, ExpectedRuntimeIdentity: b.identity,
	}, nil
}

func (p *probe) start(ctx context.Context, b *box) error {
	request, err := p.starting(b)
	if err != nil {
		return err
	}
	answer, err := p.driver.StartSandbox(ctx, request)
	if err != nil {
		return fmt.Errorf("StartSandbox of a stopped sandbox: %w", err)
	}
	b.identity = answer.GetRuntimeIdentity()
	return nil
}

func (p *probe) delete(ctx context.Context, id string) (bool, error) {
	answer, err := p.driver.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: id})
	if err != nil {
		return false, fmt.Errorf("DeleteSandbox: %w", err)
	}
	return answer.GetDeleted(), nil
}

func (p *probe) get(ctx context.Context, id string) (*computev1.DriverSandbox, error) {
	answer, err := p.driver.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: id})
	return answer.GetSandbox(), err
}

// phase is what a gateway makes of the driver's present report (contract 2.10).
func (p *probe) phase(ctx context.Context, id string) (phase.Phase, error) {
	got, err := p.get(ctx, id)
	if err != nil {
		return phase.Unspecified, fmt.Errorf("GetSandbox: %w", err)
	}
	status, err := phase.FromDriver(got.GetStatus())
	if err != nil {
		return phase.Unspecified, err
	}
	return phase.Backend(status), nil
}

// reach waits until the driver's report means the phase.
func (p *probe) reach(ctx context.Context, id string, want phase.Phase) error {
	return p.eventually(ctx, "the sandbox is "+string(want), func() error {
		got, err := p.phase(ctx, id)
		if err == nil && got != want {
			err = fmt.Errorf("its report means %s", got)
		}
		return err
	})
}

// gone waits until the sandbox is absent for the driver, and the platform has nothing of it if that can be seen.
func (p *probe) gone(ctx context.Context, id string) error {
	return p.goneWithin(ctx, p.patience, id)
}

func (p *probe) goneWithin(ctx context.Context, limit time.Duration, id string) error {
	return within(ctx, limit, "nothing is left of the sandbox", func() error {
		if _, err := p.get(ctx, id); status.Code(err) != codes.NotFound {
			return fmt.Errorf("GetSandbox: %w", orNil(err))
		}
		return p.nothing(ctx, id)
	})
}

var errThere = errors.New("it is there")

func orNil(err error) error {
	if err == nil {
		return errThere
	}
	return err
}

// nothing is nil when the platform has nothing of the sandbox, of any in the workspace for the empty id, or cannot be looked at.
func (p *probe) nothing(ctx context.Context, id string) error {
	platform, ok := p.target.(Inspector)
	if !ok {
		return nil
	}
	objects, err := platform.Objects(ctx, p.workspace, id)
	if err == nil && len(objects) > 0 {
		err = fmt.Errorf("the platform has %q", objects)
	}
	return err
}

// expect is nil when err has one of the codes; codes.OK stands for none.
func expect(what string, err error, want ...codes.Code) error {
	got := status.Code(err)
	for _, code := range want {
		if got == code {
			return nil
		}
	}
	return fmt.Errorf("%s: expected %s, got %s (%q)", what, names(want), got, short(status.Convert(err).Message()))
}

func names(all []codes.Code) string {
	text := ""
	for i, code := range all {
		switch {
		case i == 0:
		case i == len(all)-1:
			text += " or "
		default:
			text += ", "
		}
		text += code.String()
	}
	return text
}

// short bounds what is shown of a driver's text.
func short(text string) string {
	const longest = 200
	if len(text) > longest {
		return text[:longest] + "..."
	}
	return text
}
