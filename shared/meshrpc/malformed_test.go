package meshrpc

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// wire sends what it is given, byte by byte.
type wire struct{}

func (wire) Name() string { return "proto" }

func (wire) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (wire) Unmarshal(data mem.BufferSlice, v any) error {
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}

// field is an encoded field of bytes.
func field(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

// In both requests, 7 is the message response_status, and 2 of that a text. notKey is of a map of SimpleRequest. cutShort says that 100 bytes
// follow, and they do not.
var (
	notText  = field(7, field(2, []byte("hidden\xff")))
	notKey   = field(11, field(4, field(1, []byte("hidden\xff"))))
	cutShort = append(protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.BytesType), 100), "hidden"...)
)

func TestMalformed(t *testing.T) {
	ca := meshtest.NewCA(t)
	address := join(t, configFor(meshtest.NewFiles(t, ca, "tokenauth")), "tokenauth").serve(t, onlyLifecycle(), &service{})
	call := func(daemon, method string, streams bool, sent []byte) error {
		conn := stranger(t, address, credentials.NewTLS(insecureTLS(nil, ca.Issue(t, daemon).TLS(t))))
		stream, err := conn.NewStream(testContext(t), &grpc.StreamDesc{ServerStreams: streams, ClientStreams: true}, "/"+testService+"/"+method, grpc.ForceCodecV2(wire{}))
		must(t, err)
		_ = stream.SendMsg(sent) // io.EOF says that the answer is there already
		_ = stream.CloseSend()
		return stream.RecvMsg(new(grpc_testing.SimpleResponse))
	}
	cases := map[string]struct {
		daemon, method string
		streams        bool
		sent           []byte
		code           codes.Code
		message        string
	}{
		"in order":                     {"lifecycle", "UnaryCall", false, nil, codes.OK, ""},
		"a string that is no text":     {"lifecycle", "UnaryCall", false, notText, codes.InvalidArgument, "response_status.message: is not valid UTF-8"},
		"a key that is no text":        {"lifecycle", "UnaryCall", false, notKey, codes.InvalidArgument, "orca_per_query_report.utilization: is not valid UTF-8"},
		"no message":                   {"lifecycle", "UnaryCall", false, cutShort, codes.InvalidArgument, "the request is not a message that this method takes"},
		"a stream's, no text":          {"lifecycle", "StreamingOutputCall", true, notText, codes.InvalidArgument, "response_status.message: is not valid UTF-8"},
		"a stream's, no message":       {"lifecycle", "StreamingOutputCall", true, cutShort, codes.InvalidArgument, "the request is not a message that this method takes"},
		"of a caller who may not call": {"nswatch", "UnaryCall", false, notText, codes.PermissionDenied, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := call(c.daemon, c.method, c.streams, c.sent)
			s := status.Convert(err)
			if s.Code() != c.code || c.message != "" && s.Message() != c.message {
				t.Errorf("the answer is %v", err)
			}
			if strings.Contains(s.Message(), "hidden") {
				t.Errorf("it repeats what was sent: %v", err)
			}
			if d, ok := verdict.FromError(err); c.code == codes.InvalidArgument && (!ok || d.Reason != verdict.RequestInvalid || d.Outcome() != verdict.Denied) {
				t.Errorf("the verdict is %s", d.Explain())
			}
		})
	}
}

// The handler and the interceptors never see a part of a malformed request, also not where the codec is missing.
func TestMalformedIsNotHandled(t *testing.T) {
	var handled bool
	handler := func(service any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		request := new(grpc_testing.Payload)
		if err := decode(request); err != nil {
			return nil, err
		}
		return interceptor(ctx, request, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { handled = true; return nil, nil })
	}
	half := mem.BufferSlice{mem.SliceBuffer(append(field(2, []byte("half")), cutShort...))}
	decoding := func(v any) error { return keeping{}.Unmarshal(half, v) }
	s := strict{answer: verdict.Decision.SafeErr}
	var seen int
	_, err := s.unary(handler)(nil, t.Context(), decoding, func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if seen++; proto.Size(request.(proto.Message)) != 0 {
			t.Errorf("an interceptor sees %v", request)
		}
		return next(ctx, request)
	})
	if handled || seen != 1 || status.Code(err) != codes.InvalidArgument || len(status.Convert(err).Details()) != 0 {
		t.Errorf("handled: %t, %d interceptors, error %v", handled, seen, err)
	}
	for name, c := range map[string]struct {
		decode func(any) error
		code   codes.Code
	}{
		"an error of the transport": {func(any) error { return status.Error(codes.ResourceExhausted, "too large") }, codes.ResourceExhausted},
		"without interceptors":      {decoding, codes.InvalidArgument},
		"without the codec":         {func(v any) error { return encoding.GetCodecV2("proto").Unmarshal(half, v) }, codes.Unknown},
	} {
		if _, err := s.unary(handler)(nil, t.Context(), c.decode, nil); handled || status.Code(err) != c.code {
			t.Errorf("%s: handled: %t, error %v", name, handled, err)
		}
	}
	if _, err = s.unary(handler)(nil, t.Context(), func(any) error { return nil }, nil); !handled || err != nil {
		t.Errorf("in order: handled: %t, error %v", handled, err)
	}
}

