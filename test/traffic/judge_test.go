package traffic_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/portcullis-mesh/portcullis/test/traffic"
)

const (
	id       = "3d7c"
	identity = "kubernetes://team/cr/pod"
)

// good is an answer to each call with which nothing is wrong.
func good() map[traffic.Call]traffic.Request {
	yes := traffic.Attempt{Sandbox: id, Identity: identity, Deleted: true}
	all := map[traffic.Call]traffic.Request{}
	for _, call := range []traffic.Call{
		traffic.Capabilities, traffic.Validate, traffic.Create, traffic.Start, traffic.Stop, traffic.Delete, traffic.Get, traffic.List, traffic.Watch,
		traffic.Authenticate,
	} {
		all[call] = traffic.Request{Call: call, Sandbox: id, Standing: traffic.Allowed, Identity: identity, Attempts: []traffic.Attempt{yes}}
	}
	return all
}

func refusal(code codes.Code) traffic.Attempt { return traffic.Attempt{Code: code, Message: "because"} }

// before is the request with attempts that came before its own.
func before(r traffic.Request, attempts ...traffic.Attempt) traffic.Request {
	r.Attempts = append(attempts, r.Attempts...)
	return r
}

// instead is the request with attempts instead of its own.
func instead(r traffic.Request, attempts ...traffic.Attempt) traffic.Request {
	r.Attempts = attempts
	return r
}

