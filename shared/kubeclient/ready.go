package kubeclient

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// maxAnswer is how much of an answer is read for its reason, bytes.
const maxAnswer = 4 << 10

// Ready is a readiness check: nil when the API server answers /readyz to our credentials with 200. It does not wait
// for the rate limiter and ends with ctx or CallTimeout. "Refused" and "could not ask" are different texts.
func (c *Clients) Ready(ctx context.Context) error {
	target := c.server.JoinPath("readyz").String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return fmt.Errorf("kubernetes API %s: %w", c.server, err)
	}
	resp, err := c.Calls.http.Do(req)
	if err != nil {
		return fmt.Errorf("kubernetes API could not be asked: %w", pemfile.OneLine(err))
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized:
		return fmt.Errorf("kubernetes API %s does not accept our credentials (%s): it answered 401", c.server, c.from)
	case http.StatusForbidden:
		return fmt.Errorf("kubernetes API %s knows us (%s) but does not permit get on /readyz: it answered 403", c.server, c.from)
	default:
		return fmt.Errorf("kubernetes API %s is not ready: it answered %d: %s", c.server, resp.StatusCode, reason(resp.Body))
	}
}

// reason is the failing checks in the answer of /readyz, or else its beginning, on one line.
func reason(body io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(body, maxAnswer)) // what came is what there is to tell
	var failing []string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "[-]"); ok {
			failing = append(failing, strings.TrimSpace(name))
		}
	}
	if len(failing) > 0 {
		return strings.Join(failing, "; ")
	}
	line := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "?")), " ")
	return line[:min(len(line), 200)]
}
