package broker_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/conf"
)

// right is one thing that accounts.conf grants: to a user to publish or to subscribe, to accounts to import, or to an account that it
// imports. It is what the file says, written in one way.
type right struct {
	account, verb, subject string
}

func (r right) String() string { return r.account + " " + r.verb + " " + r.subject }

// tree is accounts.conf as the server reads it: variables replaced, identities included.
func tree(t testing.TB, f files) map[string]any {
	t.Helper()
	dir := t.TempDir()
	f.write(t, dir)
	parsed, err := conf.ParseFile(dir + "/accounts.conf")
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// rightsOf lists everything that a parsed accounts.conf grants. Whatever it does not know is an error: it might grant something.
func rightsOf(parsed map[string]any) (rights []right, err error) {
	for _, name := range slices.Sorted(maps.Keys(parsed)) {
		switch {
		case name == "system_account":
			rights = append(rights, right{"the server", "has the system account", fmt.Sprint(parsed[name])})
		case name == "accounts":
		case name == strings.ToUpper(name): // a variable
		default:
			return nil, fmt.Errorf("accounts.conf has %q, which nothing here knows", name)
		}
	}
	accounts, _ := parsed["accounts"].(map[string]any)
	for _, account := range slices.Sorted(maps.Keys(accounts)) {
		of, err := accountRights(account, accounts[account].(map[string]any))
		if err != nil {
			return nil, fmt.Errorf("account %s: %w", account, err)
		}
		rights = append(rights, of...)
	}
	return rights, nil
}

func accountRights(account string, parsed map[string]any) (rights []right, err error) {
	for _, part := range slices.Sorted(maps.Keys(parsed)) {
		switch part {
		case "jetstream", "limits":
			limits := parsed[part].(map[string]any)
			for _, limit := range slices.Sorted(maps.Keys(limits)) {
				rights = append(rights, right{account, "has the limit " + limit, fmt.Sprint(limits[limit])})
			}
		case "users", "exports", "imports":
			for _, item := range parsed[part].([]any) {
				of, err := itemRights(account, part, item.(map[string]any))
				if err != nil {
					return nil, err
				}
				rights = append(rights, of...)
			}
		default:
			return nil, fmt.Errorf("it has %q, which nothing here knows", part)
		}
	}
	return rights, nil
}

func itemRights(account, part string, item map[string]any) ([]right, error) {
	switch part {
	case "users":
		return userRights(account, item)
	case "exports":
		return exportRights(account, item)
	default:
		return importRights(account, item)
	}
}

func userRights(account string, user map[string]any) (rights []right, err error) {
	permissions, _ := user["permissions"].(map[string]any)
	if len(user) != 2 || len(permissions) != 2 || user["nkey"] == nil {
		return nil, fmt.Errorf("a user is %v, want an nkey and what it may publish and subscribe to", user)
	}
	for _, verb := range []string{"publish", "subscribe"} {
		allowed, _ := permissions[verb].(map[string]any)
		subjects, _ := allowed["allow"].([]any)
		if len(allowed) != 1 || len(subjects) == 0 {
			return nil, fmt.Errorf("a user may %s %v, want a list of what is allowed, which is not empty: that allows everything", verb, permissions[verb])
		}
		for _, subject := range subjects {
			rights = append(rights, right{account, verb, fmt.Sprint(subject)})
		}
	}
	return rights, nil
}

func exportRights(account string, export map[string]any) ([]right, error) {
	export = maps.Clone(export)
	verb := "exports"
	if export["response_type"] == "Stream" {
		verb = "exports with many answers"
		delete(export, "response_type")
	}
	subject := export["service"]
	if export["stream"] != nil {
		verb, subject = "exports messages of", export["stream"]
	}
	to, _ := export["accounts"].([]any)
	if len(export) != 2 || len(to) == 0 {
		return nil, fmt.Errorf("an export is %v, want what and to which accounts", export)
	}
	var rights []right
	for _, account2 := range to {
		rights = append(rights, right{account, verb, fmt.Sprintf("%v to %v", subject, account2)})
	}
	return rights, nil
}

func importRights(account string, imported map[string]any) ([]right, error) {
	verb := "imports"
	from, _ := imported["service"].(map[string]any)
	if from == nil {
		verb = "imports messages of"
		from, _ = imported["stream"].(map[string]any)
	}
	what := fmt.Sprintf("%v of %v", from["subject"], from["account"])
	switch to := imported["to"]; {
	case len(from) != 2 || len(imported) > 2:
		return nil, fmt.Errorf("an import is %v, which nothing here knows", imported)
	case to != nil:
		what += fmt.Sprintf(" as %v", to)
	case len(imported) != 1:
		return nil, fmt.Errorf("an import is %v, which nothing here knows", imported)
	}
	return []right{{account, verb, what}}, nil
}
