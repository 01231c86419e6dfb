package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// Limits of waits for what will never happen; no claim about how long anything takes.
const (
	shortWait = 30 * time.Second
	longWait  = 2 * time.Minute
)

// Story is what the demo shows.
func (w *World) Story() []Act {
	inside := "The gateway reaches the workload through the supervisor, and the workload reaches nothing at all."
	if !w.site.Real {
		inside = "Not shown on this cluster."
	}
	return []Act{
		{
			"A namespace becomes a workspace by its label",
			"Nobody but the platform team decides which namespaces are trusted, and the driver follows it live.", w.allow,
		},
		{
			"A sandbox is created",
			"The fence stands before the workload runs, and only the sandbox's own supervisor gets a token from the gateway.", w.create,
		},
		{
			"A command runs in the fenced Pod",
			inside, w.fenced,
		},
		{
			"The label is taken away",
			"New sandboxes and new tokens are refused at once, each with its reason; nothing that runs is touched.", w.forbid,
		},
		{
			"The label is back: stop, start, delete",
			"A refusal ends when its reason does. A run has an identity of its own, and a delete leaves nothing.", w.life,
		},
		{
			"The leading nswatch is killed",
			"Nobody can prove that the list is current, so the gate closes; a standby takes over, and it opens again.", w.takeOver,
		},
		{
			"Everything goes",
			"Nothing is left behind: not in the cluster, not on this machine.", w.leave,
		},
	}
}

// Titles are those of the acts, in their order, for who shows the same elsewhere.
func Titles() (titles []string) {
	for _, act := range (&World{site: &Site{}}).Story() {
		titles = append(titles, act.Title)
	}
	return titles
}

// mark puts the label on the workspace's namespace, or takes it away.
func (w *World) mark(ctx context.Context, on bool) error {
	key, value := w.label()
	text, _ := json.Marshal(value)
	if !on {
		text = []byte("null")
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, text)
	if _, err := w.client.CoreV1().Namespaces().Patch(ctx, w.team, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("label namespace %s: %w", w.team, err)
	}
	return nil
}

// wish is the sandbox of the story.
func (w *World) wish(name string) gateway.Wish {
	return gateway.Wish{Workspace: w.team, Name: name, Spec: &computev1.DriverSandboxSpec{LogLevel: "info", Command: []string{"/" + workloadProgram, "sleep"}}}
}

// usable waits until the workspace may be used.
func (w *World) usable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shortWait)
	defer cancel()
	return eventually(ctx, func() error { return w.gateway.EnsureWorkspace(ctx, w.team) })
}

// refused waits until the workspace may not be used any more, with this code and for this reason: no other error is the refusal that is to be
// shown. It returns lifecycle's explanation.
func (w *World) refused(ctx context.Context, code codes.Code, reason string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, shortWait)
	defer cancel()
	before := 0
	err := eventually(ctx, func() error {
		before = w.refusals(mesh.Lifecycle, "refused")
		return answeredWith(w.gateway.EnsureWorkspace(ctx, w.team), code)
	})
	if err != nil {
		return "", err
	}
	entry, err := w.explained(ctx, mesh.Lifecycle, "refused", before, reason)
	return fmt.Sprint(entry["error"]), err
}

// answeredWith is nil for an answer with one of the codes.
func answeredWith(answer error, wanted ...codes.Code) error {
	switch code := status.Code(answer); {
	case slices.Contains(wanted, code):
		return nil
	case answer == nil:
		return fmt.Errorf("it is done, and the answer was to be %v", wanted)
	default:
		return fmt.Errorf("the answer is %s, and was to be %v: %w", code, wanted, answer)
	}
}

// allow is the first act.
func (w *World) allow(ctx context.Context, t *Timeline) error {
	if err := w.makeNamespace(ctx, w.team, w.marks()); err != nil {
		return err
	}
	t.Note("namespace "+w.team, "without the label")
	if err := t.Check("a sandbox in it is refused", func() (string, error) { return w.refuseCreate(ctx, "too-early", "not_listed") }); err != nil {
		return err
	}
	if err := w.mark(ctx, true); err != nil {
		return err
	}
	key, value := w.label()
	t.Note("the platform team labels it", key+"="+value)
	if err := t.Check("from the label to the first yes", func() (string, error) { return "asked through the gateway", w.usable(ctx) }); err != nil {
		return err
	}
	return t.Check("the signed list has it", func() (string, error) { return w.list(ctx, 1) })
}

