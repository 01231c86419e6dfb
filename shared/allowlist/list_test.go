package allowlist

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewList(t *testing.T) {
	given := []Entry{{"b", "2"}, {"a", "1"}, {"b", "2"}}
	list, err := NewList(given)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Entry{{"a", "1"}, {"b", "2"}}, slices.Collect(list.All())); diff != "" || list.Len() != 2 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	given[0].Name = "changed"
	if e, ok := list.Lookup("b"); !ok || e.UID != "2" {
		t.Errorf("the list changed with the slice it was made from: %v", e)
	}
	for name, entries := range map[string][]Entry{
		"invalid name": {{Name: "A"}}, "empty name": {{}}, "invalid uid": {{"a", "x y"}}, "uid too long": {{"a", strings.Repeat("u", 65)}},
		"two uids": {{"a", "1"}, {"a", "2"}},
	} {
		if _, err := NewList(entries); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestZeroListHoldsNothing(t *testing.T) {
	var l List
	if _, ok := l.Lookup(""); ok || l.Len() != 0 || !l.Equal(List{}) {
		t.Error("the zero List is not empty")
	}
}

// randomList draws names and uids from small sets, so that draws overlap.
func randomList(t *testing.T, random *rand.Rand) List {
	t.Helper()
	uids := map[string]string{}
	for range random.IntN(12) {
		uids[fmt.Sprintf("n%d", random.IntN(10))] = fmt.Sprint(random.IntN(2))
	}
	var entries []Entry
	for name, uid := range uids {
		entries = append(entries, Entry{name, uid})
	}
	list, err := NewList(entries)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestDiffAgainstMaps compares Diff with two maps, and applies it.
func TestDiffAgainstMaps(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		from, to := randomList(t, random), randomList(t, random)
		d := Diff(from, to)
		a, b := from.index(), to.index()
		want := Difference{}
		for _, name := range slices.Sorted(maps.Keys(a)) {
			if uid, ok := b[name]; !ok || uid != a[name] {
				want.Removed = append(want.Removed, Entry{name, a[name]})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(b)) {
			if uid, ok := a[name]; !ok || uid != b[name] {
				want.Added = append(want.Added, Entry{name, b[name]})
			}
		}
		if diff := cmp.Diff(want, d); diff != "" {
			t.Fatalf("%v to %v (-maps +Diff):\n%s", a, b, diff)
		}
		if d.Empty() != from.Equal(to) {
			t.Fatalf("%v to %v: empty %v", a, b, d.Empty())
		}
	}
}

func TestChangesAreCut(t *testing.T) {
	for n, want := range map[int]uint64{0: 0, MaxChanges: 0, MaxChanges + 1: 1, 250: 150} {
		c := Diff(List{}, listOf(t, manyNames(n)...)).Changes()
		if c.AddedMore != want || len(c.Added) != min(n, MaxChanges) || c.Removed != nil || c.RemovedMore != 0 {
			t.Errorf("%d added: %d names, %d more", n, len(c.Added), c.AddedMore)
		}
		c = Diff(listOf(t, manyNames(n)...), List{}).Changes()
		if c.RemovedMore != want || len(c.Removed) != min(n, MaxChanges) || c.Added != nil {
			t.Errorf("%d removed: %d names, %d more", n, len(c.Removed), c.RemovedMore)
		}
	}
}

func TestRefusals(t *testing.T) {
	r, err := ParseRefusals("kube-*", "portcullis", "x*")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"kube-system": true, "kube-": true, "kube": false, "kubernetes": false, "portcullis": true, "portcullis-2": false,
		"x": true, "xy": true, "team-a": false, "": false,
	} {
		if r.Match(name) != want {
			t.Errorf("Match(%q) = %v", name, !want)
		}
	}
	if (Refusals{}).Match("kube-system") {
		t.Error("the zero Refusals refuses")
	}
	for _, pattern := range []string{"", "*", "-*", "a**", "*a", "a*b", "A*", "a.b", "a-", strings.Repeat("a", 64), " a"} {
		if _, err := ParseRefusals("fine", pattern); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", pattern)[:2]) {
			t.Errorf("ParseRefusals(%q): %v", pattern, err)
		}
	}
}

