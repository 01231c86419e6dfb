package bench_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// kills is how many leaders are killed.
const kills = 5

// grown is an age that a proof of the old leader has when the next one writes, and one of the next has not.
const grown = 5 * time.Second

// BenchmarkLeaderKilled kills the leader and measures, with default settings, how long it takes until a reader's
// answers rest on the next one's list, and how long it refused meanwhile. It runs once, whatever b.N is.
func BenchmarkLeaderKilled(b *testing.B) {
	server := natstest.Start(b)
	i := installation.New(b, cluster.Start(b, cluster.ControlPlane), server.URL())
	i.Bootstrap(1)
	ns := i.Labelled()
	reader := i.Reader()
	leader := i.Nswatch()
	leader.AwaitMetric(1, "portcullis_nswatch_leading")
	var replaced, closed []time.Duration
	for range kills {
		reader.AwaitAllowed(ns)
		standby := i.Nswatch() // it cannot lead while the leader lives
		standby.AwaitReady()
		epoch := reader.Check(ns).Epoch
		start, refused := time.Now(), time.Duration(0)
		leader.Kill()
		for last := start; ; {
			time.Sleep(time.Millisecond)
			now, a := time.Now(), reader.Check(ns)
			if !a.Allowed() {
				refused += now.Sub(last)
			}
			last = now
			if a.Allowed() && a.Epoch > epoch && a.Age < grown {
				break
			}
			if now.Sub(start) > 2*program.Limit {
				b.Fatalf("nobody has taken over: %+v", a)
			}
		}
		replaced, closed = append(replaced, time.Since(start)), append(closed, refused)
		leader = standby
	}
	slices.Sort(replaced)
	slices.Sort(closed)
	b.Logf("\n| leader killed %d times | shortest | middle | longest |\n| --- | --- | --- | --- |\n| until a successor's list is used | %s |\n| refused meanwhile | %s |",
		kills, seconds(replaced), seconds(closed))
}

func seconds(of []time.Duration) string {
	var cells []string
	for _, d := range []time.Duration{of[0], of[len(of)/2], of[len(of)-1]} {
		cells = append(cells, fmt.Sprintf("%.1f s", d.Seconds()))
	}
	return strings.Join(cells, " | ")
}
