package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// daemon checks a name.
func (p *play) daemon(name string) error {
	if name != gatewayName && !slices.Contains(p.stage.daemons(), name) {
		return fmt.Errorf("%q is no program of this stage", name)
	}
	return nil
}

func (p *play) daemonKill(_ context.Context, args []string) (answer, error) {
	if err := p.daemon(args[0]); err != nil {
		return answer{}, err
	}
	return done, p.stage.kill(args[0])
}

func (p *play) daemonStop(_ context.Context, args []string) (answer, error) {
	if err := p.daemon(args[0]); err != nil {
		return answer{}, err
	}
	return done, p.stage.stop(args[0])
}

func (p *play) daemonPause(_ context.Context, args []string) (answer, error) {
	return done, p.stage.pause(args[0])
}

func (p *play) daemonResume(_ context.Context, args []string) (answer, error) {
	return done, p.stage.resume(args[0])
}

func (p *play) daemonRun(ctx context.Context, args []string) (answer, error) {
	if err := p.daemon(args[0]); err != nil {
		return answer{}, err
	}
	return done, p.stage.run(ctx, args[0])
}

// daemonBegin is for a lifecycle that cannot be ready.
func (p *play) daemonBegin(ctx context.Context, args []string) (answer, error) {
	if args[0] != mesh.Lifecycle {
		return answer{}, fmt.Errorf("%q cannot be begun, but for %s", args[0], mesh.Lifecycle)
	}
	waits, enough := context.WithCancel(ctx)
	defer enough()
	ended := make(chan error, 1)
	go func() { ended <- p.stage.run(waits, args[0]) }()
	err := poll(ctx, func() (bool, error) {
		_, err := p.stage.site.Driver.GetCapabilities(ctx, &computev1.GetCapabilitiesRequest{Gateway: lifecycle.Gateway()})
		return err == nil, nil
	})
	enough()
	if failed := <-ended; failed != nil && !errors.Is(failed, context.Canceled) {
		err = errors.Join(err, failed)
	}
	return done, err
}

func (p *play) daemonList(context.Context, []string) (answer, error) {
	return listed(slices.DeleteFunc(p.stage.daemons(), func(name string) bool { return !p.stage.runs(name) })), nil
}

// failing is how the admin listener marks a check that fails.
const failing = "[-]"

func (p *play) daemonReady(ctx context.Context, args []string) (answer, error) {
	code, body, err := p.admin(ctx, args[0], "/readyz?verbose")
	switch {
	case err != nil:
		return answer{}, err
	case code == http.StatusOK:
		return answer{word: "ready"}, nil
	}
	a := answer{word: "not_ready"}
	for line := range strings.Lines(body) {
		if check, ok := strings.CutPrefix(line, failing); ok {
			// What comes behind says why, and is not the same at every moment.
			parts := strings.SplitN(strings.TrimSpace(check), ": ", 3)
			a.lines = append(a.lines, strings.Join(parts[:min(2, len(parts))], ": "))
		}
	}
	return a, nil
}

// admin asks the admin listener of a daemon.
func (p *play) admin(ctx context.Context, daemon, path string) (code int, body string, err error) {
	if err := p.daemon(daemon); err != nil {
		return 0, "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.stage.site.Mesh.Admin(daemon)+path, nil)
	if err != nil {
		return 0, "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	return response.StatusCode, string(text), err
}
