package allowlist

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// realList has names and uids as a cluster gives them: uids are random, and are most of what a record holds once it is
// compressed.
func realList(t testing.TB, n int) List {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	entries := make([]Entry, n)
	for i := range entries {
		u := [2]uint64{random.Uint64(), random.Uint64()}
		uid := fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", u[0]>>32, u[0]>>16&0xffff, u[0]&0xfff, u[1]>>48&0xfff, u[1]&0xffffffffffff)
		entries[i] = Entry{Name: fmt.Sprintf("team-%06d-sandboxes", i), UID: uid}
	}
	list, err := NewList(entries)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// realSnapshot holds n namespaces and one that was added.
func realSnapshot(t testing.TB, n int) Snapshot {
	t.Helper()
	s := validSnapshot(t)
	s.Namespaces = realList(t, n)
	s.Changes = Changes{Added: []string{s.Namespaces.entries[n/2].Name}}
	return s
}

func eachSize(b *testing.B, run func(b *testing.B, s Snapshot)) {
	b.Helper()
	for _, n := range []int{10, 1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := realSnapshot(b, n)
			b.ReportAllocs()
			b.ResetTimer()
			run(b, s)
		})
	}
}

// BenchmarkSealSnapshot is the writer's cost of a change.
func BenchmarkSealSnapshot(b *testing.B) {
	signer := testSigner(b, 1)
	eachSize(b, func(b *testing.B, s Snapshot) {
		size := 0
		for b.Loop() {
			record, _, err := SealSnapshot(s, signer)
			if err != nil {
				b.Fatal(err)
			}
			size = len(record)
		}
		b.ReportMetric(float64(size), "record-bytes")
	})
}

func BenchmarkOpenSnapshot(b *testing.B) {
	signer := testSigner(b, 1)
	keys := testKeys(b, signer)
	eachSize(b, func(b *testing.B, s Snapshot) {
		record, _, err := SealSnapshot(s, signer)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, _, err := OpenSnapshot(record, keys, gateway); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkReaderStep is the reader's whole cost of a new list: open, index, view.
func BenchmarkReaderStep(b *testing.B) {
	signer := testSigner(b, 1)
	eachSize(b, func(b *testing.B, s Snapshot) {
		clock := newClockwork(0)
		for b.Loop() {
			b.StopTimer()
			s.Revision++
			record, _, err := SealSnapshot(s, signer)
			if err != nil {
				b.Fatal(err)
			}
			reader := testReader(b, Marks{})
			b.StartTimer()
			if e := reader.Step(clock.at, Record{Key: SnapshotKey(gateway), Operation: OperationPut, Value: record}); !e.Persist {
				b.Fatal("not accepted")
			}
		}
	})
}

func BenchmarkDiff(b *testing.B) {
	eachSize(b, func(b *testing.B, s Snapshot) {
		entries := append([]Entry(nil), s.Namespaces.entries...)
		entries = append(entries[:len(entries)/2], entries[len(entries)/2+1:]...)
		other := List{entries: entries}
		for b.Loop() {
			if d := Diff(other, s.Namespaces); len(d.Added) != 1 {
				b.Fatal(d)
			}
		}
	})
}

func BenchmarkSelect(b *testing.B) {
	refusals, err := ParseRefusals(DefaultSettings().RefusedNamespaces...)
	if err != nil {
		b.Fatal(err)
	}
	eachSize(b, func(b *testing.B, s Snapshot) {
		var candidates []Candidate
		for e := range s.Namespaces.All() {
			candidates = append(candidates, Candidate{Name: e.Name, UID: e.UID})
		}
		for b.Loop() {
			if l, _ := Select(candidates, refusals); l.Len() != len(candidates) {
				b.Fatal(l.Len())
			}
		}
	})
}
