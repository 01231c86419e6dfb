package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

// The driver's calls, by whose refusal lifecycle gives a reason.
const (
	callEnsure       = "EnsureWorkspace"
	callEnd          = "DeleteWorkspace"
	callValidate     = "ValidateSandboxCreate"
	callCreate       = "CreateSandbox"
	callStart        = "StartSandbox"
	callStop         = "StopSandbox"
	callDelete       = "DeleteSandbox"
	callGet          = "GetSandbox"
	callAuthenticate = "AuthenticateSandbox"
)

var errNoGateway = errors.New("the gateway does not run")

func (p *play) gateway() (*gateway.Gateway, error) {
	if p.stage.front.gateway == nil {
		return nil, errNoGateway
	}
	return p.stage.front.gateway, nil
}

func (p *play) workspaceEnsure(ctx context.Context, args []string) (answer, error) {
	before := p.refusals()
	_, err := p.stage.site.Driver.EnsureWorkspace(ctx, &computev1.EnsureWorkspaceRequest{Workspace: p.namespace(args[0])})
	return p.outcome(err, before, callEnsure), nil
}

func (p *play) workspaceDelete(ctx context.Context, args []string) (answer, error) {
	g, err := p.gateway()
	if err != nil {
		return answer{}, err
	}
	before := p.refusals()
	return p.outcome(g.DeleteWorkspace(ctx, p.namespace(args[0])), before, callEnd), nil
}

func (p *play) sandboxCreate(ctx context.Context, args []string) (answer, error) {
	g, err := p.gateway()
	if err != nil {
		return answer{}, err
	}
	if args[1] != "in" {
		return answer{}, fmt.Errorf("%q is not in", args[1])
	}
	if _, taken := p.boxes[args[0]]; taken {
		return answer{}, fmt.Errorf("the script has a sandbox %q already", args[0])
	}
	before, home := p.refusals(), p.namespace(args[2])
	box, err := g.Create(ctx, gateway.Wish{Workspace: home, Name: args[0], Spec: &computev1.DriverSandboxSpec{Command: []string{"/bin/run"}}})
	if err == nil {
		p.boxes[args[0]], p.homes[args[0]] = box.ID, home
		p.real.stands(box.ID, "ID-OF-"+args[0])
	}
	return p.outcome(err, before, callEnsure, callValidate, callCreate), nil
}

// sandboxReady is of use after a create, a start, and when the gateway or the supervisor's Pod is another.
func (p *play) sandboxReady(ctx context.Context, args []string) (answer, error) {
	g, err := p.gateway()
	if err != nil {
		return answer{}, err
	}
	id, err := p.box(args[0])
	if err != nil {
		return answer{}, err
	}
	var last error
	err = poll(ctx, func() (bool, error) {
		last = p.attend(ctx, args[0], id)
		return last == nil, nil
	})
	if err != nil {
		return answer{}, errors.Join(err, last)
	}
	box, err := g.AwaitPhase(ctx, id, phase.Ready)
	return answer{word: string(box.Phase)}, err
}

// attend is one try of a supervisor to come to the gateway.
func (p *play) attend(ctx context.Context, name, id string) error {
	bearer, err := p.bearer(ctx, name)
	if err != nil {
		return err
	}
	if bearer == "" {
		return errors.New("the supervisor's Pod does not run")
	}
	token, err := p.stage.front.exchange(ctx, bearer, id)
	if err != nil {
		return err
	}
	return p.stage.front.attend(token)
}

func (s *Stage) scheme() workspace.Scheme {
	return workspace.Scheme{Mode: driverconf.Mode(s.site.Mode), GatewayID: s.site.GatewayID, Namespace: s.site.Shared}
}

// bearer is the token that the kubelet would mount into the supervisor's Pod; empty while that does not run.
func (p *play) bearer(ctx context.Context, name string) (string, error) {
	namespace, err := p.stage.scheme().NamespaceOf(p.homes[name])
	if err != nil {
		return "", err
	}
	pod, err := p.core().Pods(namespace).Get(ctx, workspace.SupervisorPod(p.boxes[name]), metav1.GetOptions{})
	if err != nil || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
		return "", ignoreAbsence(err)
	}
	answered, err := p.core().ServiceAccounts(namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			Audiences:      []string{"openshell-gateway"}, // contract 6.5
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("get the token of Pod %s: %w", pod.Name, err)
	}
	return answered.Status.Token, nil
}

