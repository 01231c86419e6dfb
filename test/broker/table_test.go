package broker_test

import (
	"fmt"
	"strings"
)

// Parts of subjects, as the table writes them.
var parts = strings.NewReplacer(
	"{kv}", "$KV.portcullis_allowlist", "{bucket}", "KV_portcullis_allowlist", "{events}", "PORTCULLIS_AUDIT", "{gw}", gatewayID,
	"{js}", apiPrefix, "{api}", "$JS.API",
)

// grant is one way from an identity to what it needs: the subject on which it asks, and from which account that comes. An import
// and an export belong to it.
type grant struct {
	asks string // what the identity publishes to, or subscribes to
	from string // the account; empty for an inbox
	// of is the subject there; that of the import too. Empty is asks.
	of string
	// needs are what cannot be done without it.
	needs []string
}

// identity is one user, who has an account alone.
type identity struct {
	name       string
	publishes  []grant
	subscribes []grant
}

// asked is a request of the JetStream API, which everybody makes under one prefix.
func asked(from, endpoint string, needs ...string) grant {
	return grant{asks: "{js}." + endpoint, from: from, of: "{api}." + endpoint, needs: needs}
}

// reader is what all do that read the list of one gateway.
func reader(name string, more ...grant) identity {
	reads, removes := name+" reads the list", name+" removes its consumer"
	return identity{name: name, publishes: append([]grant{
		// The right is for one gateway, the import for all of them.
		{"{js}.CONSUMER.CREATE.{bucket}.*.{kv}.{gw}.*", "ALLOWLIST", "{api}.CONSUMER.CREATE.{bucket}.*.{kv}.>", []string{reads}},
		asked("ALLOWLIST", "CONSUMER.MSG.NEXT.{bucket}.*", reads),
		asked("ALLOWLIST", "CONSUMER.DELETE.{bucket}.*", removes),
	}, more...), subscribes: []grant{{asks: "_INBOX.>", needs: []string{reads}}}}
}

// table is who may do what, and what for. It is the whole: a right that is not here fails TestRights.
func table() []identity {
	const makesBucket, makesEvents = "bootstrap makes the bucket", "bootstrap makes the audit stream and raises a bound"
	return []identity{
		{"nswatch", []grant{
			{asks: "{kv}.{gw}.snapshot", from: "ALLOWLIST", needs: []string{"nswatch writes the snapshot"}},
			{asks: "{kv}.{gw}.heartbeat", from: "ALLOWLIST", needs: []string{"nswatch writes the heartbeat"}},
			asked("ALLOWLIST", "STREAM.MSG.GET.{bucket}", "nswatch reads what the leader of the stream has"),
		}, []grant{{asks: "_INBOX.>", needs: []string{"nswatch writes the snapshot"}}}},
		{"bootstrap", []grant{
			asked("ALLOWLIST", "STREAM.INFO.{bucket}", makesBucket),
			asked("ALLOWLIST", "STREAM.CREATE.{bucket}", makesBucket),
			asked("AUDIT", "STREAM.INFO.{events}", makesEvents),
			asked("AUDIT", "STREAM.CREATE.{events}", makesEvents),
			asked("AUDIT", "STREAM.UPDATE.{events}", makesEvents),
		}, []grant{{asks: "_INBOX.>", needs: []string{makesBucket}}}},
		reader("tokenauth", grant{asks: "portcullis.audit.{gw}.tokenauth", from: "AUDIT", needs: []string{"tokenauth tells of a decision"}}),
		reader("lifecycle"),
		reader("gateway"),
		{"operator", []grant{
			asked("ALLOWLIST", "STREAM.INFO.{bucket}", "operator gets a key"),
			asked("ALLOWLIST", "STREAM.MSG.GET.{bucket}", "operator sees the newest as the leader of the stream has it"),
			asked("ALLOWLIST", "DIRECT.GET.{bucket}", "operator gets a revision"),
			asked("ALLOWLIST", "DIRECT.GET.{bucket}.{kv}.>", "operator gets a key"),
			asked("ALLOWLIST", "CONSUMER.CREATE.{bucket}.*.{kv}.>", "operator lists the keys"),
			asked("ALLOWLIST", "CONSUMER.MSG.NEXT.{bucket}.*", "operator reads the list"),
			asked("ALLOWLIST", "CONSUMER.DELETE.{bucket}.*", "operator removes a consumer of the list"),
			{asks: "$JS.FC.{bucket}.>", from: "ALLOWLIST", needs: []string{"operator reads the history"}},
			asked("AUDIT", "STREAM.INFO.{events}", "operator looks at the audit stream"),
			asked("AUDIT", "STREAM.MSG.GET.{events}", "operator gets an event"),
			asked("AUDIT", "CONSUMER.CREATE.{events}.*.portcullis.audit.>", "operator follows the events"),
			asked("AUDIT", "CONSUMER.MSG.NEXT.{events}.*", "operator follows the events"),
			asked("AUDIT", "CONSUMER.DELETE.{events}.*", "operator removes a consumer of events"),
		}, []grant{{asks: "portcullis.deliver.>", from: "ALLOWLIST", needs: []string{"operator lists the keys"}}}},
	}
}

// rest are the rights that are nobody's: bounds, and the account of the servers.
func rest() map[right]bool {
	bounds := map[right]bool{
		{"ALLOWLIST", "has the limit max_mem", "0"}:          true,
		{"ALLOWLIST", "has the limit max_file", "536870912"}: true, // far more than the bucket ever holds, so that a removal can always be stored
		{"ALLOWLIST", "has the limit max_streams", "1"}:      true,
		{"ALLOWLIST", "has the limit max_consumers", "200"}:  true,
		{"AUDIT", "has the limit max_mem", "0"}:              true,
		{"AUDIT", "has the limit max_file", "1073741824"}:    true,
		{"AUDIT", "has the limit max_streams", "1"}:          true,
		{"AUDIT", "has the limit max_consumers", "50"}:       true,
		{"the server", "has the system account", "SYS"}:      true,
	}
	for account, most := range connections {
		bounds[right{account, "has the limit max_connections", fmt.Sprint(most)}] = true
	}
	return bounds
}

// connections are how many each account may have, on all servers together.
var connections = map[string]int{"NSWATCH": 16, "BOOTSTRAP": 8, "TOKENAUTH": 64, "LIFECYCLE": 64, "GATEWAY": 64, "OPERATOR": 16}

// rights are those of the table, each with what cannot be done without it.
func rights() map[right][]string {
	all := map[right][]string{}
	for _, who := range table() {
		account := strings.ToUpper(who.name)
		add := func(verb string, g grant) {
			asks, of := parts.Replace(g.asks), parts.Replace(g.of)
			all[right{account, verb, asks}] = g.needs
			if g.from == "" {
				return
			}
			kind, as := "", ""
			switch {
			case verb == "subscribe":
				kind, of = " messages of", asks
			case of == "":
				of = asks
			default:
				as = " as " + apiPrefix + strings.TrimPrefix(of, "$JS.API")
			}
			all[right{account, "imports" + kind, of + " of " + g.from + as}] = g.needs
			if strings.Contains(of, "MSG.NEXT") {
				kind = " with many answers"
			}
			all[right{g.from, "exports" + kind, of + " to " + account}] = g.needs
		}
		for _, g := range who.publishes {
			add("publish", g)
		}
		for _, g := range who.subscribes {
			add("subscribe", g)
		}
	}
	return all
}
