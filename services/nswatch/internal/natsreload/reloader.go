package natsreload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// program is what a NATS server is called among the processes.
const program = "nats-server"

// Config says what to watch. All of it is required.
type Config struct {
	// PIDFile is where the server writes its number.
	PIDFile string
	// Dirs hold its files. Directories in them are not looked into.
	Dirs []string
	// Every is how often they are looked at. 100ms to 10m.
	Every time.Duration
}

func (c *Config) validate() error {
	var problems []error
	for _, path := range append([]string{c.PIDFile}, c.Dirs...) {
		if !filepath.IsAbs(path) {
			problems = append(problems, fmt.Errorf("%q is no absolute path", path))
		}
	}
	if len(c.Dirs) == 0 {
		problems = append(problems, errors.New("no directory to watch: name one with --watch"))
	}
	if c.Every < 100*time.Millisecond || c.Every > 10*time.Minute {
		problems = append(problems, fmt.Errorf("--every is %s, must be from 100ms to 10m", c.Every))
	}
	return errors.Join(problems...)
}

// Reloader watches for one server. Make it with New.
type Reloader struct {
	cfg  Config
	log  zerolog.Logger
	proc string

	// told is what was told last, and to whom.
	told struct {
		pid     int
		content digest
	}
	// trouble is the last that was logged, so that it is logged once.
	trouble string
}

// New checks the settings. It reads nothing and starts nothing.
func New(cfg Config, log zerolog.Logger) (*Reloader, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Reloader{cfg: cfg, log: log, proc: "/proc"}, nil
}

// Run looks until ctx ends, and returns nil then.
func (r *Reloader) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.cfg.Every)
	defer ticker.Stop()
	for {
		r.note(r.look())
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// note logs trouble when it begins or changes, and its end.
func (r *Reloader) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == r.trouble:
	case err != nil:
		r.log.Warn().Err(err).Msg("cannot tell the NATS server of changes; trying again")
	default:
		r.log.Info().Msg("can tell the NATS server of changes again")
	}
	r.trouble = text
}

// look tells the server once, if there is something to tell.
func (r *Reloader) look() error {
	content, err := digestOf(r.cfg.Dirs)
	if err != nil {
		return fmt.Errorf("read the server's files: %w", err)
	}
	pid, err := r.server()
	if err != nil {
		return err
	}
	if pid == r.told.pid && content == r.told.content {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		return fmt.Errorf("signal the NATS server, process %d: %w", pid, err)
	}
	r.log.Info().Int("pid", pid).Bool("first", pid != r.told.pid).Msg("told the NATS server to read its files")
	r.told.pid, r.told.content = pid, content
	return nil
}

// server is the number of the process, which is a NATS server.
func (r *Reloader) server() (int, error) {
	text, err := read(r.cfg.PIDFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%q is not there: the NATS server has not started", r.cfg.PIDFile)
	}
	if err != nil {
		return 0, fmt.Errorf("read the number of the NATS server: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:min(len(text), 32)])))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("%q holds no number of a process", r.cfg.PIDFile)
	}
	name, err := os.ReadFile(filepath.Join(r.proc, strconv.Itoa(pid), "comm"))
	if err != nil {
		return 0, fmt.Errorf("the NATS server, process %d, does not run, or in another process namespace", pid)
	}
	if got := strings.TrimSpace(string(name)); got != program {
		return 0, fmt.Errorf("process %d is called %q: %q is left over from before", pid, got, r.cfg.PIDFile)
	}
	return pid, nil
}
