package kubeclient

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// maxWarnings bounds the memory of warnings that were logged.
const maxWarnings = 256

// warnings logs each distinct warning of the API server (deprecated versions, mostly) once.
type warnings struct {
	log zerolog.Logger

	mu   sync.Mutex
	seen map[string]bool
}

// HandleWarningHeaderWithContext fulfils rest.WarningHandlerWithContext. Only code 299 is a warning that persists.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, code int, _ string, text string) {
	if code != 299 || text == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[text] || len(w.seen) >= maxWarnings {
		return
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[text] = true
	w.log.Warn().Str(telemetry.KeyWarning, text).Msg("the Kubernetes API server warns")
}
