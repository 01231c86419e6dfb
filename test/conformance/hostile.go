package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// hostile is a good request with one thing changed.
type hostile struct {
	name   string
	change func(*computev1.DriverSandbox)
	// path of the field that a refusal has to name.
	path string
	// open: the contract does not say that it is refused (a driver may pass over OPENSHELL_* and write its own labels last, contract 7.5 and
	// 4.3), or a platform could carry it out. What none can, as a variable without a name, has to be refused: the platform's own refusal comes
	// after something was made, and is INTERNAL.
	open bool
	// codes beside INVALID_ARGUMENT.
	codes []codes.Code
	needs []ability
}

// The places of fields.
const (
	inTemplate = "sandbox.spec.template."
	inConfig   = inTemplate + "driver_config"
	inPlatform = inTemplate + "platform_config"
)

func hostileChecks() []Check {
	all := collisionChecks()
	for _, table := range [][]hostile{hostileNames(), hostileSpecs(), hostileMetadata(), hostileQuantities(), hostileConfigs(), hostileTexts()} {
		for _, h := range table {
			all = append(all, h.checks()...)
		}
	}
	return all
}

// checks are that the request is refused, and that the refusal says where, if it can.
func (h hostile) checks() []Check {
	both := []Check{
		{
			ID: "hostile." + h.name, Section: "2.7", Required: !h.open, needs: h.needs, run: h.refused,
			Says:   "ValidateSandboxCreate and CreateSandbox refuse the request with " + names(h.allowed()) + ", and nothing is made",
			Breaks: "the caller is told INTERNAL at best; at worst a sandbox gets what is not its",
		},
		{
			ID: "field." + h.name, Section: "2.6", needs: h.needs, run: h.named,
			Says:   "the refusal names the field " + h.path + ", and is no longer than a header may be",
			Breaks: "the message is passed on unchanged, and nobody knows from it what to mend",
		},
	}
	if h.path == "" {
		return both[:1]
	}
	return both
}

func (h hostile) allowed() []codes.Code {
	return append([]codes.Code{codes.InvalidArgument}, h.codes...)
}

// request is the hostile one; its id may be anything. forget is for when nothing came of it.
func (h hostile) request(p *probe) (wish *computev1.DriverSandbox, forget func(), err error) {
	wish, err = p.wish()
	if err != nil {
		return nil, nil, err
	}
	id := wish.GetId()
	wish.Spec.Template = &computev1.DriverSandboxTemplate{}
	h.change(wish)
	return wish, func() { p.forget(id) }, nil
}

// ask sends it in both calls.
func (h hostile) ask(ctx context.Context, p *probe, wish *computev1.DriverSandbox) (validated, created error) {
	if strings.Contains(string(wish.GetSpec().GetPolicy()), broken) {
		wish.Spec.Policy = nil
		return p.sendBroken(ctx, "ValidateSandboxCreate", &computev1.ValidateSandboxCreateRequest{Sandbox: wish}),
			p.sendBroken(ctx, "CreateSandbox", &computev1.CreateSandboxRequest{Sandbox: wish})
	}
	_, validated = p.driver.ValidateSandboxCreate(ctx, &computev1.ValidateSandboxCreateRequest{Sandbox: proto.CloneOf(wish)})
	_, created = p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
	return validated, created
}

func (h hostile) refused(ctx context.Context, p *probe) error {
	wish, forget, err := h.request(p)
	if err != nil {
		return err
	}
	id := wish.GetId()
	validated, created := h.ask(ctx, p, wish)
	if created == nil {
		_, err = p.delete(ctx, id)
	}
	err = errors.Join(
		expect("ValidateSandboxCreate", validated, h.allowed()...), expect("CreateSandbox", created, h.allowed()...), err, p.unmade(ctx, wish),
	)
	if err == nil {
		forget()
	}
	return err
}

// unmade is nil when no sandbox came of the request.
func (p *probe) unmade(ctx context.Context, wish *computev1.DriverSandbox) error {
	list, err := p.driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
	if err != nil {
		return fmt.Errorf("ListSandboxes: %w", err)
	}
	for _, one := range list.GetSandboxes() {
		if one.GetId() == wish.GetId() || one.GetWorkspace() == wish.GetWorkspace() && one.GetName() == wish.GetName() {
			return errors.New("a sandbox was made all the same")
		}
	}
	if id := wish.GetId(); id != "" {
		return p.nothing(ctx, id)
	}
	return nil
}

func (h hostile) named(ctx context.Context, p *probe) error {
	wish, forget, err := h.request(p)
	if err != nil {
		return err
	}
	validated, created := h.ask(ctx, p, wish)
	if created == nil {
		_, err = p.delete(ctx, wish.GetId())
	} else { // what it left all the same is for the other check of the two to find, and for Reset
		forget()
	}
	return errors.Join(err, saysWhere("ValidateSandboxCreate", validated, h.path), saysWhere("CreateSandbox", created, h.path))
}

// saysWhere is nil when the refusal of a call names the field, and is no longer than a header may be.
func saysWhere(call string, err error, field string) error {
	const longest = 8 << 10
	text := status.Convert(err).Message()
	switch {
	case err == nil:
		return fmt.Errorf("%s: it is OK", call)
	case !strings.Contains(text, field):
		return fmt.Errorf("%s: %q does not name %s", call, short(text), field)
	case len(text) > longest:
		return fmt.Errorf("%s: the message has %d bytes", call, len(text))
	}
	return nil
}

// object makes a Struct of what JSON could say.
func object(members map[string]any) *structpb.Struct {
	s, err := structpb.NewStruct(members)
	if err != nil {
		panic(fmt.Sprintf("a table of this package: %v", err))
	}
	return s
}
