package daemons_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// broker is a NATS server with several accounts, and the seeds of a user in each.
type broker struct {
	*natstest.Server
	// right is of the account that has the bucket, and the one for whoever says nothing of himself. powerless is a user of the same
	// account without rights, elsewhere one of another account, plain of one without JetStream, and stranger is no user at all.
	right, powerless, elsewhere, plain, stranger []byte
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	b := &broker{}
	var public [4]string
	for i, seed := range []*[]byte{&b.right, &b.powerless, &b.elsewhere, &b.plain} {
		public[i], *seed = natstest.NKey(t)
	}
	_, b.stranger = natstest.NKey(t)
	conf, err := os.CreateTemp(t.TempDir(), "nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conf, `
accounts {
  MESH { jetstream: enabled, users: [{nkey: %s}, {nkey: %s, permissions: {publish: {deny: ">"}, subscribe: {deny: ">"}}}] }
  ELSEWHERE { jetstream: enabled, users: [{nkey: %s}] }
  PLAIN { users: [{nkey: %s}] }
}
no_auth_user: %s
`, public[0], public[1], public[2], public[3], public[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := conf.Close(); err != nil {
		t.Fatal(err)
	}
	b.Server = natstest.Start(t, func(o *server.Options) {
		parsed, err := server.ProcessConfigFile(conf.Name())
		if err != nil {
			t.Fatal(err)
		}
		o.Accounts, o.Nkeys, o.NoAuthUser = parsed.Accounts, parsed.Nkeys, parsed.NoAuthUser
	})
	return b
}
