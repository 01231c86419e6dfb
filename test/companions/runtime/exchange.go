package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/portcullis-mesh/portcullis/test/companions/bearer"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/exactjson"
)

// answer is what an operation says, what follows on the stream after it was said, and what to do
// when it could not be said. A zero function does nothing.
type answer struct {
	body any
	then func(ctx context.Context, stream *boundary.Stream) error
	drop func()
}

// operation reads its request and does it.
type operation func(r *Runtime, ctx context.Context, request []byte) (answer, *boundary.Failure)

// operations are all that the stand-in knows but attach and confirm, which come before them.
var operations = map[string]operation{
	boundary.OpStartAgent: startAgent, boundary.OpExec: execute, boundary.OpWait: wait, boundary.OpSignal: signal,
	boundary.OpTerminate: terminate, boundary.OpLoopbackConnect: connect,
}

// exchange answers one stream: the bearer first, then one request.
func (r *Runtime) exchange(ctx context.Context, stream *boundary.Stream) error {
	if err := r.authenticate(ctx); err != nil {
		r.cfg.Log.Warn().Err(err).Msg("refused a bearer")
		return boundary.Failed(boundary.Denied, "%v", err).Status()
	}
	frame, err := boundary.ReadFrame(stream)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return boundary.AsFailure(err).Status()
	}
	envelope, failure := boundary.Open(frame)
	if failure != nil && envelope.RequestID == "" {
		return failure.Status()
	}
	var (
		named boundary.Operation
		a     answer
	)
	if failure == nil {
		if err := json.Unmarshal(envelope.Request, &named); err != nil {
			failure = boundary.Failed(boundary.Invalid, "request: no operation")
		} else {
			a, failure = r.do(ctx, named.Operation, envelope.Request)
		}
	}
	if failure != nil {
		r.cfg.Log.Warn().Str("operation", named.Operation).Str("kind", string(failure.Kind)).Msg(failure.Message)
	}
	reply, err := boundary.SealReply(envelope.RequestID, a.body, failure)
	if err != nil {
		return boundary.Failed(boundary.Unavailable, "reply: %v", err).Status()
	}
	if err := boundary.WriteFrame(stream, reply); err != nil {
		if a.drop != nil {
			a.drop()
		}
		return err
	}
	if failure == nil && a.then != nil {
		return a.then(ctx, stream)
	}
	return nil
}

func (r *Runtime) authenticate(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	given := md.Get("authorization")
	if len(given) != 1 {
		return errors.New("bearer: not one authorization")
	}
	token, ok := strings.CutPrefix(given[0], "Bearer ")
	if !ok {
		return errors.New("bearer: authorization is of another scheme")
	}
	return bearer.Verify([]byte(token), r.material.keys, r.material.session(), r.cfg.Now())
}

func (r *Runtime) do(ctx context.Context, name string, request []byte) (answer, *boundary.Failure) {
	conn := connOf(ctx)
	switch name {
	case boundary.OpAttach:
		return r.attach(conn, request)
	case boundary.OpConfirm:
		return r.confirm(conn, request)
	}
	if failure := r.ownership.admit(conn, name); failure != nil {
		return answer{}, failure
	}
	op, known := operations[name]
	if !known {
		return answer{}, boundary.Failed(boundary.Invalid, "operation: not one of the stand-in")
	}
	return op(r, ctx, request)
}

func (r *Runtime) attach(conn uint64, request []byte) (answer, *boundary.Failure) {
	var req boundary.Attach
	if err := exactjson.Decode(request, &req); err != nil {
		return answer{}, boundary.Failed(boundary.Invalid, "attach: %v", err)
	}
	claims, failure := r.material.claims()
	if failure != nil {
		return answer{}, failure
	}
	if name := different(claims, req.ResourceClaims); name != "" {
		return answer{}, boundary.Failed(boundary.Denied, "attach: resource_claims: %s is not this runtime's", name)
	}
	if failure = r.ownership.attach(conn, req.SupervisorInstanceID); failure != nil {
		return answer{}, failure
	}
	return answer{body: boundary.Attached{SessionID: r.material.file.SessionID, Generation: r.material.file.Generation}}, nil
}

func (r *Runtime) confirm(conn uint64, request []byte) (answer, *boundary.Failure) {
	var req boundary.Confirm
	if err := exactjson.Decode(request, &req); err != nil {
		return answer{}, boundary.Failed(boundary.Invalid, "confirm: %v", err)
	}
	claims, failure := r.material.claims()
	if failure != nil {
		return answer{}, failure
	}
	instance, failure := r.ownership.confirm(conn)
	if failure != nil {
		return answer{}, failure
	}
	return answer{body: r.material.confirmation(instance, claims)}, nil
}
