package broker_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// newest is what is stored: each subject's last sequence, and the streams with their configuration.
func (b *broker) newest() map[string]string {
	b.t.Helper()
	js, err := b.as("operator")
	if err != nil {
		b.t.Fatal(err)
	}
	all := map[string]string{}
	for name, subjects := range map[string][]string{
		allowkv.Stream: {snapshot, heartbeat, subjectOf("other.snapshot")},
		audit.Stream:   {audit.Subject(gatewayID, "tokenauth"), audit.Subject("other", "tokenauth")},
	} {
		stream, err := js.Stream(b.t.Context(), name)
		if err != nil {
			b.t.Fatalf("look at stream %s: %v", name, err)
		}
		config, err := json.Marshal(stream.CachedInfo().Config)
		if err != nil {
			b.t.Fatal(err)
		}
		all["stream "+name] = string(config)
		for _, subject := range subjects {
			reply, err := js.Conn().Request(apiPrefix+".STREAM.MSG.GET."+name, fmt.Appendf(nil, `{"last_by_subj":%q}`, subject), patience)
			var last struct {
				Message *struct{ Seq uint64 }
				Error   struct {
					Code int
				}
			}
			if err == nil {
				err = json.Unmarshal(reply.Data, &last)
			}
			switch {
			case err != nil || last.Message == nil && last.Error.Code != 404:
				b.t.Fatalf("look at %s: %v: %.200s", subject, err, reply.Data)
			case last.Message != nil:
				all[subject] = fmt.Sprintf("message %d", last.Message.Seq)
			}
		}
	}
	return all
}

// changes reports whether a request stores or changes something by right, so that TestAnswersGoNowhereElse cannot tell by the streams
// whether its answer does.
func changes(subject string) bool {
	return strings.Contains(subject, "CONSUMER.CREATE") || strings.Contains(subject, "CONSUMER.DELETE") ||
		strings.Contains(subject, "STREAM.UPDATE") || !strings.HasPrefix(subject, apiPrefix)
}

// change is a request that changes something by right.
type change struct {
	subject, body string
	// silent says that nobody answers it.
	silent bool
}

// made are the requests that a right to change something is for, filled in so that they succeed.
func (b *broker) made(own mine, subject string) []change {
	b.t.Helper()
	_, rest, creates := strings.Cut(subject, ".CONSUMER.CREATE.")
	switch {
	case creates:
		stream, filter, _ := strings.Cut(rest, ".*.")
		name := "own-" + rand.Text()
		return []change{{subject: strings.Replace(subject, "*", name, 1), body: fmt.Sprintf(
			`{"stream_name":%q,"config":{"name":%q,"filter_subject":%q,"ack_policy":"none","deliver_policy":"all","mem_storage":true}}`, stream, name, filter)}}
	case strings.Contains(subject, "STREAM.UPDATE"):
		return []change{{subject: subject, body: strings.TrimSpace(b.newest()["stream "+audit.Stream])}, {subject: subject, body: "{}"}}
	case strings.HasPrefix(subject, "$JS.FC."):
		return []change{{subject: strings.Replace(subject, ">", "some", 1), silent: true}}
	case strings.HasPrefix(subject, apiPrefix):
		var all []change
		for _, filled := range own.fill(subject) {
			all = append(all, change{subject: filled})
		}
		return all
	default:
		return []change{{subject: subject, body: `{"stored":"by right"}`}}
	}
}

// TestAnswersToChangesGoNowhereElse: as TestAnswersGoNowhereElse, with the requests that store or change something by right, the
// acknowledgement of what is stored above all (NATS reference 5.3): where their answers are addressed to, nothing is stored.
func TestAnswersToChangesGoNowhereElse(t *testing.T) {
	t.Parallel()
	for _, who := range table() {
		t.Run(who.name, func(t *testing.T) {
			t.Parallel()
			b, err := stocked(t, single(t))
			if err != nil {
				t.Fatal(err)
			}
			nc, err := b.bare(who.name)
			if err != nil {
				t.Fatal(err)
			}
			own, before, tried := b.consumers(who), b.newest(), 0
			for _, g := range who.publishes {
				subject := parts.Replace(g.asks)
				if !changes(subject) {
					continue
				}
				for _, target := range targets() {
					if among(who.publishes, target) {
						continue // it may store there anyway
					}
					for _, c := range b.made(own, subject) {
						if err := nc.PublishRequest(c.subject, target, []byte(c.body)); err != nil {
							t.Fatal(err)
						}
						tried++
						// Answers come in the order of the requests, so the one before has been answered, too.
						if c.silent {
							continue
						}
						if _, err := nc.Request(c.subject, []byte(c.body), patience); err != nil {
							t.Fatalf("%s answers nothing: %v", c.subject, err)
						}
					}
				}
			}
			if tried == 0 {
				t.Error("nothing was tried")
			}
			after := b.newest()
			for subject, want := range before {
				if got := after[subject]; got != want && !among(who.publishes, subject) {
					t.Errorf("%s was\n%s\nis\n%s", subject, want, got)
				}
			}
			for subject := range after {
				if _, was := before[subject]; !was {
					t.Errorf("something is stored on %s: %s", subject, after[subject])
				}
			}
		})
	}
}

// TestTheTrickWorksWithChanges: what TestAnswersToChangesGoNowhereElse tries does store an acknowledgement, or what is told of a consumer, for
// whoever is in the account of the bucket. So that test can fail.
func TestTheTrickWorksWithChanges(t *testing.T) {
	t.Parallel()
	b, nc := insider(t)
	requests := []string{subjectOf("other.heartbeat"), "$JS.API.CONSUMER.CREATE." + allowkv.Stream + ".*." + subjectOf(gatewayID+".*"), "$JS.API.STREAM.UPDATE." + audit.Stream}
	for _, subject := range requests {
		before := b.newest()
		for _, c := range b.made(mine{t: t}, subject) {
			if err := nc.PublishRequest(c.subject, snapshot, []byte(c.body)); err != nil {
				t.Fatal(err)
			}
		}
		cluster.Eventually(t, "the answer of "+subject+" is stored", func(context.Context) error {
			if after := b.newest(); after[snapshot] == before[snapshot] {
				return errors.New("not yet")
			}
			return nil
		})
	}
}