// Of two, the later one answers.
func TestRefuseMalformedAgain(t *testing.T) {
	server := grpc.NewServer()
	twice := RefuseMalformed(RefuseMalformed(server, verdict.Decision.Err), verdict.Decision.SafeErr)
	if s, ok := twice.(strict); !ok || s.Registrar != Registrar(server) {
		t.Errorf("%T around %T", twice, s.Registrar)
	}
}

func TestNotUTF8(t *testing.T) {
	bad := []byte("a\xff")
	join := func(parts ...[]byte) (all []byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	number := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
	value := field(3, bad) // of google.protobuf.Value
	for range 2 * deepest {
		value = field(6, field(1, value))
	}
	for name, c := range map[string]struct {
		of      proto.Message
		encoded []byte
		path    string
	}{
		"a field":                    {new(grpc_testing.SimpleResponse), field(2, bad), "username"},
		"the second of two":          {new(grpc_testing.SimpleResponse), join(number, field(2, []byte("good")), field(3, bad)), "oauth_scope"},
		"bytes":                      {new(grpc_testing.Payload), field(2, bad), ""},
		"an unknown field":           {new(grpc_testing.Payload), field(1000, bad), ""},
		"of a message":               {new(grpc_testing.SimpleRequest), field(7, join(number, field(2, bad))), "response_status.message"},
		"of a list":                  {new(grpc_testing.LoadBalancerStatsRequest), join(field(3, nil), field(3, []byte("x")), field(3, bad)), "metadata_keys[2]"},
		"of a message of a list":     {new(grpc_testing.ClientConfigureRequest), join(field(2, field(2, nil)), field(2, field(3, bad))), "metadata[1].value"},
		"a key of a map":             {new(grpc_testing.TestOrcaReport), field(3, field(1, bad)), "request_cost"},
		"a value of a map":           {new(structpb.Struct), field(1, join(field(1, []byte("key")), field(2, field(3, bad)))), "fields.string_value"},
		"all is well":                {new(grpc_testing.SimpleResponse), field(2, []byte("good")), ""},
		"cut off before it":          {new(grpc_testing.SimpleResponse), join(cutShort, field(2, bad)), ""},
		"no field":                   {new(grpc_testing.SimpleResponse), bad, ""},
		"too deep to be looked for":  {new(structpb.Value), value, ""},
		"a string where a number is": {new(grpc_testing.EchoStatus), field(1, bad), ""},
	} {
		path, found := notUTF8(c.of.ProtoReflect().Descriptor(), c.encoded, 0)
		if path != c.path || found != (c.path != "") {
			t.Errorf("%s: %q, %t; want %q", name, path, found, c.path)
		}
	}
}

// It finds something exactly if protobuf refuses a message for it, and names no more than the message's own fields.
func FuzzNotUTF8(f *testing.F) {
	f.Add(notText)
	f.Add(notKey)
	f.Add(cutShort)
	f.Fuzz(func(t *testing.T, encoded []byte) {
		path, found := notUTF8(new(grpc_testing.SimpleRequest).ProtoReflect().Descriptor(), encoded, 0)
		err := proto.Unmarshal(encoded, new(grpc_testing.SimpleRequest))
		if found && err == nil {
			t.Errorf("%q is refused for %s, and is in order", encoded, path)
		}
		if !found && err != nil && strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%q is refused with %v, and nothing is found", encoded, err)
		}
		if strings.Trim(path, "abcdefghijklmnopqrstuvwxyz_.") != "" {
			t.Errorf("the path is %q", path)
		}
	})
}
