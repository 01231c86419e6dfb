package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNeeds: with the shipped files everybody can do what they must.
func TestNeeds(t *testing.T) {
	t.Parallel()
	for _, name := range slices.Concat(slices.Collect(maps.Keys(empty)), slices.Collect(maps.Keys(filled))) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, do, err := prepared(t, name, single(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := b.do(t.Context(), do); err != nil {
				t.Error(err)
			}
		})
	}
}

// prepared is a server of these files on which a need begins. The error is why it does not start.
func prepared(t *testing.T, name string, f files) (*broker, need, error) {
	t.Helper()
	if do := filled[name]; do != nil {
		b, err := stocked(t, f)
		return b, do, err
	}
	if empty[name] == nil {
		t.Fatalf("there is no need %q", name)
	}
	b := newBroker(t)
	return b, empty[name], b.run(f)
}

// TestRights: what the files grant is what the table has, to the last subject.
func TestRights(t *testing.T) {
	t.Parallel()
	for _, problem := range againstTheTable(t, single(t)) {
		t.Error(problem)
	}
	used := map[string]bool{}
	for _, needs := range rights() {
		for _, n := range needs {
			used[n] = true
		}
	}
	for name := range filled {
		if !used[name] {
			t.Errorf("no right is there for: %s", name)
		}
	}
}

// againstTheTable says how what the files grant is not what the table has.
func againstTheTable(t *testing.T, f files) (problems []string) {
	t.Helper()
	found, err := rightsOf(tree(t, f))
	if err != nil {
		return []string{err.Error()}
	}
	want, bounds := rights(), rest()
	for _, r := range found {
		if _, known := want[r]; !known && !bounds[r] {
			problems = append(problems, "accounts.conf grants what nobody needs: "+r.String())
		}
		delete(want, r)
		delete(bounds, r)
	}
	for r := range want {
		problems = append(problems, "accounts.conf lacks: "+r.String())
	}
	for r := range bounds {
		problems = append(problems, "accounts.conf lacks: "+r.String())
	}
	return problems
}

// TestChangedRightsAreNoticed: each of these changes of accounts.conf makes TestRights fail.
func TestChangedRightsAreNoticed(t *testing.T) {
	t.Parallel()
	const inbox = `"_INBOX.>"`
	for name, c := range map[string]struct{ old, text, says string }{
		"a subject more to publish to":  {"              $ALLOWLIST_HEARTBEAT\n", "              $ALLOWLIST_HEARTBEAT\n \"$KV.>\"\n", "grants what nobody needs: NSWATCH publish $KV.>"},
		"a wider subject":               {"              $ALLOWLIST_HEARTBEAT\n", " \"$KV.portcullis_allowlist.*.heartbeat\"\n", "grants what nobody needs: NSWATCH publish"},
		"a subject less":                {"              $ALLOWLIST_HEARTBEAT\n", "", "lacks: NSWATCH publish"},
		"a subject more to listen on":   {inbox, inbox + "\n\">\"", "subscribe >"},
		"another inbox":                 {inbox, `"_INBOX_other.>"`, "lacks: NSWATCH subscribe"},
		"nothing is allowed, so all is": {inbox, "", "allows everything"},
		"a list of what is denied":      {"            allow: [\n              " + inbox, "            deny: [\n              " + inbox, "want a list of what is allowed"},
		"answers to all who ask":        {"        permissions {", "        permissions { allow_responses: true", "want an nkey and what it may"},
		"a user without permissions":    {"users: [", "users: [ { nkey: $OPERATOR_NKEY } ", "want an nkey and what it may"},
		"a user with a password":        {"nkey: $GATEWAY_NKEY", "user: a, password: b", "want an nkey and what it may"},
		"permissions for all users":     {"  GATEWAY {", "  GATEWAY { default_permissions { publish: \">\" }", "nothing here knows"},
		"a stream's account has a user": {"  AUDIT {", "  AUDIT { users: [ { nkey: $OPERATOR_NKEY, permissions { publish { allow: [\"$JS.API.>\"] }, subscribe { allow: [\">\"] } } } ]", "grants what nobody needs: AUDIT publish"},
		"another account":               {"  SYS {}", "  SYS {}\n  OTHER { users: [ { nkey: $OPERATOR_NKEY, permissions { publish { allow: [x] }, subscribe { allow: [x] } } } ] }", "OTHER publish x"},
		"somebody among the servers":    {"  SYS {}", "  SYS { users: [ { nkey: $OPERATOR_NKEY, permissions { publish { allow: [x] }, subscribe { allow: [x] } } } ] }", "SYS publish x"},
		"another system account":        {"system_account: SYS", "system_account: OPERATOR", "lacks: the server has the system account SYS"},
		"an account for nobody":         {"system_account: SYS", "system_account: SYS\nno_auth_user: x", "no_auth_user"},
		"an export for everybody":       {"{ service: $AUDIT_TOKENAUTH, accounts: [TOKENAUTH] }", "{ service: $AUDIT_TOKENAUTH }", "want what and to which accounts"},
		"an export to one more":         {"{ service: $AUDIT_TOKENAUTH, accounts: [TOKENAUTH] }", "{ service: $AUDIT_TOKENAUTH, accounts: [TOKENAUTH, GATEWAY] }", "to GATEWAY"},
		"an export with another answer": {"response_type: Stream, ", "response_type: Chunked, ", "want what and to which accounts"},
		"an import under another name":  {`to: "portcullis.js.STREAM.INFO.PORTCULLIS_AUDIT"`, `to: "mine"`, "as mine"},
		"an import shared":              {"{ service: { account: AUDIT, subject: $AUDIT_TOKENAUTH } }", "{ service: { account: AUDIT, subject: $AUDIT_TOKENAUTH }, share: true }", "nothing here knows"},
		"a mapping":                     {"  GATEWAY {", "  GATEWAY { mappings: { a: b }", "nothing here knows"},
		"room for another stream":       {"max_streams: 1", "max_streams: 2", "max_streams 2"},
		"any number of connections":     {"    limits { max_connections: 16 }\n", "", "lacks: NSWATCH has the limit max_connections 16"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if said := strings.Join(againstTheTable(t, single(t).with(t, "accounts.conf", c.old, c.text)), "\n"); !strings.Contains(said, c.says) {
				t.Errorf("it says %q, want %q", said, c.says)
			}
		})
	}
}

