package meshrpc

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

// TestAuthorityIsReplacedWithoutARefusal: from one authority to another in the documented steps, at each of which one end has its new files
// before the other: a new connection is refused at no moment, whichever end is first.
func TestAuthorityIsReplacedWithoutARefusal(t *testing.T) {
	for _, first := range []string{"tokenauth", "lifecycle"} {
		t.Run(first+" first", func(t *testing.T) {
			before, after := meshtest.NewCA(t), meshtest.NewCA(t)
			both := slices.Concat(before.PEM, after.PEM)
			ends := map[string]*meshtest.Files{"tokenauth": meshtest.NewFiles(t, before, "tokenauth"), "lifecycle": meshtest.NewFiles(t, before, "lifecycle")}
			server := join(t, configFor(ends["tokenauth"]), "tokenauth").running(t)
			client := join(t, configFor(ends["lifecycle"]), "lifecycle").running(t)
			address := server.serve(t, onlyLifecycle(), &service{})
			works := func(when string) {
				t.Helper()
				conn, err := client.NewClient(Target{Daemon: "tokenauth", Address: address})
				must(t, err)
				defer conn.Close()
				if got := status.Code(callEmpty(t, conn)); got != codes.OK {
					t.Errorf("%s a call over a new connection ends with %s", when, got)
				}
			}
			second := map[string]string{"tokenauth": "lifecycle", "lifecycle": "tokenauth"}[first]
			for _, step := range []struct {
				name   string
				signs  *meshtest.CA
				trusts []byte
			}{
				{"the new one is trusted", before, both}, {"the new one signs", after, both}, {"the old one is gone", after, after.PEM},
			} {
				for _, end := range []string{first, second} {
					pair := step.signs.Issue(t, end)
					ends[end].Replace(t, meshtest.Content{Pair: pair, CA: step.trusts})
					works(step.name + ": while " + end + " gets it")
					member := map[string]*member{"tokenauth": server, "lifecycle": client}[end]
					eventually(t, end+" has it", func() bool {
						return member.certs.current.Load().leaf.SerialNumber.Cmp(serial(t, pair)) == 0
					})
					works(step.name + ": when " + end + " has it")
				}
			}
			if got := callAs(t, address, before.Issue(t, "lifecycle")); got != codes.Unavailable {
				t.Errorf("at the end the old authority is still worth something: %s", got)
			}
		})
	}
}
