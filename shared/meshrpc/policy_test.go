package meshrpc

import (
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/grpc"
)

var (
	lifecycle = Caller{name: "lifecycle"}
	nswatch   = Caller{name: "nswatch"}
	plaintext = Caller{name: PlaintextCaller}
)

func TestDecide(t *testing.T) {
	const service, method = "p.S", "/p.S/M"
	cases := map[string]struct {
		policy Policy
		caller Caller
		method string
		want   Cause
	}{
		"base":                                  {Policy{service: {"lifecycle"}}, lifecycle, method, ""},
		"one of several":                        {Policy{service: {"nswatch", "lifecycle"}}, lifecycle, method, ""},
		"by method":                             {Policy{method: {"lifecycle"}}, lifecycle, method, ""},
		"any daemon":                            {Policy{service: {AnyDaemon}}, lifecycle, method, ""},
		"plaintext by name":                     {Policy{service: {PlaintextCaller}}, plaintext, method, ""},
		"nil policy":                            {nil, lifecycle, method, CauseMethodUnlisted},
		"another service":                       {Policy{"p.T": {"lifecycle"}}, lifecycle, method, CauseMethodUnlisted},
		"another method":                        {Policy{"/p.S/N": {"lifecycle"}}, lifecycle, method, CauseMethodUnlisted},
		"a service of a longer name":            {Policy{service: {"lifecycle"}}, lifecycle, "/p.SS/M", CauseMethodUnlisted},
		"a method without slash":                {Policy{service: {"lifecycle"}}, lifecycle, "", CauseMethodUnlisted},
		"another caller":                        {Policy{service: {"nswatch"}}, lifecycle, method, CauseNotPermitted},
		"nobody listed":                         {Policy{service: {}}, lifecycle, method, CauseNotPermitted},
		"the method's entry replaces":           {Policy{service: {"lifecycle"}, method: {"nswatch"}}, lifecycle, method, CauseNotPermitted},
		"the method's entry may widen":          {Policy{service: {"nswatch"}, method: {"lifecycle"}}, lifecycle, method, ""},
		"nobody":                                {Policy{service: {AnyDaemon, PlaintextCaller}}, Caller{}, method, CauseUnauthenticated},
		"nobody on an unlisted method":          {nil, Caller{}, method, CauseUnauthenticated},
		"plaintext under any daemon":            {Policy{service: {AnyDaemon}}, plaintext, method, CausePlaintext},
		"plaintext under a daemon":              {Policy{service: {"lifecycle"}}, plaintext, method, CausePlaintext},
		"a daemon under plaintext":              {Policy{service: {PlaintextCaller}}, lifecycle, method, CauseNotPermitted},
		"plaintext on an unlisted method":       {Policy{"p.T": {PlaintextCaller}}, plaintext, method, CauseMethodUnlisted},
		"a prefix of a permitted daemon's name": {Policy{service: {"lifecycle2"}}, lifecycle, method, CauseNotPermitted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			no := c.policy.decide(c.caller, c.method)
			switch {
			case c.want == "" && no != nil:
				t.Errorf("refused: %v", no)
			case c.want != "" && (no == nil || no.cause != c.want):
				t.Errorf("decide says %v, want %s", no, c.want)
			}
		})
	}
}

