package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// The files that a script's last command compares: what came of its commands, and what should.
const (
	toldFile  = "told"
	storyFile = "story"
	// Ending is that command.
	Ending = "cmp " + toldFile + " " + storyFile
)

// Params are for testscript: the scripts of a directory play on the stage. update writes their stories anew.
func (s *Stage) Params(dir string, update bool) testscript.Params {
	p := testscript.Params{
		Dir: dir, UpdateScripts: update, RequireUniqueNames: true, RequireExplicitExec: true, Setup: s.setUp,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"until": until, "expect": expect, "alone": alone},
	}
	for name := range verbs() {
		noun, _, _ := strings.Cut(name, " ")
		p.Cmds[noun] = func(ts *testscript.TestScript, neg bool, args []string) {
			once(ts, neg, append([]string{noun}, args...))
		}
	}
	return p
}

// play is one script that is under way.
type play struct {
	stage  *Stage
	number int
	told   string // the path of the file
	story  strings.Builder
	work   string // where the files of the script are
	last   answer
	began  time.Time // the command that is under way

	leave func()            // the stage
	names map[string]string // of namespaces, real ones by those of the script
	spare map[string]bool   // real ones that the script made
	boxes map[string]string // ids by names
	homes map[string]string // their workspaces
	held  []string          // real namespaces
	real  normaliser
}

type playKey struct{}

func (s *Stage) setUp(env *testscript.Env) error {
	p := &play{
		stage: s, number: int(s.scripts.Add(1)), told: filepath.Join(env.WorkDir, toldFile), work: env.WorkDir,
		names: map[string]string{}, spare: map[string]bool{}, boxes: map[string]string{}, homes: map[string]string{},
	}
	p.real.stands(s.site.GatewayID, "GATEWAY")
	p.real.stands(s.site.Shared, "SHARED")
	s.turns.enter()
	p.leave = s.turns.leave
	env.Values[playKey{}] = p
	env.Defer(func() {
		defer func() { p.leave() }()
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		defer cancel()
		if err := errors.Join(s.mend(ctx), p.clear(ctx)); err != nil {
			env.T().Log(fmt.Sprintf("clear up behind the script: %v", err))
			env.T().FailNow()
		}
	})
	return nil
}

// answer is what a command came to.
type answer struct {
	word    string   // OK, a gRPC code, or what is so
	reason  string   // of a refusal, as the daemons give it
	message string   // of a refusal, as users get it
	lines   []string // further ones
	note    string   // for who looks for a fault; no part of the story
	refused bool
}

var done = answer{word: "OK"}

// is reports whether the answer is this word, or for this reason.
func (a answer) is(word string) bool { return a.word == word || a.reason == word }

func (a answer) String() string {
	text := strings.TrimSpace(a.word + " " + a.reason)
	if a.message != "" {
		text += ": " + a.message
	}
	return strings.Join(append([]string{text}, a.lines...), "\n\t")
}

// do runs a command.
func (p *play) do(ctx context.Context, words []string) (answer, error) {
	if len(words) < 2 {
		return answer{}, fmt.Errorf("%q is no command", strings.Join(words, " "))
	}
	verb, ok := verbs()[words[0]+" "+words[1]]
	if !ok {
		return answer{}, fmt.Errorf("%q is no command", words[0]+" "+words[1])
	}
	args := words[2:]
	if len(args) < verb.least || len(args) > max(verb.least, verb.most) {
		return answer{}, fmt.Errorf("usage: %s %s %s", words[0], words[1], verb.usage)
	}
	return verb.do(p, ctx, args)
}

// tell writes down what a command came to.
func (p *play) tell(ts *testscript.TestScript, line string, a answer) {
	p.last = a
	text := p.real.plain(a.String())
	ts.Logf("%s (%s)", text, time.Since(p.began).Round(10*time.Millisecond))
	if a.note != "" {
		ts.Logf("%s", a.note)
	}
	fmt.Fprintf(&p.story, "> %s\n\t%s\n", line, text)
	ts.Check(os.WriteFile(p.told, []byte(p.story.String()), 0o600))
}

func of(ts *testscript.TestScript) *play { return ts.Value(playKey{}).(*play) }

func once(ts *testscript.TestScript, neg bool, words []string) {
	p := of(ts)
	p.began = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, err := p.do(ctx, words)
	if err != nil {
		ts.Fatalf("%v", err)
	}
	p.tell(ts, strings.Join(words, " "), a)
	switch {
	case a.refused && !neg:
		ts.Fatalf("it was refused: %s", a)
	case !a.refused && neg:
		ts.Fatalf("it was not refused: %s", a)
	}
}

// until tells only the last answer: how often it must ask is chance.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until ANSWER COMMAND")
	}
	p := of(ts)
	p.began = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for last := "none"; ; {
		a, err := p.do(ctx, args[1:])
		switch {
		case err == nil && a.is(args[0]):
			p.tell(ts, "until "+strings.Join(args, " "), a)
			return
		case err != nil:
			last = err.Error()
		case ctx.Err() == nil: // else it is the end of the time that was answered
			last = a.String()
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("not within %s; the last answer: %s", patience, last)
		case <-time.After(lookAgain):
		}
	}
}

// alone is a script's first command, before it has done anything.
func alone(ts *testscript.TestScript, neg bool, args []string) {
	p := of(ts)
	if neg || len(args) > 0 || len(p.names) > 0 {
		ts.Fatalf("usage: alone, as the first command")
	}
	p.stage.turns.aside()
	p.leave = p.stage.turns.back
}

func expect(ts *testscript.TestScript, neg bool, args []string) {
	p := of(ts)
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: expect CODE [REASON]")
	}
	if p.last.word != args[0] || len(args) == 2 && p.last.reason != args[1] {
		ts.Fatalf("the answer was: %s", p.last)
	}
}

// namespace is the real name of a namespace of the script.
func (p *play) namespace(name string) string {
	if actual, known := p.names[name]; known {
		return actual
	}
	actual := fmt.Sprintf("s%d-%s", p.number, name)
	if p.stage.site.Mode == "operator" {
		actual = p.stage.prefix + actual
	}
	p.names[name] = actual
	p.real.stands(actual, name)
	return actual
}

// box is the id of a sandbox of the script.
func (p *play) box(name string) (string, error) {
	if id, ok := p.boxes[name]; ok {
		return id, nil
	}
	return "", fmt.Errorf("the script has made no sandbox %q", name)
}

// clear removes what the script made.
func (p *play) clear(ctx context.Context) error {
	var problems []error
	for _, namespace := range slices.Clone(p.held) {
		problems = append(problems, p.unhold(ctx, namespace))
	}
	for _, id := range p.boxes {
		problems = append(problems, p.deleteBox(ctx, id))
	}
	for namespace := range p.spare {
		problems = append(problems, p.deleteNamespace(ctx, namespace))
	}
	return errors.Join(problems...)
}
