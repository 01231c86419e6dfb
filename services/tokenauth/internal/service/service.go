package service

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/flight"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/inquiry"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Inquirer decides about one bearer; *inquiry.Inquirer is one. It ends soon after ctx.
type Inquirer interface {
	Decide(ctx context.Context, request inquiry.Request) authenticate.Result
}

// Recorder keeps decisions, without waiting and without failing; *audit.Trail is one.
type Recorder interface {
	Record(event audit.Event)
}

// Steps of the refusals that are made here and not by the evaluator.
const (
	stepConcurrency = "request.concurrency"
	stepDeadline    = "request.deadline"
	stepDefect      = "request.defect"
)

// Service is the server of the call. Make it with New.
type Service struct {
	tokenauthv1.UnimplementedTokenAuthServiceServer

	settings Settings
	inquirer Inquirer
	recorder Recorder
	hasher   *audit.Hasher
	log      zerolog.Logger
	metrics  *metrics
	limits   *limits
	flights  *flight.Group[bearer, authenticate.Result]
	// key makes the bearers of this process.
	key []byte
}

var _ tokenauthv1.TokenAuthServiceServer = (*Service)(nil)

// bearer is a credential presented for a gateway, without the credential.
type bearer [sha256.Size]byte

// New makes a Service and registers the metrics portcullis_tokenauth_decisions_total, _decision_seconds, _calls_in_progress
// and _calls_shared_total. It starts nothing.
func New(settings Settings, inquirer Inquirer, recorder Recorder, hasher *audit.Hasher, log zerolog.Logger, reg prometheus.Registerer) (*Service, error) {
	var problems []error
	settings.Validate(func(key, problem string) {
		problems = append(problems, fmt.Errorf("portcullis.tokenauth.%s %s", key, problem))
	})
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if inquirer == nil || recorder == nil || hasher == nil {
		return nil, errors.New("service: an inquirer, a recorder and a hasher must be given")
	}
	s := &Service{
		settings: settings, inquirer: inquirer, recorder: recorder, hasher: hasher, log: log,
		limits:  newLimits(&settings),
		flights: flight.New[bearer, authenticate.Result](),
		key:     make([]byte, sha256.Size),
	}
	if _, err := rand.Read(s.key); err != nil {
		return nil, fmt.Errorf("service: make a key to tell calls apart: %w", err)
	}
	var err error
	s.metrics, err = newMetrics(reg, func() float64 { return float64(s.limits.inProgress()) })
	return s, err
}

// Run waits for ctx, and then for all work that calls have begun. Calls that come later, or that wait, are refused.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
	s.flights.Stop()
	return nil
}

// Authenticate implements the call. An error is a refusal, with its verdict in the details.
func (s *Service) Authenticate(ctx context.Context, in *tokenauthv1.AuthenticateRequest) (*tokenauthv1.AuthenticateResponse, error) {
	began := time.Now()
	daemon.Accounted(ctx) // conclude writes lines about it
	caller := meshrpc.CallerFromContext(ctx).String()
	request := inquiry.NewRequest(in.GetCredential(), in.GetGatewayId())
	result := s.guarded(ctx, caller, request)
	s.conclude(result, audit.Event{
		Time: time.Now(), Call: "authenticate", Decision: result.Decision, Namespace: result.Bearer.Namespace,
		PodUID: result.Bearer.PodUID, SandboxID: result.Bearer.SandboxID, Token: s.hasher.Fingerprint(request.Credential),
		RequestID: in.GetRequestId(), Caller: caller, Duration: time.Since(began),
	})
	if err := result.Decision.Err(); err != nil {
		return nil, err
	}
	return &tokenauthv1.AuthenticateResponse{
		SandboxId: result.SandboxID, RuntimeIdentity: result.Identity.String(), Allowlist: result.Decision.Allowlist.Proto(),
	}, nil
}

// guarded decides within the limits.
func (s *Service) guarded(ctx context.Context, caller string, request inquiry.Request) authenticate.Result {
	key := s.bearerOf(request)
	if full := s.limits.enter(caller, key); full != "" {
		return refused(verdict.TooManyCalls, stepConcurrency, full)
	}
	defer s.limits.leave(caller, key)
	ctx, cancel := context.WithTimeout(ctx, s.settings.CallTimeout.Std())
	defer cancel()
	result, shared, err := s.flights.Do(ctx, key, func(ctx context.Context) authenticate.Result {
		return s.decide(ctx, request)
	})
	if shared {
		s.metrics.shared.Inc()
	}
	if err != nil {
		return refused(verdict.CallEnded, stepDeadline, "there was no answer before the call ended: "+err.Error())
	}
	return result
}

// decide makes one decision, for one call or several. ctx has the latest deadline of the calls that wanted it when it began.
// The decision ends after nine tenths of the time until then, so that they are told what it waited for, and not only that
// their time was over; a call with an earlier deadline is told the latter.
func (s *Service) decide(ctx context.Context, request inquiry.Request) (result authenticate.Result) {
	left := s.settings.CallTimeout.Std()
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	ctx, cancel := context.WithTimeout(ctx, left/10*9)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			// The value may hold anything, so only its type is told.
			kind, stack := fmt.Sprintf("%T", r), debug.Stack()
			if elsewhere, ok := r.(*inquiry.Panic); ok {
				kind, stack = elsewhere.Type, elsewhere.Stack
			}
			s.log.Error().Str(telemetry.KeyPanic, kind).Bytes(telemetry.KeyStack, stack).Msg("a decision panicked")
			result = refused(verdict.Unexplained, stepDefect, "the decision panicked; the log has the stack")
		}
	}()
	return s.inquirer.Decide(ctx, request)
}

func refused(reason verdict.Reason, step, explanation string) authenticate.Result {
	return authenticate.Result{Decision: verdict.Refuse(reason, step, explanation)}
}

func (s *Service) bearerOf(request inquiry.Request) bearer {
	mac := hmac.New(sha256.New, s.key)
	text := request.Credential.Expose() // the hash is over its bytes
	defer clear(text)
	// The length keeps a gateway's name from continuing as a credential.
	_, _ = fmt.Fprintf(mac, "%d:%s", len(request.GatewayID), request.GatewayID)
	mac.Write(text)
	return bearer(mac.Sum(nil))
}