// The policy against a second, naive reading of its documentation.
func TestDecideAgainstNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	services, methods := []string{"a", "b"}, []string{"X", "Y"}
	names := []string{"lifecycle", "nswatch", AnyDaemon, PlaintextCaller}
	callers := []Caller{{}, lifecycle, nswatch, plaintext}
	granted := 0
	for range 20000 {
		p := Policy{}
		for _, s := range services {
			keys := []string{s}
			for _, m := range methods {
				keys = append(keys, "/"+s+"/"+m)
			}
			for _, key := range keys {
				if r.IntN(2) == 0 {
					p[key] = []string{}
					for _, n := range names {
						if r.IntN(3) == 0 {
							p[key] = append(p[key], n)
						}
					}
				}
			}
		}
		s, m, c := services[r.IntN(2)], methods[r.IntN(2)], callers[r.IntN(4)]
		list, ok := p["/"+s+"/"+m]
		if !ok {
			list = p[s]
		}
		want := false
		for _, n := range list {
			want = want || n == c.name || n == AnyDaemon && (c == lifecycle || c == nswatch)
		}
		if got := p.decide(c, "/"+s+"/"+m) == nil; got != want {
			t.Fatalf("policy %v, %s calls %s/%s: permitted %t, want %t", p, c, s, m, got, want)
		}
		if want {
			granted++
		}
	}
	if granted == 0 {
		t.Error("no case was permitted, so nothing was compared")
	}
}

func TestPolicyValidate(t *testing.T) {
	cases := map[string]struct {
		breaks func(Policy)
		want   string
	}{
		"valid":                    {func(Policy) {}, ""},
		"empty key":                {func(p Policy) { p[""] = nil }, `policy key ""`},
		"method without service":   {func(p Policy) { p["//M"] = nil }, `policy key "//M"`},
		"service without method":   {func(p Policy) { p["/p.S/"] = nil }, `policy key "/p.S/"`},
		"method without slash":     {func(p Policy) { p["p.S/M"] = nil }, `policy key "p.S/M"`},
		"service with slash":       {func(p Policy) { p["/p.S"] = nil }, `policy key "/p.S"`},
		"too deep":                 {func(p Policy) { p["/p.S/M/N"] = nil }, `policy key "/p.S/M/N"`},
		"empty name":               {func(p Policy) { p["p.S"] = []string{""} }, "the daemon's name is empty"},
		"a whole identity":         {func(p Policy) { p["p.S"] = []string{"spiffe://portcullis/lifecycle"} }, "is no name for a daemon"},
		"a name that cannot be":    {func(p Policy) { p["p.S"] = []string{"life cycle"} }, "is no name for a daemon"},
		"all problems at one time": {func(p Policy) { p["/p.S"], p["p.T"] = nil, []string{""} }, `policy key "/p.S" is neither package.Service nor /package.Service/Method; policy for "p.T"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := Policy{"p.S": {"lifecycle", AnyDaemon, PlaintextCaller}, "/p.S/M": {}}
			c.breaks(p)
			err := p.validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("validate says %v, want %q", err, c.want)
			}
		})
	}
}

func TestPolicyMatches(t *testing.T) {
	offered := map[string]grpc.ServiceInfo{
		"p.S": {Methods: []grpc.MethodInfo{{Name: "M"}, {Name: "N"}}},
		"p.H": {Methods: []grpc.MethodInfo{{Name: "Check"}}},
	}
	cases := map[string]struct {
		policy Policy
		want   string
	}{
		"by service":       {Policy{"p.S": nil, "p.H": nil}, ""},
		"by method":        {Policy{"/p.S/M": nil, "/p.S/N": nil, "p.H": nil}, ""},
		"mixed":            {Policy{"p.S": nil, "/p.S/M": nil, "p.H": nil}, ""},
		"a method forgot":  {Policy{"/p.S/M": nil, "p.H": nil}, "method /p.S/N has no entry in the policy"},
		"a service forgot": {Policy{"p.S": nil}, "method /p.H/Check has no entry in the policy"},
		"misspelt method":  {Policy{"p.S": nil, "/p.S/m": nil, "p.H": nil}, `policy key "/p.S/m" is nothing that the server offers`},
		"misspelt service": {Policy{"p.S": nil, "p.H": nil, "p.s": nil}, `policy key "p.s" is nothing that the server offers`},
		"nil policy":       {nil, "method /p.H/Check has no entry in the policy; method /p.S/M has no entry in the policy; method /p.S/N"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := c.policy.matches(offered)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("matches says %v, want %q", err, c.want)
			}
		})
	}
}
