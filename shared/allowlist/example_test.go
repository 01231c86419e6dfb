package allowlist_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// A writer's whole take-over and a reader that follows it. Shells do the same with a real broker, a real source and
// real clocks.
func Example() {
	signer, err := allowlist.GenerateSigner(bytes.NewReader(make([]byte, 32))) // a program uses crypto/rand.Reader
	if err != nil {
		panic(err)
	}
	keys, err := allowlist.NewKeySet(signer.Public())
	if err != nil {
		panic(err)
	}
	writer, err := allowlist.NewWriter(allowlist.WriterConfig{
		GatewayID: "blue", Name: "nswatch-0.4f2a", Settings: allowlist.DefaultSettings(),
		Source: allowlist.Source{Kind: allowlist.SourceLabel, Selector: "sandboxes=allowed"},
	}, signer, keys)
	if err != nil {
		panic(err)
	}
	reader, err := allowlist.NewReader("blue", keys, allowlist.DefaultSettings(), allowlist.Marks{})
	if err != nil {
		panic(err)
	}
	list, err := allowlist.NewList([]allowlist.Entry{{Name: "team-a", UID: "7d1c"}})
	if err != nil {
		panic(err)
	}

	now := allowlist.Instant{Mono: time.Hour, Wall: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	pass := func(d time.Duration) { now.Mono, now.Wall = now.Mono+d, now.Wall.Add(d) }
	sequence := uint64(0)
	for input := allowlist.Input(allowlist.Tick{}); input != nil; {
		plan := writer.Step(now, input)
		input = nil
		switch action := plan.Action.(type) {
		case allowlist.Look:
			input = allowlist.Looked{}
		case allowlist.Relist:
			input = allowlist.Listed{List: list, Version: "8812", Order: 8812, Kind: allowlist.ProofList, ProvenAt: now.Mono}
		case allowlist.Write:
			sequence++
			fmt.Printf("stored %s, expecting %d\n", action.Key, action.ExpectSequence)
			reader.Step(now, allowlist.Record{Key: action.Key, Operation: allowlist.OperationPut, Value: action.Record})
			input = allowlist.Written{Result: allowlist.WriteStored, Sequence: sequence}
		case nil:
			if sequence == 2 { // one beat so far, which opens nothing
				fmt.Println("team-a:", reader.View().Check("team-a", now).Reason)
				pass(time.Second)
				input = allowlist.Tick{}
			}
		}
	}
	for _, name := range []string{"team-a", "team-b"} {
		fmt.Println(reader.View().Check(name, now).Decision().Explain())
	}
	pass(15 * time.Second)
	fmt.Println("team-a:", reader.View().Check("team-a", now).Reason)
	// Output:
	// stored blue.snapshot, expecting 0
	// stored blue.heartbeat, expecting 0
	// team-a: unsynced
	// stored blue.heartbeat, expecting 2
	// granted (namespace "team-a", allowlist epoch 1795953600000, revision 1, age 0s, uid "7d1c")
	// denied: not_listed at allowlist: The namespace is not in the operator's allowlist, and the list is proven current. (namespace "team-b", allowlist epoch 1795953600000, revision 1, age 0s, uid "")
	// team-a: stale
}
