package embedded

import (
	"fmt"

	"github.com/rs/zerolog"
)

// bridge sends the server's log to the daemon's. Traces are dropped: they show message contents.
type bridge struct {
	log   zerolog.Logger
	fatal chan error
}

// Noticef and the others fulfil server.Logger.
func (b *bridge) Noticef(format string, v ...any) { b.log.Info().Msgf(format, v...) }

func (b *bridge) Warnf(format string, v ...any) { b.log.Warn().Msgf(format, v...) }

func (b *bridge) Errorf(format string, v ...any) { b.log.Error().Msgf(format, v...) }

func (b *bridge) Debugf(format string, v ...any) { b.log.Debug().Msgf(format, v...) }

func (b *bridge) Tracef(string, ...any) {}

// Fatalf is the server's way to report what it cannot go on with; it expects the process to end. Here Run ends, with
// the first such error. It is not logged: Run returns it.
func (b *bridge) Fatalf(format string, v ...any) {
	select {
	case b.fatal <- fmt.Errorf(format, v...):
	default:
	}
}
