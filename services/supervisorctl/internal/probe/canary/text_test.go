package canary_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary/canarytest"
)

func TestPlans(t *testing.T) {
	for name, c := range map[string]struct {
		role   canary.Role
		change func(*canary.Plan)
		want   string
	}{
		"workload":             {canary.Workload, func(*canary.Plan) {}, ""},
		"supervisor":           {canary.Supervisor, func(*canary.Plan) {}, ""},
		"metadata service":     {canary.Workload, func(p *canary.Plan) { p.Targets = []string{"169.254.169.254:80", "[2001:db8::1]:443"} }, ""},
		"no role":              {canary.Workload, func(p *canary.Plan) { p.Role = "" }, "role"},
		"probe":                {canary.Workload, func(p *canary.Plan) { p.Probe = "A b" }, "probe"},
		"no targets":           {canary.Workload, func(p *canary.Plan) { p.Targets = nil }, "0 targets"},
		"too many targets":     {canary.Workload, func(p *canary.Plan) { p.Targets = make([]string, canary.MaxTargets+1) }, "13 targets"},
		"target twice":         {canary.Workload, func(p *canary.Plan) { p.Targets = []string{far, far} }, "twice"},
		"name":                 {canary.Workload, func(p *canary.Plan) { p.Targets = []string{"example.com:443"} }, "DNS"},
		"no port":              {canary.Workload, func(p *canary.Plan) { p.Targets = []string{"192.0.2.1"} }, "port"},
		"port 0":               {canary.Workload, func(p *canary.Plan) { p.Targets = []string{"192.0.2.1:0"} }, "outside"},
		"itself":               {canary.Workload, func(p *canary.Plan) { p.Targets = []string{"127.0.0.1:443"} }, "outside"},
		"nowhere":              {canary.Workload, func(p *canary.Plan) { p.Targets = []string{"0.0.0.0:443"} }, "outside"},
		"zone":                 {canary.Workload, func(p *canary.Plan) { p.Targets = []string{"[fe80::1%eth0]:443"} }, "outside"},
		"other spelling":       {canary.Workload, func(p *canary.Plan) { p.Targets = []string{"[2001:DB8::1]:443"} }, "must be written [2001:db8::1]:443"},
		"low port":             {canary.Workload, func(p *canary.Plan) { p.Door = 80 }, "door"},
		"one port":             {canary.Workload, func(p *canary.Plan) { p.Shut = p.Door }, "one port"},
		"workload with peer":   {canary.Workload, func(p *canary.Plan) { p.Peer = canarytest.WorkloadIP }, "peer"},
		"supervisor without":   {canary.Supervisor, func(p *canary.Plan) { p.Peer = "" }, "peer"},
		"peer is a name":       {canary.Supervisor, func(p *canary.Plan) { p.Peer = "example.com" }, "peer"},
		"no time to settle":    {canary.Workload, func(p *canary.Plan) { p.Settle = 0 }, "settle"},
		"limit before settled": {canary.Workload, func(p *canary.Plan) { p.Limit = p.Settle }, "limit"},
		"no end":               {canary.Workload, func(p *canary.Plan) { p.Limit = 1 << 62 }, "limit"},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(c.role)
			c.change(p)
			text, err := p.Encode()
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || text != "" {
					t.Errorf("%q, %v, want an error with %q", text, err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			read, err := canary.DecodePlan(text)
			if err != nil || !reflect.DeepEqual(read, p) {
				t.Errorf("%+v, %v, want %+v", read, err, p)
			}
		})
	}
}

