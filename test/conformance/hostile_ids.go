package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// hostileIDs are no ids of sandboxes. Most hold that of one that runs, for a driver that cuts, trims or interprets what it is given.
func hostileIDs(of string) []string {
	return []string{
		strings.Repeat("a", 65), strings.Repeat("a", huge), " " + of, of + " ", of + "\n", of + "\x00", of + ",x=y", "x)," + of, "../" + of, of + "/..", of + "/status",
		of + "%00", of + "?watch=true", "*", "a_b", "-a", "\u0430bc", "os-supervisor-" + of,
	}
}

// byID are the calls that name a sandbox.
var byID = []struct {
	method  string
	request func(p *probe, id string) (proto.Message, error)
	// absent: codes for what is no sandbox's id, beside INVALID_ARGUMENT.
	absent []codes.Code
	breaks string
}{
	{
		"GetSandbox", func(_ *probe, id string) (proto.Message, error) {
			return &computev1.GetSandboxRequest{SandboxId: id}, nil
		},
		[]codes.Code{codes.NotFound},
		"a defect of the gateway is taken for one of the driver, or for another sandbox's report",
	},
	{
		"StartSandbox", startingAny,
		[]codes.Code{codes.NotFound, codes.FailedPrecondition},
		"another sandbox is started, or the caller is told INTERNAL",
	},
	{
		"StopSandbox", func(_ *probe, id string) (proto.Message, error) {
			return &computev1.StopSandboxRequest{SandboxId: id}, nil
		},
		[]codes.Code{codes.NotFound},
		"another sandbox is stopped, or the reclaim is repeated for ever",
	},
	{
		"DeleteSandbox", func(_ *probe, id string) (proto.Message, error) {
			return &computev1.DeleteSandboxRequest{SandboxId: id}, nil
		},
		[]codes.Code{codes.OK},
		"another sandbox is deleted, or the row cannot be removed",
	},
}

// startingAny is a good request but for its id.
func startingAny(p *probe, id string) (proto.Message, error) {
	request, err := p.starting(&box{id: uuid(), identity: "kubernetes://a/b/c"})
	if err != nil {
		return nil, err
	}
	request.SandboxId = id
	return request, nil
}

func idChecks() []Check {
	var all []Check
	for _, one := range byID {
		name, _, _ := strings.Cut(strings.ToLower(one.method), "sandbox")
		call := func(ctx context.Context, p *probe, id string) error {
			request, err := one.request(p, id)
			if err != nil {
				return err
			}
			return p.invoke(ctx, one.method, request)
		}
		allowed := append([]codes.Code{codes.InvalidArgument}, one.absent...)
		all = append(all, Check{
			ID: name + ".hostile", Section: "2.7", Required: true, Breaks: one.breaks,
			Says: one.method + " of what is no sandbox's id is " + names(allowed) + ", and no sandbox is harmed; what is no text may be INTERNAL",
			run: func(ctx context.Context, p *probe) error {
				return p.besides(ctx, func(of string) error {
					var problems []error
					for _, id := range hostileIDs(of) {
						err := call(ctx, p, id)
						problems = append(problems, expect(fmt.Sprintf("%s of %q", one.method, short(id)), err, allowed...))
					}
					err := call(ctx, p, broken)
					return errors.Join(append(problems, expect(one.method+" of bytes that are no text", err, append(allowed, codes.Internal, codes.Unknown)...))...)
				})
			},
		}, Check{
			ID: name + ".field", Section: "2.6",
			Says:   "a refusal of what is no sandbox's id names the field sandbox_id, and is no longer than a header may be",
			Breaks: "nobody knows from it what to mend",
			run: func(ctx context.Context, p *probe) error {
				problems := []error{saysWhere(one.method, call(ctx, p, ""), "sandbox_id")}
				for _, id := range hostileIDs(uuid()) {
					if err := call(ctx, p, id); status.Code(err) == codes.InvalidArgument {
						problems = append(problems, saysWhere(one.method, err, "sandbox_id"))
					}
				}
				return errors.Join(problems...)
			},
		})
	}
	return all
}

// invoke makes a call and says only whether it is OK. What is broken is sent so.
func (p *probe) invoke(ctx context.Context, method string, request proto.Message) error {
	text, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	return p.send(ctx, method, text)
}

// besides does something beside a sandbox that runs, and looks that it still does.
func (p *probe) besides(ctx context.Context, do func(id string) error) error {
	b, err := p.oneUp(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(b.id), p.unharmed(ctx, b))
}
