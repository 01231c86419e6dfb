package tokenauth_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

// recorded has every answer that the ledger holds be in the stream, as it was given, and every reason that flaws have among them.
func recorded(t *testing.T, s *tokenauth.Site, trail *tokenauth.Trail, ledger *tokenauth.Ledger) {
	t.Helper()
	answers := ledger.Answers()
	cluster.Eventually(t, "every answer is in the audit stream", func(ctx context.Context) error {
		entries, err := trail.Entries(ctx)
		if err != nil {
			return err
		}
		for id, told := range answers {
			entry, ok := entries[id]
			if !ok {
				return fmt.Errorf("the answer to %s is not there: %+v", id, told)
			}
			kept := tokenauth.Answer{Granted: entry.Outcome == verdict.Granted.String(), Reason: verdict.Reason(entry.Reason), Code: entry.Code}
			if kept != told {
				t.Fatalf("the answer to %s was %+v, the event says %+v", id, told, entry)
			}
			if entry.Gateway != s.GatewayID || entry.Daemon != "tokenauth" || entry.Caller == "" || entry.Seq == 0 {
				t.Fatalf("the event of %s does not say whose it is: %+v", id, entry)
			}
			if (entry.Token == "") != (told.Reason == verdict.CredentialMissing) {
				t.Fatalf("the event of %s does not say which token it was: %+v", id, entry)
			}
		}
		return nil
	})
	told := map[verdict.Reason]bool{}
	for _, answer := range answers {
		told[answer.Reason] = true
	}
	for _, f := range flaws {
		found := false
		for _, reason := range f.want {
			found = found || told[reason]
		}
		if !found {
			t.Errorf("no answer had a reason of the flaw %q", f.name)
		}
	}
}
