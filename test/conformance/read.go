package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

func readChecks() []Check {
	return []Check{
		{
			ID: "get.nothing", Section: "2.7", Required: true,
			Says: "a get without a sandbox_id is INVALID_ARGUMENT", Breaks: "a defect of the gateway passes for an absence",
			run: func(ctx context.Context, p *probe) error {
				_, err := p.driver.GetSandbox(ctx, &computev1.GetSandboxRequest{})
				return expect("GetSandbox", err, codes.InvalidArgument)
			},
		},
		{
			ID: "get.absent", Section: "2.6", Required: true, run: getsAbsent,
			Says:   "an absent sandbox is NOT_FOUND, one that never was and one that is gone",
			Breaks: "rows of sandboxes that are gone stay for ever",
		},
		{
			ID: "get.present", Section: "2.6", Required: true, run: getsPresent,
			Says:   "a sandbox comes back with its id, name and workspace as the gateway gave them, and with a status",
			Breaks: "the answer is not used, or the stored name is overwritten by the platform's",
		},
		{
			ID: "get.after-create", Section: "2.6", Required: true, run: getsAtOnce,
			Says:   "a sandbox is there for GetSandbox and ListSandboxes as soon as CreateSandbox has answered",
			Breaks: "a row is taken for one whose sandbox is gone",
		},
		{
			ID: "list.complete", Section: "2.9", Required: true, run: listsAll,
			Says:   "the list has every sandbox once, each as GetSandbox gives it: with the same name and the same conditions",
			Breaks: "rows that are not in the list are pruned",
		},
		{
			ID: "list.changing", Section: "2.9", Required: true, run: listsWhileChanging,
			Says:   "a list is complete whatever comes and goes meanwhile, or it is an error",
			Breaks: "rows that are not in the list are pruned",
		},
	}
}

func getsAbsent(ctx context.Context, p *probe) error {
	b, err := p.oneDeleted(ctx)
	if err != nil {
		return err
	}
	for _, id := range []string{b.id, uuid()} {
		_, err := p.get(ctx, id)
		if err := expect("GetSandbox", err, codes.NotFound); err != nil {
			return err
		}
	}
	return nil
}

// same compares what the gateway gave with what came back.
func same(b *box, got *computev1.DriverSandbox) error {
	for _, field := range []struct{ name, want, got string }{
		{"id", b.id, got.GetId()}, {"name", b.wish.GetName(), got.GetName()}, {"workspace", b.wish.GetWorkspace(), got.GetWorkspace()},
	} {
		if field.got != field.want {
			return fmt.Errorf("%s is %q, and was %q", field.name, short(field.got), field.want)
		}
	}
	if got.GetStatus() == nil {
		return errors.New("it has no status")
	}
	_, err := phase.FromDriver(got.GetStatus())
	return err
}

func getsPresent(ctx context.Context, p *probe) error {
	b, err := p.oneUp(ctx)
	if err != nil {
		return err
	}
	got, err := p.get(ctx, b.id)
	if err != nil {
		return fmt.Errorf("GetSandbox: %w", err)
	}
	return same(b, got)
}

func getsAtOnce(ctx context.Context, p *probe) error {
	b, err := p.create(ctx)
	if err != nil {
		return err
	}
	if _, err := p.get(ctx, b.id); err != nil {
		return fmt.Errorf("GetSandbox right after the create: %w", err)
	}
	return p.listed(ctx, b)
}

// listed is nil when the list has each of the boxes once.
func (p *probe) listed(ctx context.Context, boxes ...*box) error {
	answer, err := p.driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
	if err != nil {
		return fmt.Errorf("ListSandboxes: %w", err)
	}
	for _, b := range boxes {
		n := 0
		for _, got := range answer.GetSandboxes() {
			if !strings.EqualFold(got.GetId(), b.id) {
				continue
			}
			if n++; n == 1 {
				err = errors.Join(err, same(b, got))
			}
		}
		if n != 1 {
			err = errors.Join(err, fmt.Errorf("the list of %d has sandbox %s %d times", len(answer.GetSandboxes()), b.id, n))
		}
	}
	return err
}

// several makes some sandboxes at once.
func (p *probe) several(ctx context.Context, n int) ([]*box, error) {
	boxes := make([]*box, n)
	err := together(n, func(i int) (err error) {
		boxes[i], err = p.create(ctx)
		return err
	})
	return boxes, err
}

func listsAll(ctx context.Context, p *probe) error {
	const sandboxes = 3
	boxes, err := p.several(ctx, sandboxes)
	if err != nil {
		return err
	}
	if err := p.listed(ctx, boxes...); err != nil {
		return err
	}
	for _, b := range boxes {
		if err := p.reach(ctx, b.id, phase.Ready); err != nil {
			return err
		}
	}
	return together(len(boxes), func(i int) error {
		return p.eventually(ctx, "the list has the sandbox as GetSandbox gives it", func() error { return p.agree(ctx, boxes[i]) })
	})
}

// agree is nil when the list's report of a sandbox means to a gateway what that of GetSandbox does. Messages may be shorter in a list.
func (p *probe) agree(ctx context.Context, b *box) error {
	one, err := p.get(ctx, b.id)
	if err != nil {
		return fmt.Errorf("GetSandbox: %w", err)
	}
	list, err := p.driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
	if err != nil {
		return fmt.Errorf("ListSandboxes: %w", err)
	}
	for _, other := range list.GetSandboxes() {
		if got, want := gist(other), gist(one); other.GetId() == b.id && got != want {
			return fmt.Errorf("the list has %s, and GetSandbox %s", got, want)
		}
	}
	return p.listed(ctx, b)
}

// gist is what a gateway takes from a report.
func gist(s *computev1.DriverSandbox) string {
	var conditions []string
	for _, c := range s.GetStatus().GetConditions() {
		conditions = append(conditions, c.GetType()+"="+c.GetStatus()+"/"+c.GetReason())
	}
	slices.Sort(conditions)
	return short(fmt.Sprintf("name %s, workspace %s, deleting %t, %s", s.GetName(), s.GetWorkspace(), s.GetStatus().GetDeleting(), strings.Join(conditions, " ")))
}

// listsWhileChanging asks for the list until another sandbox has come, stopped and gone.
func listsWhileChanging(ctx context.Context, p *probe) error {
	b, err := p.create(ctx)
	if err != nil {
		return err
	}
	changed := make(chan error, 1)
	go func() {
		other, err := p.stopped(ctx)
		if err == nil {
			err = p.ends(ctx, other.id)
		}
		changed <- err
	}()
	for {
		if err := p.listed(ctx, b); err != nil {
			return errors.Join(err, <-changed)
		}
		select {
		case err := <-changed:
			return err
		default:
		}
	}
}