// refuseCreate asks for a sandbox that must be refused for the reason, and leave nothing. It returns the explanation.
func (w *World) refuseCreate(ctx context.Context, name, reason string) (string, error) {
	before := w.refusals(mesh.Lifecycle, "refused")
	made, err := w.gateway.Create(ctx, w.wish(name))
	if err == nil {
		return "", fmt.Errorf("sandbox %s was made, as %s", name, made.ID)
	}
	// The first is EnsureWorkspace's, when the workspace is new to the gateway; the second CreateSandbox's.
	if err := answeredWith(err, codes.PermissionDenied, codes.FailedPrecondition); err != nil {
		return "", err
	}
	entry, err2 := w.explained(ctx, mesh.Lifecycle, "refused", before, reason)
	if err2 != nil {
		return "", errors.Join(err2, err)
	}
	if err := w.nothingOf(ctx, name); err != nil {
		return "", err
	}
	return fmt.Sprintf("gateway: %s: %s\nlifecycle: %v", status.Code(err), status.Convert(err).Message(), entry["error"]), nil
}

// nothingOf demands that a sandbox that was refused left neither a row nor a Sandbox.
func (w *World) nothingOf(ctx context.Context, name string) error {
	if _, err := w.gateway.Find(w.team, name); status.Code(err) != codes.NotFound {
		return fmt.Errorf("the gateway has a row of %s: %w", name, err)
	}
	objects, err := w.dynamic.Resource(sandboxes).Namespace(w.team).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Sandboxes: %w", err)
	}
	for _, one := range objects.Items {
		if strings.Contains(one.GetName(), name) {
			return fmt.Errorf("the Sandbox %s was made", one.GetName())
		}
	}
	return nil
}

// refusals counts a daemon's lines about refusals.
func (w *World) refusals(daemon, message string) int { return len(w.said(daemon, message)) }

func (w *World) said(daemon, message string) []map[string]any {
	p := w.mesh.Process(daemon)
	if p == nil {
		return nil
	}
	return p.Entries(func(entry map[string]any) bool { return entry["message"] == message })
}

// explained waits for a line after the first that gives the reason, and demands that it says the state of the list.
func (w *World) explained(ctx context.Context, daemon, message string, after int, reason string) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, shortWait)
	defer cancel()
	var found map[string]any
	err := eventually(ctx, func() error {
		lines := w.said(daemon, message)
		for _, line := range lines[min(after, len(lines)):] {
			found = line
		}
		if found == nil {
			return fmt.Errorf("%s has not logged why", daemon)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if found["reason"] != reason {
		return nil, fmt.Errorf("the reason is %v, not %s: %v", found["reason"], reason, found)
	}
	text := fmt.Sprint(found["error"], found["explanation"])
	for _, part := range []string{"epoch ", "revision "} {
		if !strings.Contains(text, part) {
			return nil, fmt.Errorf("the explanation does not say the list's %s: %s", part, text)
		}
	}
	// A proof that is no longer in the bucket has no age.
	if !strings.Contains(text, "age ") && (reason != "stale" || !strings.Contains(text, "unproven")) {
		return nil, fmt.Errorf("the explanation does not say how old the proof is: %s", text)
	}
	return found, nil
}

// list asks nswatch's own command for the list, which must be usable and have so many namespaces.
func (w *World) list(ctx context.Context, count uint64) (string, error) {
	said, err := w.mesh.Command(ctx, mesh.Nswatch, "allowlist", "show", "--config", w.mesh.Settings(mesh.Nswatch), "-o", "json")
	if err != nil {
		return "", err
	}
	var shown struct {
		Usable   bool
		Problems []string
		Snapshot *struct {
			Verified bool
			List     struct{ Epoch, Revision, Count uint64 }
		}
		Heartbeat *struct {
			AgeMS int64 `json:"age_ms"`
		}
	}
	if err := json.Unmarshal([]byte(said), &shown); err != nil {
		return "", fmt.Errorf("read what nswatch allowlist show says: %w: %s", err, said)
	}
	if !shown.Usable || shown.Snapshot == nil || shown.Heartbeat == nil || !shown.Snapshot.Verified || shown.Snapshot.List.Count != count {
		return "", fmt.Errorf("not the list that was expected, of %d: %s", count, said)
	}
	l := shown.Snapshot.List
	return fmt.Sprintf("$ nswatch allowlist show\nepoch %d, revision %d, namespaces: %d, signature verified, proof %d ms old",
		l.Epoch, l.Revision, l.Count, shown.Heartbeat.AgeMS), nil
}