func barred(r traffic.Request) traffic.Request {
	r.Standing = traffic.Barred
	return r
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for call, r := range good() {
		if found := traffic.Judge([]traffic.Request{r}); len(found) > 0 {
			t.Errorf("%s, well answered: %v", call, found)
		}
	}
	unavailable := refusal(codes.Unavailable)
	cut := unavailable
	cut.Took, cut.Message = traffic.Finished+1, "received prior goaway: graceful_stop"
	late := unavailable
	late.Took = cut.Took
	for name, c := range map[string]struct {
		of     traffic.Call
		damage func(traffic.Request) traffic.Request
		want   []traffic.Kind
	}{
		"a token exchange for a barred namespace":          {traffic.Authenticate, barred, []traffic.Kind{traffic.WrongGrant}},
		"a create in a barred namespace":                   {traffic.Create, barred, []traffic.Kind{traffic.WrongGrant}},
		"a start in a barred namespace":                    {traffic.Start, barred, []traffic.Kind{traffic.WrongGrant}},
		"a get in a barred namespace is answered":          {traffic.Get, barred, nil},
		"a stop in a barred namespace is done":             {traffic.Stop, barred, nil},
		"a namespace of unknown standing counts as barred": {traffic.Create, func(r traffic.Request) traffic.Request { r.Standing = 0; return r }, []traffic.Kind{traffic.WrongGrant}},
		"a grant among refusals is still one":              {traffic.Authenticate, func(r traffic.Request) traffic.Request { return before(barred(r), unavailable) }, []traffic.Kind{traffic.WrongGrant}},
		"a barred bearer is refused":                       {traffic.Authenticate, func(r traffic.Request) traffic.Request { return instead(barred(r), refusal(codes.PermissionDenied)) }, nil},
		"a barred bearer is refused as nobody knows":       {traffic.Authenticate, func(r traffic.Request) traffic.Request { return instead(barred(r), unavailable) }, nil},
		"a barred create is refused":                       {traffic.Create, func(r traffic.Request) traffic.Request { return instead(barred(r), refusal(codes.FailedPrecondition)) }, nil},
		"a barred create is refused, and leaves something": {traffic.Create, func(r traffic.Request) traffic.Request {
			r.Left = []string{"Pod x"}
			return instead(barred(r), refusal(codes.FailedPrecondition))
		}, []traffic.Kind{traffic.Left}},
		"a bearer that is good is refused":                     {traffic.Authenticate, func(r traffic.Request) traffic.Request { return before(r, refusal(codes.PermissionDenied)) }, []traffic.Kind{traffic.WrongNo}},
		"a bearer that is good is not known":                   {traffic.Authenticate, func(r traffic.Request) traffic.Request { return before(r, refusal(codes.Unauthenticated)) }, []traffic.Kind{traffic.WrongNo}},
		"a get that says it is not there":                      {traffic.Get, func(r traffic.Request) traffic.Request { return before(r, refusal(codes.NotFound)) }, []traffic.Kind{traffic.WrongNo}},
		"a get that succeeds when it is made again":            {traffic.Get, func(r traffic.Request) traffic.Request { return before(r, unavailable, unavailable) }, nil},
		"a get that never succeeds":                            {traffic.Get, func(r traffic.Request) traffic.Request { return instead(r, unavailable, unavailable) }, []traffic.Kind{traffic.Lost}},
		"a get about another":                                  {traffic.Get, func(r traffic.Request) traffic.Request { r.Attempts[0].Sandbox = "other"; return r }, []traffic.Kind{traffic.Identity}},
		"a get of an odd code":                                 {traffic.Get, func(r traffic.Request) traffic.Request { return before(r, refusal(codes.Aborted)) }, []traffic.Kind{traffic.Unlawful}},
		"a get that is unimplemented":                          {traffic.Get, func(r traffic.Request) traffic.Request { return before(r, refusal(codes.Unimplemented)) }, []traffic.Kind{traffic.Unlawful}},
		"a get whose error is internal":                        {traffic.Get, func(r traffic.Request) traffic.Request { return before(r, refusal(codes.Internal)) }, []traffic.Kind{traffic.Unlawful}},
		"an exchange whose error is internal":                  {traffic.Authenticate, func(r traffic.Request) traffic.Request { return before(r, refusal(codes.Internal)) }, nil},
		"an exchange whose error stays internal":               {traffic.Authenticate, func(r traffic.Request) traffic.Request { return instead(r, refusal(codes.Internal)) }, []traffic.Kind{traffic.Lost}},
		"a list that lacks one":                                {traffic.List, func(r traffic.Request) traffic.Request { r.Attempts[0].Lacks = []string{id}; return r }, []traffic.Kind{traffic.WrongNo}},
		"a watch that says it is deleted":                      {traffic.Watch, func(r traffic.Request) traffic.Request { r.Attempts[0].Gone = []string{id}; return r }, []traffic.Kind{traffic.WrongNo}},
		"a watch that says so and breaks":                      {traffic.Watch, func(r traffic.Request) traffic.Request { a := unavailable; a.Gone = []string{id}; return before(r, a) }, []traffic.Kind{traffic.WrongNo}},
		"a watch that breaks and is opened again":              {traffic.Watch, func(r traffic.Request) traffic.Request { return before(r, unavailable) }, nil},
		"a watch that begins without one":                      {traffic.Watch, func(r traffic.Request) traffic.Request { r.Attempts[0].Lacks = []string{id}; return r }, []traffic.Kind{traffic.WrongNo}},
		"a create that is refused for the time being":          {traffic.Create, func(r traffic.Request) traffic.Request { return instead(r, unavailable) }, []traffic.Kind{traffic.Lost}},
		"a create whose namespace is said to be barred":        {traffic.Create, func(r traffic.Request) traffic.Request { return instead(r, refusal(codes.FailedPrecondition)) }, []traffic.Kind{traffic.WrongNo}},
		"a create without an identity":                         {traffic.Create, func(r traffic.Request) traffic.Request { r.Attempts[0].Identity = ""; return r }, []traffic.Kind{traffic.Identity}},
		"a create that fails and leaves something":             {traffic.Create, func(r traffic.Request) traffic.Request { r.Left = []string{"Pod x"}; return instead(r, unavailable) }, []traffic.Kind{traffic.Left, traffic.Lost}},
		"a start that is cut when it has taken long":           {traffic.Start, func(r traffic.Request) traffic.Request { return instead(r, cut) }, nil},
		"a create that is cut when it has taken long":          {traffic.Create, func(r traffic.Request) traffic.Request { return instead(r, cut) }, nil},
		"a create that is refused when it has taken long":      {traffic.Create, func(r traffic.Request) traffic.Request { return instead(r, late) }, []traffic.Kind{traffic.Lost}},
		"a create that is cut and leaves something":            {traffic.Create, func(r traffic.Request) traffic.Request { r.Left = []string{"Pod x"}; return instead(r, cut) }, []traffic.Kind{traffic.Left}},
		"a validation that is cut when it has taken long":      {traffic.Validate, func(r traffic.Request) traffic.Request { return instead(r, cut) }, []traffic.Kind{traffic.Lost}},
		"a start that is refused for the time being":           {traffic.Start, func(r traffic.Request) traffic.Request { return instead(r, unavailable) }, []traffic.Kind{traffic.Lost}},
		"a start of what is said to be gone":                   {traffic.Start, func(r traffic.Request) traffic.Request { return instead(r, refusal(codes.NotFound)) }, []traffic.Kind{traffic.WrongNo}},
		"capabilities that are refused for the time being":     {traffic.Capabilities, func(r traffic.Request) traffic.Request { return instead(r, unavailable) }, []traffic.Kind{traffic.Lost}},
		"a validation that is refused for the time being":      {traffic.Validate, func(r traffic.Request) traffic.Request { return instead(r, unavailable) }, []traffic.Kind{traffic.Lost}},
		"a token exchange with another run's identity":         {traffic.Authenticate, func(r traffic.Request) traffic.Request { r.Attempts[0].Identity += "2"; return r }, []traffic.Kind{traffic.Identity}},
		"a token exchange that succeeds when it is made again": {traffic.Authenticate, func(r traffic.Request) traffic.Request { return before(r, unavailable) }, nil},
		"a stop that succeeds when it is made again":           {traffic.Stop, func(r traffic.Request) traffic.Request { return before(r, unavailable) }, nil},
		"a stop of what is said to be gone":                    {traffic.Stop, func(r traffic.Request) traffic.Request { return before(r, refusal(codes.NotFound)) }, []traffic.Kind{traffic.WrongNo}},
		"a stop that never succeeds":                           {traffic.Stop, func(r traffic.Request) traffic.Request { return instead(r, unavailable) }, []traffic.Kind{traffic.Lost}},
		"a delete of what is said not to be there":             {traffic.Delete, func(r traffic.Request) traffic.Request { r.Attempts[0].Deleted = false; return r }, []traffic.Kind{traffic.WrongNo}},
		"a delete that was done at a try whose answer was lost": {traffic.Delete, func(r traffic.Request) traffic.Request {
			r.Attempts[0].Deleted = false
			return before(r, unavailable)
		}, nil},
		"a delete that leaves something":  {traffic.Delete, func(r traffic.Request) traffic.Request { r.Left = []string{"Secret x"}; return r }, []traffic.Kind{traffic.Left}},
		"a request that was not made":     {traffic.Get, func(r traffic.Request) traffic.Request { r.Attempts = nil; return r }, []traffic.Kind{traffic.Lost}},
		"a call that the judge knows not": {traffic.Get, func(r traffic.Request) traffic.Request { r.Call = "Other"; return r }, []traffic.Kind{traffic.Lost}},
	} {
		var got []traffic.Kind
		for _, f := range traffic.Judge([]traffic.Request{c.damage(good()[c.of])}) {
			got = append(got, f.Kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What is excused is a refusal with the message, of a call that nobody makes again.
func TestExcuses(t *testing.T) {
	t.Parallel()
	unavailable := refusal(codes.Unavailable)
	leaves := instead(good()[traffic.Create], unavailable)
	leaves.Left = []string{"Pod x"}
	for name, c := range map[string]struct {
		request traffic.Request
		excuse  traffic.Excuse
		want    int
	}{
		"a create":                           {instead(good()[traffic.Create], unavailable), traffic.Excuse{Message: "because"}, 0},
		"a create for another reason":        {instead(good()[traffic.Create], unavailable), traffic.Excuse{Message: "otherwise"}, 1},
		"a get that never succeeds":          {instead(good()[traffic.Get], unavailable), traffic.Excuse{Message: "because"}, 1},
		"a get during something that lasts":  {instead(good()[traffic.Get], unavailable), traffic.Excuse{Message: "because", Lasting: true}, 0},
		"a get during something else":        {instead(good()[traffic.Get], unavailable), traffic.Excuse{Message: "otherwise", Lasting: true}, 1},
		"a create that leaves something":     {leaves, traffic.Excuse{Message: "because"}, 1},
		"a grant":                            {barred(good()[traffic.Create]), traffic.Excuse{Message: "because"}, 1},
		"a create that is said to be barred": {instead(good()[traffic.Create], refusal(codes.FailedPrecondition)), traffic.Excuse{Message: "because"}, 1},
	} {
		if found := traffic.Judge([]traffic.Request{c.request}, c.excuse); len(found) != c.want {
			t.Errorf("%s: %v, want %d faults", name, found, c.want)
		}
	}
}

// The worst comes first, whatever the order of the requests.
func TestJudgeOrders(t *testing.T) {
	t.Parallel()
	lost := instead(good()[traffic.Create], refusal(codes.Unavailable))
	found := traffic.Judge([]traffic.Request{lost, barred(good()[traffic.Authenticate])})
	if len(found) != 2 || found[0].Kind != traffic.WrongGrant || found[1].Kind != traffic.Lost {
		t.Errorf("%v", found)
	}
	if text := found[0].String(); !strings.Contains(text, id) || !strings.Contains(text, "AuthenticateSandbox") {
		t.Errorf("a fault says %q", text)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	requests := []traffic.Request{
		before(good()[traffic.Get], refusal(codes.Unavailable)), good()[traffic.Get],
		instead(barred(good()[traffic.Authenticate]), refusal(codes.PermissionDenied)),
	}
	got := traffic.Count(requests)
	if line := got[traffic.Get]; line.Requests != 2 || line.Attempts != 3 || line.Refused[`Unavailable "because"`] != 1 || len(line.Barred) != 0 {
		t.Errorf("gets: %+v", line)
	}
	if line := got[traffic.Authenticate]; len(line.Refused) != 0 || line.Barred[`PermissionDenied "because"`] != 1 {
		t.Errorf("token exchanges: %+v", line)
	}
	if text := got.String(); !strings.Contains(text, "GetSandbox") || !strings.Contains(text, "refused, as it had to be 1 times") {
		t.Errorf("it says\n%s", text)
	}
}

// TestUndecided: a barred call that was only ever answered by "not now" shows nothing, and one no is enough.
func TestUndecided(t *testing.T) {
	barred := func(call traffic.Call, of ...codes.Code) traffic.Request {
		r := traffic.Request{Call: call, Sandbox: id}
		for _, code := range of {
			r.Attempts = append(r.Attempts, refusal(code))
		}
		return r
	}
	for name, tc := range map[string]struct {
		requests []traffic.Request
		want     []traffic.Call
	}{
		"nothing was asked":      {nil, nil},
		"allowed":                {[]traffic.Request{good()[traffic.Create]}, nil},
		"never a no":             {[]traffic.Request{barred(traffic.Create, codes.Unavailable), barred(traffic.Authenticate, codes.DeadlineExceeded)}, []traffic.Call{traffic.Authenticate, traffic.Create}},
		"a no at last":           {[]traffic.Request{barred(traffic.Create, codes.Unavailable, codes.FailedPrecondition)}, nil},
		"a no of another":        {[]traffic.Request{barred(traffic.Create, codes.Unavailable), barred(traffic.Create, codes.FailedPrecondition)}, nil},
		"the no of another call": {[]traffic.Request{barred(traffic.Authenticate, codes.FailedPrecondition)}, []traffic.Call{traffic.Authenticate}},
	} {
		if got := traffic.Undecided(tc.requests); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
