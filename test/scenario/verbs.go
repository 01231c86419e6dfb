package scenario

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// verb is a command of two words.
type verb struct {
	usage       string
	least, most int // of the arguments
	do          func(p *play, ctx context.Context, args []string) (answer, error)
}

// verbs are all commands that answer.
func verbs() map[string]verb {
	return map[string]verb{
		"namespace make":   {"NAME [allowed]", 1, 2, (*play).namespaceMake},
		"namespace label":  {"NAME on|off", 2, 2, (*play).namespaceLabel},
		"namespace hold":   {"NAME", 1, 1, (*play).namespaceHold},
		"namespace unhold": {"NAME", 1, 1, (*play).namespaceUnhold},
		"namespace delete": {"NAME", 1, 1, (*play).namespaceDelete},
		"namespace state":  {"NAME", 1, 1, (*play).namespaceState},

		"workspace ensure": {"NAME", 1, 1, (*play).workspaceEnsure},
		"workspace delete": {"NAME", 1, 1, (*play).workspaceDelete},

		"sandbox create": {"BOX in WORKSPACE", 3, 3, (*play).sandboxCreate},
		"sandbox ready":  {"BOX", 1, 1, (*play).sandboxReady},
		"sandbox stop":   {"BOX", 1, 1, (*play).sandboxStop},
		"sandbox start":  {"BOX", 1, 1, (*play).sandboxStart},
		"sandbox delete": {"BOX", 1, 1, (*play).sandboxDelete},
		"sandbox phase":  {"BOX", 1, 1, (*play).sandboxPhase},
		"sandbox get":    {"BOX", 1, 1, (*play).sandboxGet},
		"sandbox list":   {"", 0, 0, (*play).sandboxList},
		"sandbox pods":   {"BOX", 1, 1, (*play).sandboxPods},
		"token exchange": {"BOX", 1, 1, (*play).tokenExchange},

		"daemon kill":   {"NAME", 1, 1, (*play).daemonKill},
		"daemon stop":   {"NAME", 1, 1, (*play).daemonStop},
		"daemon pause":  {"NAME", 1, 1, (*play).daemonPause},
		"daemon resume": {"NAME", 1, 1, (*play).daemonResume},
		"daemon run":    {"NAME", 1, 1, (*play).daemonRun},
		"daemon begin":  {"lifecycle", 1, 1, (*play).daemonBegin},
		"daemon list":   {"", 0, 0, (*play).daemonList},
		"daemon ready":  {"NAME", 1, 1, (*play).daemonReady},

		"list show":    {"", 0, 0, (*play).listShow},
		"list verify":  {"", 0, 0, (*play).listVerify},
		"list damage":  {"snapshot|heartbeat", 1, 1, (*play).listDamage},
		"list scars":   {"snapshot|heartbeat", 1, 1, (*play).listScars},
		"list write":   {"FILE", 1, 1, (*play).listWrite},
		"list replace": {"FILE", 1, 1, (*play).listReplace},
		"list mount":   {"FILE", 1, 1, (*play).listMount},
		"list remove":  {"", 0, 0, (*play).listRemove},
	}
}

// wordStart is where a word of a code begins.
var wordStart = regexp.MustCompile(`([a-z])([A-Z])`)

// codeName is a code as the contract spells it.
func codeName(code codes.Code) string {
	return strings.ToUpper(wordStart.ReplaceAllString(code.String(), "${1}_${2}"))
}

// refusals counts what lifecycle has refused, so that what comes next can be told from it.
func (p *play) refusals() int { return len(p.refused()) }

func (p *play) refused() []map[string]any {
	lifecycle := p.stage.site.Mesh.Process(mesh.Lifecycle)
	if lifecycle == nil {
		return nil
	}
	return lifecycle.Said("refused")
}

// outcome is the answer of a call. The reason is that of the newest refusal of one of the driver's calls behind the first before.
func (p *play) outcome(err error, before int, calls ...string) answer {
	if err == nil {
		return done
	}
	s := status.Convert(err)
	a := answer{word: codeName(s.Code()), message: s.Message(), refused: true}
	now := p.refused()
	for _, entry := range slices.Backward(now[min(before, len(now)):]) {
		if call, _ := entry["call"].(string); slices.Contains(calls, call) {
			a.reason, _ = entry["reason"].(string)
			break
		}
	}
	return a
}
