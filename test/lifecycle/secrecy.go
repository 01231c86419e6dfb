package lifecycle

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// guarded are texts of which nothing may stand in what a daemon writes. Safe for concurrent use.
type guarded struct {
	mu     sync.Mutex
	pieces map[string]string // what each is a piece of
}

// add keeps both ends of a text; of a token the header is no secret. False says that it is too short to be nowhere by chance.
func (g *guarded) add(what, text string) bool {
	const least, piece = 12, 24
	if _, body, token := strings.Cut(text, "."); token {
		text = body
	}
	if len(text) < least {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pieces == nil {
		g.pieces = map[string]string{}
	}
	n := min(len(text), piece)
	g.pieces[text[:n]], g.pieces[text[len(text)-n:]] = what, what
	return true
}

// addBundle keeps the tokens of a launch bundle, and how it begins and ends in every form in which bytes are written.
func (g *guarded) addBundle(bundle []byte) error {
	var has struct {
		Supervisor struct {
			Gateway string `json:"gateway_token"`
			Sandbox string `json:"sandbox_token"`
		} `json:"supervisor"`
	}
	if err := json.Unmarshal(bundle, &has); err != nil {
		return fmt.Errorf("read a launch bundle: %w", err)
	}
	const some = 16
	if !g.add("a gateway's token", has.Supervisor.Gateway) || !g.add("a sandbox's token", has.Supervisor.Sandbox) ||
		!g.add("a launch bundle, in base64", base64.StdEncoding.EncodeToString(bundle)) ||
		!g.add("a launch bundle, as numbers", strings.Trim(fmt.Sprint(bundle[:some]), "[]")) {
		return errors.New("a launch bundle without tokens")
	}
	return nil
}

// found says what is in a log, each with its line.
func (g *guarded) found(log []byte) (all []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for piece, what := range g.pieces {
		if at := bytes.Index(log, []byte(piece)); at >= 0 {
			line, _, _ := bytes.Cut(log[bytes.LastIndexByte(log[:at], '\n')+1:], []byte("\n"))
			all = append(all, fmt.Sprintf("a piece of %s: %s", what, line))
		}
	}
	return all
}

// Guard adds a text, of which nothing may stand in any log when the site ends; what says what it is. It must be a text that is nowhere by
// chance. Safe for concurrent use.
func (s *Site) Guard(what, text string) {
	if !s.guarded.add(what, text) {
		s.t.Helper()
		s.t.Fatalf("%s is too short to be looked for in a log", what)
	}
}

// demandSecrecy fails the test when a daemon, or NATS, has written a piece of what is guarded, or of what a daemon itself shows to the API server.
func (s *Site) demandSecrecy() {
	s.t.Helper()
	tokens, _ := filepath.Glob(filepath.Join(s.dir, "*", "token")) // the pattern is good
	for _, path := range tokens {
		token, err := os.ReadFile(path)
		s.must("read a daemon's token", err)
		s.Guard("the token of "+filepath.Base(filepath.Dir(path)), string(token))
	}
	logs, _ := filepath.Glob(filepath.Join(s.dir, "*", "*.log"))
	if len(logs) == 0 || len(tokens) == 0 {
		s.t.Errorf("there are %d logs and %d tokens of daemons", len(logs), len(tokens))
	}
	for _, path := range logs {
		log, err := os.ReadFile(path)
		if err != nil {
			s.t.Errorf("read a log: %v", err)
		}
		for _, piece := range s.guarded.found(log) {
			s.t.Errorf("%s has %s", filepath.Base(path), piece)
		}
	}
}
