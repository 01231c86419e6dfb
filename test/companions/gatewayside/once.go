package gatewayside

import (
	"context"
	"crypto/rand"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// once is a Desk whose tokens mean nothing and open one session each.
type once struct {
	authenticate Authenticate

	mu     sync.Mutex
	issued map[string]string // token, not yet used -> sandbox id
}

func (o *once) Exchange(ctx context.Context, bearer secret.Value, sandboxID string) (string, error) {
	if err := o.authenticate(ctx, bearer, sandboxID); err != nil {
		return "", err
	}
	token := rand.Text()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.issued[token] = sandboxID
	return token, nil
}

func (o *once) Admit(_ context.Context, token secret.Value) (Admission, error) {
	text := string(token.Expose()) // to look it up
	o.mu.Lock()
	defer o.mu.Unlock()
	sandbox, known := o.issued[text]
	delete(o.issued, text)
	if !known {
		return Admission{}, status.Error(codes.Unauthenticated, "session token: not issued, or used before")
	}
	return Admission{SandboxID: sandbox}, nil
}
