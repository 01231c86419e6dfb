package allowlist

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden records anew; changing one breaks every reader in the field")

// goldens are one record of each form.
func goldens(t *testing.T) map[string][]byte {
	t.Helper()
	signer := testSigner(t, 1)
	snapshot := func(edit func(*Snapshot)) []byte {
		s := validSnapshot(t)
		edit(&s)
		record, _, err := SealSnapshot(s, signer)
		if err != nil {
			t.Fatal(err)
		}
		return record
	}
	heartbeat := func(edit func(*Heartbeat)) []byte {
		h := validHeartbeat(t)
		edit(&h)
		record, err := SealHeartbeat(h, signer)
		if err != nil {
			t.Fatal(err)
		}
		return record
	}
	return map[string][]byte{
		"snapshot.json": snapshot(func(*Snapshot) {}),
		"snapshot-first-empty.json": snapshot(func(s *Snapshot) {
			s.Revision, s.Previous, s.Namespaces, s.Changes = 1, Digest{}, List{}, Changes{}
		}),
		"snapshot-file.json": snapshot(func(s *Snapshot) {
			s.Source = Source{Kind: SourceFile, Path: `/etc/"odd"\path é`, Version: "sha256:abc"}
			s.Namespaces = List{entries: []Entry{{Name: "0"}, {Name: "a-b"}}}
			s.Changes = Changes{Removed: manyNames(MaxChanges), RemovedMore: 17}
		}),
		"heartbeat.json": heartbeat(func(*Heartbeat) {}),
		"heartbeat-withdrawn.json": heartbeat(func(h *Heartbeat) {
			h.Reason, h.Proof = `the file is "gone"`, Proof{Kind: ProofFile, Age: time.Hour}
		}),
	}
}

func TestGoldenRecords(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	records := goldens(t)
	for _, file := range files {
		if _, ok := records[filepath.Base(file)]; !ok {
			t.Errorf("%s belongs to no record", file)
		}
	}
	for name, record := range records {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, append(record, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(record)+"\n"); diff != "" {
			t.Errorf("%s (-golden +made):\n%s", name, diff)
		}
	}
}

// TestGoldenSignature verifies a golden record with the standard library alone, as the protocol describes it.
func TestGoldenSignature(t *testing.T) {
	record, err := os.ReadFile("testdata/snapshot.json")
	if err != nil {
		t.Fatal(err)
	}
	var envelope struct {
		Payload   json.RawMessage `json:"payload"`
		Signature struct {
			Alg   string `json:"alg"`
			KeyID string `json:"key_id"`
			Value []byte `json:"value"`
		} `json:"signature"`
	}
	if err := json.Unmarshal(record, &envelope); err != nil {
		t.Fatal(err)
	}
	public := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)).Public().(ed25519.PublicKey)
	signed := fmt.Appendf(nil, "DSSEv1 22 portcullis-snapshot;v1 %d %s", len(envelope.Payload), envelope.Payload)
	if !ed25519.Verify(public, signed, envelope.Signature.Value) {
		t.Error("the signature does not verify")
	}
	if id := fmt.Sprintf("%x", sha256.Sum256(public))[:16]; envelope.Signature.KeyID != id || envelope.Signature.Alg != "ed25519" {
		t.Errorf("signature of %+v, want key %s", envelope.Signature, id)
	}
	_, digest, err := OpenSnapshot(bytes.TrimSpace(record), testKeys(t, testSigner(t, 1)), gateway)
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(envelope.Payload)); err != nil || digest.String() != want {
		t.Errorf("digest %s, %v, want %s", digest, err, want)
	}
}

func TestRoundTrip(t *testing.T) {
	signer := testSigner(t, 1)
	keys := testKeys(t, signer)
	large := validSnapshot(t)
	large.Namespaces = listOf(t, manyNames(20_000)...)
	large.Changes = Changes{}
	for name, s := range map[string]Snapshot{"small": validSnapshot(t), "compressed": large} {
		t.Run(name, func(t *testing.T) {
			record, digest, err := SealSnapshot(s, signer)
			if err != nil {
				t.Fatal(err)
			}
			got, gotDigest, err := OpenSnapshot(record, keys, gateway)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s, got, compareValues()); diff != "" || digest != gotDigest {
				t.Errorf("digests %s, %s (-sealed +opened):\n%s", digest, gotDigest, diff)
			}
			if compressed := bytes.HasPrefix(record, []byte(openCompressed)); compressed != (name == "compressed") {
				t.Errorf("compressed = %v for a record of %d bytes", compressed, len(record))
			}
			if again, _, _ := SealSnapshot(s, signer); !bytes.Equal(record, again) {
				t.Error("sealing twice gives different records")
			}
		})
	}
	h := validHeartbeat(t)
	record, err := SealHeartbeat(h, signer)
	if err != nil {
		t.Fatal(err)
	}
	got, err := OpenHeartbeat(record, keys, gateway)
	if diff := cmp.Diff(h, got); err != nil || diff != "" {
		t.Errorf("heartbeat: %v (-sealed +opened):\n%s", err, diff)
	}
}

