package allowlist

import (
	"testing"
	"time"
)

// FuzzReader: whatever bytes and operations come on whatever key, nothing is extended and nothing is granted that was
// not granted before.
func FuzzReader(f *testing.F) {
	x := newReaderTest(f)
	a := newAuthor(f, 5, x.at.Mono)
	list := a.snapshot(1, x.at, "team-a")
	first := a.heartbeat(1, x.at)
	x.pass(time.Second)
	second := a.heartbeat(1, x.at)
	f.Add(uint8(0), uint8(OperationPut), list)
	f.Add(uint8(1), uint8(OperationPut), first)
	f.Add(uint8(1), uint8(OperationPut), second)
	f.Add(uint8(0), uint8(OperationDelete), []byte(nil))
	f.Add(uint8(1), uint8(OperationExpire), []byte("x"))
	f.Add(uint8(2), uint8(OperationPut), []byte(`{"payload":{}}`))
	keys := []string{SnapshotKey(gateway), HeartbeatKey(gateway), "", "a.snapshot"}
	f.Fuzz(func(t *testing.T, key, operation uint8, value []byte) {
		x := newReaderTest(t)
		start := x.at
		x.put(keys[0], list)
		x.put(keys[1], first)
		x.pass(time.Second)
		x.put(keys[1], second)
		x.expect(fresh())
		before, marks := x.r.View(), x.r.Marks()
		x.pass(time.Second)
		k := keys[int(key)%len(keys)]
		x.last = x.r.Step(x.at, Record{Key: k, Operation: Operation(operation), Value: value})
		after := x.r.View()
		if after.deadline > before.deadline || x.r.Marks() != marks {
			t.Errorf("the deadline moved from %s to %s, the marks from %v to %v", before.deadline, after.deadline, marks, x.r.Marks())
		}
		if after.Check("team-x", x.at).Allowed() {
			t.Error("a name that is not listed is granted")
		}
		// The same to a reader that has seen nothing, again and again.
		y := testReader(t, Marks{})
		for i := range 3 {
			at := start
			at.Mono, at.Wall = at.Mono+time.Duration(i)*time.Second, at.Wall.Add(time.Duration(i)*time.Second)
			y.Step(at, Record{Key: k, Operation: Operation(operation), Value: value})
			if y.View().Condition(at).State == Fresh {
				t.Error("one record opens a reader")
			}
		}
	})
}