func TestPlanTexts(t *testing.T) {
	text, err := plan(canary.Supervisor).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"empty": "", "no JSON": "x", "something behind": text + "{}", "unknown field": strings.Replace(text, `"probe"`, `"more":1,"probe"`, 1),
		"no plan": "{}", "too long": text + strings.Repeat(" ", 5000),
	} {
		if p, err := canary.DecodePlan(bad); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// full is the longest report that can be of a plan.
func full() (*canary.Plan, *canary.Report) {
	p := plan(canary.Supervisor)
	p.Targets = nil
	r := &canary.Report{Probe: strings.Repeat("x", 32), Role: p.Role, End: canary.EndBroken, Entered: true, Parted: true, Trouble: strings.Repeat("\x01", 1000)}
	p.Probe = r.Probe
	for i := range canary.MaxTargets {
		p.Targets = append(p.Targets, fmt.Sprintf("[2001:db8:ffff:ffff:ffff:ffff:ffff:ff%02x]:65535", i+16))
		r.Targets = append(r.Targets, canary.Seen{
			Target: p.Targets[i], Tries: 99999, Opens: 99999, Streak: 99999, LastOpen: 1800000, Last: canary.Unreachable, Before: true, During: true, After: true,
		})
	}
	r.Shut = r.Targets[0]
	return p, r
}

func TestReports(t *testing.T) {
	p, r := full()
	text, err := r.Encode()
	if err != nil || len(text) > canary.MaxReport {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if read, err := canary.DecodeReport(string(text), p); err != nil || !reflect.DeepEqual(read, r) {
		t.Errorf("%+v, %v", read, err)
	}
	for name, bad := range map[string]string{
		"empty": "", "no JSON": "panic: x", "something behind": string(text) + "x", "another probe": strings.Replace(string(text), strings.Repeat("x", 32), "another", 1),
		"another role": strings.Replace(string(text), `"supervisor"`, `"workload"`, 1), "another target": strings.Replace(string(text), ":65535", ":65534", 1),
		"no end": strings.Replace(string(text), `"broken"`, `""`, 1), "unknown field": strings.Replace(string(text), `"role"`, `"more":1,"role"`, 1),
		"too long": string(text) + strings.Repeat(" ", 4096),
	} {
		if read, err := canary.DecodeReport(bad, p); err == nil {
			t.Errorf("%s: %+v", name, read)
		}
	}
}

// TestZeroSeenProvesNothing, and neither does a streak that is too short or ended otherwise.
func TestZeroSeenProvesNothing(t *testing.T) {
	for name, s := range map[string]canary.Seen{
		"zero": {}, "short": {Streak: canary.Hold - 1, Last: canary.Refused}, "opened": {Streak: canary.Hold, Last: canary.Opened},
		"failed": {Streak: canary.Hold, Last: canary.Failed}, "unknown": {Streak: canary.Hold, Last: "later"},
	} {
		if s.Held() {
			t.Errorf("%s counts as shut", name)
		}
	}
	if s := (canary.Seen{Streak: canary.Hold, Last: canary.Refused}); !s.Held() {
		t.Error("nothing counts as shut")
	}
}

// FuzzTexts: whatever is read can be written, and is the same then.
func FuzzTexts(f *testing.F) {
	for _, role := range []canary.Role{canary.Workload, canary.Supervisor} {
		text, err := plan(role).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, `{"probe":"abcdef0123","role":"workload","end":"done","targets":[{"target":"kubernetes","tries":1,"opens":0,"streak":1,"last_open_ms":0},{"target":"`+far+`","tries":1,"opens":0,"streak":1,"last_open_ms":0}],"entered":true,"parted":true,"shut":{"tries":0,"opens":0,"streak":0,"last_open_ms":0}}`)
	}
	f.Fuzz(func(t *testing.T, planText, reportText string) {
		p, err := canary.DecodePlan(planText)
		if err != nil {
			return
		}
		if text, err := p.Encode(); err != nil {
			t.Fatalf("%v of %s", err, text)
		}
		r, err := canary.DecodeReport(reportText, p)
		if err != nil {
			return
		}
		text, err := r.Encode()
		if err != nil {
			return // a text can be shorter than what it says
		}
		if again, err := canary.DecodeReport(string(text), p); err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v, %v, want %+v", again, err, r)
		}
	})
}