// TestDigestIsOfTheContent: how a payload is stored does not change what heartbeats call it.
func TestDigestIsOfTheContent(t *testing.T) {
	s := validSnapshot(t)
	s.Namespaces, s.Changes = listOf(t, manyNames(10_000)...), Changes{}
	payload, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	_, digest, err := SealSnapshot(s, testSigner(t, 1))
	if err != nil || digest != Digest(sha256.Sum256(payload)) {
		t.Errorf("digest %s, %v", digest, err)
	}
}

func TestTooLargeIsAnErrorOfItsOwn(t *testing.T) {
	// What does not shrink: a payload within its limit that gives a record beyond its own.
	noise := make([]byte, 7<<20)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	if _, err := seal(kindSnapshot, noise, testSigner(t, 1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d bytes of noise: %v, want ErrTooLarge", len(noise), err)
	}
	for _, c := range []struct {
		name  string
		n     int
		entry func(i int) Entry
		want  error
	}{
		{"the longest list that the limits allow", MaxNames, func(i int) Entry {
			return Entry{Name: fmt.Sprintf("%063d", i), UID: fmt.Sprintf("%064d", i)}
		}, nil},
		{"one name more", MaxNames + 1, func(i int) Entry { return Entry{Name: fmt.Sprintf("%06d", i), UID: "u"} }, ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := validSnapshot(t)
			s.Changes, s.Namespaces = Changes{}, List{}
			for i := range c.n {
				s.Namespaces.entries = append(s.Namespaces.entries, c.entry(i))
			}
			record, _, err := SealSnapshot(s, testSigner(t, 1))
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err == nil {
				if _, _, err := OpenSnapshot(record, testKeys(t, testSigner(t, 1)), gateway); err != nil {
					t.Errorf("what was sealed is refused: %v", err)
				}
			}
		})
	}
}

func TestForeignGateway(t *testing.T) {
	signer := testSigner(t, 1)
	keys := testKeys(t, signer)
	record, _, err := SealSnapshot(validSnapshot(t), signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenSnapshot(record, keys, "other"); CauseOf(err) != ForeignGateway {
		t.Errorf("snapshot: %v", err)
	}
	if record, err = SealHeartbeat(validHeartbeat(t), signer); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenHeartbeat(record, keys, "other"); CauseOf(err) != ForeignGateway {
		t.Errorf("heartbeat: %v", err)
	}
}

func TestSealRefusesWhatNobodyReads(t *testing.T) {
	signer := testSigner(t, 1)
	for name, breakIt := range map[string]func(*Snapshot){
		"gateway":         func(s *Snapshot) { s.GatewayID = "a..b" },
		"epoch zero":      func(s *Snapshot) { s.Epoch = 0 },
		"revision beyond": func(s *Snapshot) { s.Revision = maxWhole + 1 },
		"writer":          func(s *Snapshot) { s.Writer = "a b" },
		"local time":      func(s *Snapshot) { s.PublishedAt = s.PublishedAt.In(time.FixedZone("x", 3600)) },
		"microseconds":    func(s *Snapshot) { s.PublishedAt = s.PublishedAt.Add(time.Microsecond) },
		"no source":       func(s *Snapshot) { s.Source.Kind = 0 },
		"both sources":    func(s *Snapshot) { s.Source.Path = "/x" },
		"no uid":          func(s *Snapshot) { s.Namespaces.entries[0].UID = "" },
		"changes":         func(s *Snapshot) { s.Changes.Added = []string{"team-x"} },
	} {
		s := validSnapshot(t)
		breakIt(&s)
		if _, _, err := SealSnapshot(s, signer); err == nil {
			t.Errorf("snapshot with wrong %s is sealed", name)
		}
	}
	for name, breakIt := range map[string]func(*Heartbeat){
		"digest":     func(h *Heartbeat) { h.Digest = Digest{} },
		"beat":       func(h *Heartbeat) { h.Beat = 0 },
		"issue":      func(h *Heartbeat) { h.Issued = -time.Millisecond },
		"fraction":   func(h *Heartbeat) { h.Issued = time.Microsecond },
		"proof kind": func(h *Heartbeat) { h.Proof.Kind = 0 },
		"proof age":  func(h *Heartbeat) { h.Proof.Age = maxSourceAge + time.Millisecond },
		"reason":     func(h *Heartbeat) { h.Reason = "two\nlines" },
		"ttl":        func(h *Heartbeat) { h.TTL = 1500 * time.Millisecond },
	} {
		h := validHeartbeat(t)
		breakIt(&h)
		if _, err := SealHeartbeat(h, signer); err == nil {
			t.Errorf("heartbeat with wrong %s is sealed", name)
		}
	}
	if _, _, err := SealSnapshot(validSnapshot(t), &Signer{}); !errors.Is(err, errNoKey) {
		t.Errorf("the zero Signer signs: %v", err)
	}
}
