package natstest

import (
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// NKey makes a user key pair: the public key for WithNKeys and the seed for a client's seed file.
func NKey(t testing.TB) (public string, seed []byte) {
	t.Helper()
	kp, err := nkeys.CreateUser()
	if err != nil {
		t.Fatalf("make NKEY: %v", err)
	}
	return publicKey(t, kp), seedOf(t, kp)
}

// Operator signs one account with unlimited JetStream, and users of that account, for servers in operator mode.
type Operator struct {
	t               testing.TB
	operator        nkeys.KeyPair
	account, system nkeys.KeyPair
}

// NewOperator makes the keys.
func NewOperator(t testing.TB) *Operator {
	t.Helper()
	return &Operator{
		t:        t,
		operator: pair(t, nkeys.CreateOperator),
		account:  pair(t, nkeys.CreateAccount),
		system:   pair(t, nkeys.CreateAccount),
	}
}

// Option puts a server under the operator: it then admits only users with credentials made by Creds.
func (op *Operator) Option() Option {
	return func(o *server.Options) {
		op.t.Helper()
		claims := jwt.NewOperatorClaims(publicKey(op.t, op.operator))
		claims.Name = "natstest"
		claims.SystemAccount = publicKey(op.t, op.system)
		resolver := &server.MemAccResolver{}
		op.store(resolver, op.account, "tenants", true)
		op.store(resolver, op.system, "system", false)
		o.TrustedOperators = []*jwt.OperatorClaims{claims}
		o.SystemAccount = claims.SystemAccount
		o.AccountResolver = resolver
	}
}

func (op *Operator) store(resolver *server.MemAccResolver, account nkeys.KeyPair, name string, jetStream bool) {
	op.t.Helper()
	claims := jwt.NewAccountClaims(publicKey(op.t, account))
	claims.Name = name
	if jetStream {
		claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
			MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
		}
	}
	token, err := claims.Encode(op.operator)
	if err != nil {
		op.t.Fatalf("sign account %s: %v", name, err)
	}
	if err := resolver.Store(claims.Subject, token); err != nil {
		op.t.Fatalf("store account %s: %v", name, err)
	}
}

// Creds is the content of a credentials file for a new user of the account.
func (op *Operator) Creds(user string) []byte {
	op.t.Helper()
	kp := pair(op.t, nkeys.CreateUser)
	claims := jwt.NewUserClaims(publicKey(op.t, kp))
	claims.Name = user
	token, err := claims.Encode(op.account)
	if err != nil {
		op.t.Fatalf("sign user %s: %v", user, err)
	}
	creds, err := jwt.FormatUserConfig(token, seedOf(op.t, kp))
	if err != nil {
		op.t.Fatalf("format credentials of %s: %v", user, err)
	}
	return creds
}

func pair(t testing.TB, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	kp, err := create()
	if err != nil {
		t.Fatalf("make key pair: %v", err)
	}
	return kp
}

func publicKey(t testing.TB, kp nkeys.KeyPair) string {
	t.Helper()
	public, err := kp.PublicKey()
	if err != nil {
		t.Fatalf("read public key: %v", err)
	}
	return public
}

func seedOf(t testing.TB, kp nkeys.KeyPair) []byte {
	t.Helper()
	seed, err := kp.Seed()
	if err != nil {
		t.Fatalf("read seed: %v", err)
	}
	return seed
}
