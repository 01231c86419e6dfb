package explanation_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/explanation"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func refusal() explanation.Report {
	steps := authenticate.Steps()
	return explanation.New(
		authenticate.Result{
			Decision: verdict.Refuse(verdict.PodNotFound, "pod.found", "Pod \"x\nforged\x1b[2J\" does not exist"),
			// Not shown: only a grant has an answer.
			SandboxID: "box",
		},
		[]authenticate.Finding{
			{Step: steps[0], Outcome: authenticate.Passed, Evidence: "900 bytes"},
			{Step: steps[1], Outcome: authenticate.Refused, Evidence: "a\tb\nc"},
			{Step: steps[2], Outcome: authenticate.NotReached},
		}, 1500*time.Microsecond)
}

func TestTableIsOneLineForEachStep(t *testing.T) {
	var b strings.Builder
	if err := explanation.WriteTable(&b, refusal()); err != nil {
		t.Fatal(err)
	}
	const want = `STEP                CHECK  OUTCOME      EVIDENCE
request.credential  1      passed       900 bytes
request.size        -      refused      a b c
request.gateway     -      not reached  

outcome           denied
reason            pod_not_found
step              pod.found
explanation       Pod "x forged [2J" does not exist
caller gets       PermissionDenied sandbox credential was not accepted
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestTroubleWithTheListIsTold: in one line, whatever it says.
func TestTroubleWithTheListIsTold(t *testing.T) {
	r := refusal()
	r.AllowlistTrouble = "unsynced:\nnot connected"
	var table, text strings.Builder
	if err := errors.Join(explanation.WriteTable(&table, r), explanation.WriteJSON(&text, r)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "\nlist trouble      unsynced: not connected\n") || !strings.Contains(text.String(), `"allowlist_trouble": "unsynced:\nnot connected"`) {
		t.Errorf("%s%s", table.String(), text.String())
	}
}

func TestJSONKeepsWhatTheTableCannotShow(t *testing.T) {
	var b strings.Builder
	if err := explanation.WriteJSON(&b, refusal()); err != nil {
		t.Fatal(err)
	}
	var got explanation.Report
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Outcome != "denied" || got.SandboxID != "" || got.DurationMS != 1.5 || len(got.Steps) != 3 || got.Steps[0].Contract != 1 || got.Steps[1].Evidence != "a\tb\nc" {
		t.Errorf("%+v", got)
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("nobody takes it") }

func TestAWriterThatFailsIsAnError(t *testing.T) {
	if explanation.WriteTable(closed{}, refusal()) == nil || explanation.WriteJSON(closed{}, refusal()) == nil {
		t.Error("it is not noticed")
	}
}
