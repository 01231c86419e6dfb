// Package allowlisttest makes answers of the allowlist for tests of those who ask it. They come from a real writer and a real
// reader, because nothing else can say yes.
//
// Callers: tests of tokenauth and of lifecycle. Production code does not import it.
package allowlisttest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// View is what a reader holds once a writer has published these entries for the gateway and vouched for them. Ask it for the
// instant that is returned with it. Entries without uids are as from a file.
func View(tb testing.TB, gatewayID string, entries ...allowlist.Entry) (*allowlist.View, allowlist.Instant) {
	tb.Helper()
	signer, err := allowlist.GenerateSigner(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		tb.Fatal(err)
	}
	keys, err := allowlist.NewKeySet(signer.Public())
	if err != nil {
		tb.Fatal(err)
	}
	writer, err := allowlist.NewWriter(allowlist.WriterConfig{
		GatewayID: gatewayID, Name: "nswatch-0", Settings: allowlist.DefaultSettings(),
		Source: sourceOf(entries),
	}, signer, keys)
	if err != nil {
		tb.Fatal(err)
	}
	reader, err := allowlist.NewReader(gatewayID, keys, allowlist.DefaultSettings(), allowlist.Marks{})
	if err != nil {
		tb.Fatal(err)
	}
	list, err := allowlist.NewList(entries)
	if err != nil {
		tb.Fatal(err)
	}
	now, published := publish(writer, reader, list, kindOf(entries))
	if !published {
		tb.Fatalf("the writer does not publish %v", entries)
	}
	return reader.View(), now
}

// Check is the answer about one namespace.
func Check(tb testing.TB, gatewayID, namespace string, entries ...allowlist.Entry) allowlist.Answer {
	tb.Helper()
	view, now := View(tb, gatewayID, entries...)
	return view.Check(namespace, now)
}

// publish runs the writer until the reader holds its snapshot and a heartbeat for it: three records with the withdrawal that a
// term begins with.
func publish(writer *allowlist.Writer, reader *allowlist.Reader, list allowlist.List, kind allowlist.ProofKind) (allowlist.Instant, bool) {
	now := allowlist.Instant{Mono: time.Hour, Wall: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	stored, input := uint64(0), allowlist.Input(allowlist.Tick{})
	for range 100 {
		if stored == 3 {
			return now, true
		}
		switch action := writer.Step(now, input).Action.(type) {
		case allowlist.Look:
			input = allowlist.Looked{}
		case allowlist.Relist:
			input = allowlist.Listed{List: list, Version: "1", Order: 1, Kind: kind, ProvenAt: now.Mono}
		case allowlist.Write:
			stored++
			reader.Step(now, allowlist.Record{Key: action.Key, Operation: allowlist.OperationPut, Value: action.Record})
			input = allowlist.Written{Result: allowlist.WriteStored, Sequence: stored}
		default:
			now.Mono, now.Wall = now.Mono+time.Second, now.Wall.Add(time.Second)
			input = allowlist.Tick{}
		}
	}
	return now, false
}

// fromFile reports whether the entries are those of a file, which knows names alone.
func fromFile(entries []allowlist.Entry) bool {
	return slices.ContainsFunc(entries, func(e allowlist.Entry) bool { return e.UID == "" })
}

func sourceOf(entries []allowlist.Entry) allowlist.Source {
	if fromFile(entries) {
		return allowlist.Source{Kind: allowlist.SourceFile, Path: "/etc/portcullis/namespaces.json"}
	}
	return allowlist.Source{Kind: allowlist.SourceLabel, Selector: "sandboxes=allowed"}
}

func kindOf(entries []allowlist.Entry) allowlist.ProofKind {
	if fromFile(entries) {
		return allowlist.ProofFile
	}
	return allowlist.ProofList
}