func TestSelect(t *testing.T) {
	refusals, err := ParseRefusals("kube-*")
	if err != nil {
		t.Fatal(err)
	}
	list, refused := Select([]Candidate{
		{Name: "team-b", UID: "2"},
		{Name: "team-a", UID: "1"},
		{Name: "team-a", UID: "1"},
		{Name: "kube-system", UID: "3"},
		{Name: "kube-gone", UID: "4", Terminating: true},
		{Name: "Bad", UID: "5"},
		{Name: "leaving", UID: "6", Terminating: true},
		{Name: "half-leaving", UID: "7"},
		{Name: "half-leaving", UID: "7", Terminating: true},
		{Name: "odd-uid", UID: "no way"},
		{Name: "two", UID: "8"},
		{Name: "two", UID: "9"},
		{Name: ""},
	}, refusals)
	if diff := cmp.Diff([]Entry{{"team-a", "1"}, {"team-b", "2"}}, slices.Collect(list.All())); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
	got := map[string]string{}
	for _, r := range refused {
		got[r.Candidate.Name] = r.Cause.String()
	}
	want := map[string]string{
		"kube-system": "reserved", "kube-gone": "reserved", "Bad": "invalid_name", "": "invalid_name", "leaving": "terminating",
		"half-leaving": "terminating", "odd-uid": "invalid_uid", "two": "ambiguous_uid",
	}
	if diff := cmp.Diff(want, got); diff != "" || len(refused) != len(want) {
		t.Errorf("%d refused (-want +got):\n%s", len(refused), diff)
	}
}

// TestSelectAgainstDefinition: a name is published exactly when every candidate of that name may be, and they agree.
func TestSelectAgainstDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	refusals, err := ParseRefusals("kube-*")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"a", "b", "kube-a", "B", "c-"}
	for range 5000 {
		var candidates []Candidate
		for range random.IntN(8) {
			candidates = append(candidates, Candidate{
				Name: names[random.IntN(len(names))], UID: []string{"1", "2", "", "x y"}[min(random.IntN(8), 3)], Terminating: random.IntN(4) == 0,
			})
		}
		list, refused := Select(candidates, refusals)
		for _, name := range names {
			uids, clean, seen := map[string]bool{}, true, false
			for _, c := range candidates {
				if c.Name == name {
					seen = true
					uids[c.UID] = true
					clean = clean && (name == "a" || name == "b") && !c.Terminating && c.UID != "x y"
				}
			}
			_, published := list.Lookup(name)
			if want := seen && clean && len(uids) == 1; published != want {
				t.Fatalf("%v: %s published = %v", candidates, name, published)
			}
			isRefused := slices.ContainsFunc(refused, func(r Refusal) bool { return r.Candidate.Name == name && r.Cause != 0 })
			if isRefused != (seen && !published) {
				t.Fatalf("%v: %s refused = %v", candidates, name, isRefused)
			}
		}
	}
}

func TestGatewayIDs(t *testing.T) {
	for id, ok := range map[string]bool{
		"openshell": true, "A_b.c-9": true, "a": true, strings.Repeat("g", 63): true,
		"": false, strings.Repeat("g", 64): false, "-a": false, "a-": false, ".a": false, "a..b": false, "a b": false, "a*": false, "a>": false, "é": false, "a/b": false,
	} {
		if err := CheckGatewayID(id); (err == nil) != ok {
			t.Errorf("CheckGatewayID(%q) = %v", id, err)
		}
	}
	if SnapshotKey("g") != "g.snapshot" || HeartbeatKey("g") != "g.heartbeat" {
		t.Error("the keys are not those of the protocol")
	}
}

func TestDigests(t *testing.T) {
	d := digestOf([]byte("x"))
	if got, err := ParseDigest(d.String()); err != nil || got != d {
		t.Errorf("%s came back as %s, %v", d, got, err)
	}
	if got, err := ParseDigest(""); err != nil || !got.IsZero() || (Digest{}).String() != "" {
		t.Errorf("the zero digest: %s, %v", got, err)
	}
	for _, s := range []string{"sha256:", d.String() + "0", d.String()[1:], strings.ToUpper(d.String()), "sha256:" + strings.Repeat("0", 64), "sha256:" + strings.Repeat("g", 64)} {
		if _, err := ParseDigest(s); err == nil {
			t.Errorf("%q is a digest", s)
		}
	}
}
