package control

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/gateway"
)

// Serve serves the gateway on a socket until ctx ends, which is no error. It returns when every connection is over.
func Serve(ctx context.Context, g *gateway.Gateway, socket string) error {
	l, err := udsock.Listen(ctx, socket, udsock.Options{})
	if err != nil {
		return err
	}
	var open sync.WaitGroup // connections
	server := &http.Server{Handler: handler(ctx, g), ReadHeaderTimeout: 10 * time.Second, ConnState: func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Done()
		default:
		}
	}}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err = server.Serve(l)
	_ = server.Close() // of connections that are left; the listener is closed
	open.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return errors.Join(err, l.Close())
}

func handler(ctx context.Context, g *gateway.Gateway) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		during, cancel := context.WithCancel(r.Context())
		defer context.AfterFunc(ctx, cancel)()
		defer cancel()
		tellEvents(during, g, w)
	})
	mux.HandleFunc("POST /v1/{operation}", func(w http.ResponseWriter, r *http.Request) {
		var request Request
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		d.DisallowUnknownFields()
		var reply Reply
		err := d.Decode(&request)
		if err != nil {
			err = status.Errorf(codes.InvalidArgument, "the request: %v", err)
		} else {
			reply, err = do(r.Context(), g, Operation(r.PathValue("operation")), request)
		}
		reply.Code, reply.Message = status.Code(err).String(), status.Convert(err).Message()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply) // who asked may be gone
	})
	return mux
}

func tellEvents(ctx context.Context, g *gateway.Gateway, w http.ResponseWriter) {
	events := g.Subscribe()
	defer events.Close()
	w.WriteHeader(http.StatusOK)
	to := http.NewResponseController(w)
	encoder := json.NewEncoder(w)
	for to.Flush() == nil {
		e, err := events.Next(ctx)
		if err != nil || encoder.Encode(e) != nil {
			return
		}
	}
}

func do(ctx context.Context, g *gateway.Gateway, op Operation, r Request) (Reply, error) {
	switch op {
	case Create:
		w, err := wish(r)
		if err != nil {
			return Reply{}, err
		}
		return one(g.Create(ctx, w))
	case Start:
		return one(g.Start(ctx, r.ID))
	case Stop:
		return Reply{}, g.Stop(ctx, r.ID)
	case Delete:
		return Reply{}, g.Delete(ctx, r.ID)
	case Get:
		if r.ID == "" {
			return one(g.Find(r.Workspace, r.Name))
		}
		return one(g.Get(r.ID))
	case List:
		all, err := g.List()
		return Reply{Sandboxes: all}, err
	case Exec:
		out, err := g.Exec(ctx, r.ID, r.Command, r.Stdin)
		return Reply{Stdout: out.Stdout, Stderr: out.Stderr, Exit: &out.Exit}, err
	case Drop:
		s, err := g.Session(ctx, r.ID)
		if err == nil {
			s.Drop()
		}
		return Reply{}, err
	case EnsureWorkspace:
		return Reply{}, g.EnsureWorkspace(ctx, r.Workspace)
	case DeleteWorkspace:
		return Reply{}, g.DeleteWorkspace(ctx, r.Workspace)
	case Sweep:
		return Reply{}, g.Sweep()
	case RotateKeys:
		return Reply{}, g.RotateKeys()
	default:
		return Reply{}, status.Errorf(codes.Unimplemented, "%q: no operation", op)
	}
}

func one(s gateway.Sandbox, err error) (Reply, error) {
	if err != nil {
		return Reply{}, err
	}
	return Reply{Sandbox: &s}, nil
}

func wish(r Request) (gateway.Wish, error) {
	w := gateway.Wish{ID: r.ID, Workspace: r.Workspace, Name: r.Name, Spec: &computev1.DriverSandboxSpec{}}
	if len(r.Spec) > 0 {
		if err := protojson.Unmarshal(r.Spec, w.Spec); err != nil {
			return w, status.Errorf(codes.InvalidArgument, "spec: %v", err)
		}
	}
	if len(r.DriverConfig) > 0 {
		w.DriverConfig = &structpb.Struct{}
		if err := protojson.Unmarshal(r.DriverConfig, w.DriverConfig); err != nil {
			return w, status.Errorf(codes.InvalidArgument, "driver_config: %v", err)
		}
	}
	return w, nil
}