// TestEachRightIsNeeded takes the rights away one after the other. What it is there for cannot be done then.
func TestEachRightIsNeeded(t *testing.T) {
	t.Parallel()
	for r, needs := range rights() {
		if len(needs) == 0 {
			t.Errorf("nothing needs: %s", r)
		}
		for _, name := range needs {
			t.Run(r.String(), func(t *testing.T) {
				t.Parallel()
				b, do, err := prepared(t, name, without(t, r))
				if err != nil {
					if strings.HasPrefix(r.verb, "exports") {
						return // who imports what is not exported does not start
					}
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), enough)
				defer cancel()
				if err := b.do(ctx, do); err == nil {
					t.Errorf("without it it still happens that %s", name)
				}
			})
		}
	}
}

// enough is more than any of the needs takes, when it can be met, by far. Most of what cannot be done ends at once: the server says
// no, or that nobody answers.
const enough = 8 * time.Second

// without is the shipped files with one right taken out.
func without(t *testing.T, r right) files {
	t.Helper()
	f := single(t)
	parsed := tree(t, f)
	before, err := rightsOf(parsed)
	if err != nil {
		t.Fatal(err)
	}
	account := parsed["accounts"].(map[string]any)[r.account].(map[string]any)
	switch {
	case r.verb == "publish", r.verb == "subscribe":
		user := account["users"].([]any)[0].(map[string]any)
		allowed := user["permissions"].(map[string]any)[r.verb].(map[string]any)
		list := slices.DeleteFunc(slices.Clone(allowed["allow"].([]any)), func(s any) bool { return s == r.subject })
		allowed["allow"] = append(list, "nothing") // an empty list allows everything
	case strings.HasPrefix(r.verb, "imports"):
		account["imports"] = slices.DeleteFunc(account["imports"].([]any), func(i any) bool {
			of, err := importRights(r.account, i.(map[string]any))
			return err == nil && of[0] == r
		})
	default:
		subject, to, _ := strings.Cut(r.subject, " to ")
		for _, e := range account["exports"].([]any) {
			if export := e.(map[string]any); export["service"] == subject || export["stream"] == subject {
				export["accounts"] = slices.DeleteFunc(export["accounts"].([]any), func(a any) bool { return a == to })
				if len(export["accounts"].([]any)) == 0 {
					export["accounts"] = []any{"SYS"} // an empty list is for everybody
				}
			}
		}
	}
	after, err := rightsOf(parsed)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(after, r) || len(after) > len(before) {
		t.Fatalf("%s cannot be taken out", r)
	}
	for name := range parsed {
		if name != "accounts" && name != "system_account" {
			delete(parsed, name) // variables, which are in place
		}
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // the server's JSON has no \u
	if err := encoder.Encode(parsed); err != nil {
		t.Fatal(err)
	}
	f = maps.Clone(f)
	f["accounts.conf"] = text.String()
	return f
}

// TestTakingNothingOut: the way in which without writes the files changes nothing.
func TestTakingNothingOut(t *testing.T) {
	t.Parallel()
	f := without(t, right{"OPERATOR", "publish", parts.Replace("$JS.FC.{bucket}.>")})
	f["accounts.conf"] = strings.Replace(f["accounts.conf"], `"nothing"`, fmt.Sprintf("%q", parts.Replace("$JS.FC.{bucket}.>")), 1)
	for name, do := range filled {
		b, err := stocked(t, f)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.do(t.Context(), do); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b.stop()
	}
}
