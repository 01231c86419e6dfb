package e2e_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

var causeTurns = flag.Int("cause-turns", 5, "how often BenchmarkCauses lets each cause happen")

// BenchmarkCauses runs once, whatever b.N is, and prints its table: for each cause that keeps a sandbox from being Ready, how long after an
// event or the status of a Pod or Sandbox has it, as bare watches beside the driver's see it, the driver's stream has it in the message of Ready.
func BenchmarkCauses(b *testing.B) {
	h := newHouse(b)
	var table strings.Builder
	table.WriteString("\n| cause | from the cluster to the caller, each | least / median / most |\n| --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(troubles)) {
		var took []time.Duration
		for turn := range *causeTurns {
			ns := h.workspace(b, fmt.Sprintf("%s-%d", strings.ReplaceAll(name, " ", "-"), turn))
			o := troubles[name].occur(b, h, ns)
			took = append(took, o.after)
			<-o.made
			if s, err := h.gateway.Get(o.wish.ID); err == nil {
				noError(b, h.gateway.Delete(b.Context(), s.ID))
				noError(b, h.gateway.AwaitRemoved(b.Context(), s.ID))
			}
		}
		var each []string
		for _, one := range took {
			each = append(each, fmt.Sprintf("%.1f", one.Seconds()*1000))
		}
		slices.Sort(took)
		fmt.Fprintf(&table, "| %s | %s ms | %.1f / %.1f / %.1f ms |\n", name, strings.Join(each, ", "),
			took[0].Seconds()*1000, took[len(took)/2].Seconds()*1000, took[len(took)-1].Seconds()*1000)
	}
	b.Run("causes", func(b *testing.B) { b.Log(table.String()) }) // what the house logs would hide it
}