func (p *play) tokenExchange(ctx context.Context, args []string) (answer, error) {
	if _, err := p.gateway(); err != nil {
		return answer{}, err
	}
	id, err := p.box(args[0])
	if err != nil {
		return answer{}, err
	}
	bearer, err := p.bearer(ctx, args[0])
	if err != nil {
		return answer{}, err
	}
	if bearer == "" {
		return answer{word: "no_pod", refused: true}, nil
	}
	before := p.refusals()
	_, err = p.stage.front.exchange(ctx, bearer, id)
	return p.outcome(err, before, callAuthenticate), nil
}

// onBox is an operation of the gateway on a sandbox.
func (p *play) onBox(name, call string, operate func(g *gateway.Gateway, id string) error) (answer, error) {
	g, err := p.gateway()
	if err != nil {
		return answer{}, err
	}
	id, err := p.box(name)
	if err != nil {
		return answer{}, err
	}
	before := p.refusals()
	return p.outcome(operate(g, id), before, call), nil
}

func (p *play) sandboxStop(ctx context.Context, args []string) (answer, error) {
	return p.onBox(args[0], callStop, func(g *gateway.Gateway, id string) error { return g.Stop(ctx, id) })
}

func (p *play) sandboxStart(ctx context.Context, args []string) (answer, error) {
	return p.onBox(args[0], callStart, func(g *gateway.Gateway, id string) error {
		_, err := g.Start(ctx, id)
		return err
	})
}

func (p *play) sandboxDelete(ctx context.Context, args []string) (answer, error) {
	return p.onBox(args[0], callDelete, func(g *gateway.Gateway, id string) error { return g.Delete(ctx, id) })
}

// deleteBox clears up: it waits for the end.
func (p *play) deleteBox(ctx context.Context, id string) error {
	g, err := p.gateway()
	if err != nil {
		return err
	}
	if err := g.Delete(ctx, id); err != nil && status.Code(err) != codes.NotFound {
		return err
	}
	return g.AwaitRemoved(ctx, id)
}

func (p *play) sandboxPhase(_ context.Context, args []string) (answer, error) {
	g, err := p.gateway()
	if err != nil {
		return answer{}, err
	}
	id, err := p.box(args[0])
	if err != nil {
		return answer{}, err
	}
	box, err := g.Get(id)
	if err != nil {
		return answer{word: codeName(status.Code(err))}, nil
	}
	return answer{word: string(box.Phase), reason: string(box.Cause)}, nil
}

func (p *play) sandboxGet(ctx context.Context, args []string) (answer, error) {
	id, err := p.box(args[0])
	if err != nil {
		return answer{}, err
	}
	before := p.refusals()
	got, err := p.stage.site.Driver.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: id})
	if err != nil {
		return p.outcome(err, before, callGet), nil
	}
	for _, c := range got.GetSandbox().GetStatus().GetConditions() {
		if c.GetType() == "Ready" {
			return answer{word: "Ready=" + c.GetStatus(), reason: c.GetReason()}, nil
		}
	}
	return answer{word: "Ready=Unknown"}, nil
}

func (p *play) sandboxList(ctx context.Context, _ []string) (answer, error) {
	all, err := p.stage.site.Driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
	if err != nil {
		return p.outcome(err, p.refusals()), nil
	}
	var names []string
	for name, id := range p.boxes {
		if slices.ContainsFunc(all.GetSandboxes(), func(s *computev1.DriverSandbox) bool { return s.GetId() == id }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return listed(names), nil
}

func listed(names []string) answer {
	if len(names) == 0 {
		return answer{word: "none"}
	}
	return answer{word: strings.Join(names, " ")}
}

func (p *play) sandboxPods(ctx context.Context, args []string) (answer, error) {
	id, err := p.box(args[0])
	if err != nil {
		return answer{}, err
	}
	namespace, err := p.stage.scheme().NamespaceOf(p.homes[args[0]])
	if err != nil {
		return answer{}, err
	}
	pods, err := p.core().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return answer{}, err
	}
	var roles []string
	for _, pod := range pods.Items {
		if got, _ := workspace.SandboxIDOf(pod.Annotations); got == id {
			roles = append(roles, pod.Labels[workspace.LabelBoundaryRole])
		}
	}
	slices.Sort(roles)
	return listed(roles), nil
}
