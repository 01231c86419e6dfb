package bench_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// asking is what the daemons asked the API server for so far, by daemon, verb and resource; and the goals that supervisorctl has worked on, with the verb goal.
type asking map[[3]string]float64

// asked reads the gates and the metrics of looks; empty unless createUses.
func (d *duel) asked() asking {
	d.b.Helper()
	all := asking{}
	if !*createUses {
		return all
	}
	for _, daemon := range spenders {
		granted, denied := d.site.Gates[daemon].Uses()
		for use, n := range granted {
			all[[3]string{daemon, use.Verb, use.Resource}] += float64(n)
		}
		if len(denied) > 0 {
			d.b.Fatalf("%s was denied %v", daemon, denied)
		}
	}
	for labels, n := range series(d.b, d.site.Mesh.Admin(spenders[1]), "portcullis_supervisorctl_goals_total") {
		all[[3]string{spenders[1], "goal", labels}] += n
	}
	return all
}

// each is what was asked for, for each of some calls since an earlier reading, in words.
func (a asking) each(since asking, calls int) string {
	keys := slices.SortedFunc(maps.Keys(a), func(x, y [3]string) int {
		return cmp.Or(strings.Compare(x[0], y[0]), strings.Compare(x[2], y[2]), strings.Compare(x[1], y[1]))
	})
	said := ""
	for i, k := range keys {
		if i == 0 || keys[i-1][0] != k[0] {
			said += " " + k[0] + " asked for:"
		}
		if n := (a[k] - since[k]) / float64(calls); n > 0 {
			said += fmt.Sprintf(" %.2f × %s %s,", n, k[1], k[2])
		}
	}
	return said
}
