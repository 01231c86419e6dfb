package observe

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/progress"
)

// TestEventsOfAnyHistory: each time that an event happened is told once to whoever had joined, in order, also when lists and watches
// overlap, and when the Pod or the Sandbox comes to be known afterwards.
func TestEventsOfAnyHistory(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 9))
		c := listedCore(t)
		to := joined(c, 1<<16)
		history, version := []Change[progress.Event]{}, uint64(1)
		counts, known := map[string]int32{}, map[string]bool{}
		told := 0
		var got []string
		var want []string
		for range 200 {
			version++
			switch r.IntN(4) {
			case 0:
				about := fmt.Sprint("u", r.IntN(3))
				if !known[about] {
					known[about] = true
					if r.IntN(2) == 0 {
						c.changeBox(put(boxItem(about, "id-"+about, version, 1)))
						version++
						c.changePod(put(podItem(about, version, false, true)))
					} else {
						c.changePod(put(podItem(about, version, false, true)))
						version++
						c.changeBox(put(boxItem(about, "id-"+about, version, 1)))
					}
				}
			case 1:
				if len(history) > 0 && r.IntN(3) == 0 {
					l := Listing[progress.Event]{Version: version}
					newest := map[string]Item[progress.Event]{}
					for _, ch := range history {
						newest[ch.UID] = ch.Item
					}
					for _, i := range newest {
						l.Items = append(l.Items, i)
					}
					must(t, c.replaceEvents(l))
					// A list shows of an event only how often it has happened by now.
					for _, uid := range slices.Sorted(maps.Keys(newest)) {
						pending := false
						for _, ch := range history[told:] {
							pending = pending || ch.UID == uid
						}
						if pending {
							want = append(want, fmt.Sprint(uid, "*", newest[uid].Value.Count))
						}
					}
					told = len(history)
				} else if told < len(history) {
					ch := history[told]
					told++
					want = append(want, fmt.Sprint(ch.UID, "*", ch.Value.Count))
					c.changeEvent(ch)
					if r.IntN(4) == 0 {
						c.changeEvent(history[r.IntN(told)])
					}
				}
			default:
				about := fmt.Sprint("u", r.IntN(3), "-w")
				uid := fmt.Sprint("e", about, r.IntN(2))
				counts[uid]++
				i := eventItem(uid, about, version, counts[uid])
				i.Value.Reason = uid
				history = append(history, put(i))
			}
		}
		for n := range 3 {
			about := fmt.Sprint("u", n)
			if !known[about] {
				version++
				c.changePod(put(podItem(about, version, false, true)))
				c.changeBox(put(boxItem(about, "id-"+about, version, 1)))
			}
		}
		last := map[string]string{}
		for m := c.next(to); m != nil; m = c.next(to) {
			if p := m.GetPlatformEvent(); p != nil {
				uid, count := p.GetEvent().GetReason(), p.GetEvent().GetMetadata()["count"]
				if former := last[uid]; len(former) > len(count) || len(former) == len(count) && former >= count {
					t.Fatalf("seed %d: %s: %s after %s", seed, uid, count, former)
				}
				last[uid] = count
				got = append(got, fmt.Sprint(uid, "*", count))
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: told %v, want %v", seed, got, want)
		}
	}
}
