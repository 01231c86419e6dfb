package allowkv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Codes of JetStream API errors that are answers rather than faults (NATS reference 2.1, 3.4).
const (
	codeNoMessage      = jetstream.JSErrCodeMessageNotFound                 // 10037
	codeMessageSize    = jetstream.JSErrCodeStreamMessageExceedsMaximum     // 10054
	codeStreamExists   = jetstream.JSErrCodeStreamNameInUse                 // 10058
	codeNoStream       = jetstream.JSErrCodeStreamNotFound                  // 10059
	codeWrongSequence  = jetstream.JSErrCodeStreamWrongLastSequence         // 10071
	codeWrongSequenceR = jetstream.JSErrCodeStreamWrongLastSequenceConstant // 10164: replicated streams, without the sequence
)

// apiFailure is the part of every API answer that says whether it is an error. Answers embed it.
type apiFailure struct {
	Error *jetstream.APIError `json:"error"`
}

func (f *apiFailure) failure() *jetstream.APIError { return f.Error }

// apiSubject is where requests to an endpoint of the JetStream API go, under the prefix that js was made with.
func apiSubject(js jetstream.JetStream, endpoint string) string {
	options := js.Options()
	switch {
	case options.APIPrefix != "":
		return strings.TrimSuffix(options.APIPrefix, ".") + "." + endpoint
	case options.Domain != "":
		return "$JS." + options.Domain + ".API." + endpoint
	default:
		return jetstream.DefaultAPIPrefix + endpoint
	}
}

// askAPI sends one request of the JetStream API and reads the answer. It exists for what nats.go's own calls hide: the
// leader read, which they turn into a direct get, and the fields of a stream that they do not know. It does not try
// again. ctx must have a deadline. An answer that is an error is a *jetstream.APIError in the error.
func askAPI(ctx context.Context, js jetstream.JetStream, endpoint string, body any, answer interface{ failure() *jetstream.APIError }) error {
	var request []byte
	if body != nil {
		var err error
		if request, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode the request to %s: %w", endpoint, err)
		}
	}
	to := apiSubject(js, endpoint)
	reply, err := js.Conn().RequestWithContext(ctx, to, request)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("nobody answers on %s: JetStream is off or not enabled for this account: %w", to, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer on %s in time: the stream has no leader, or this identity may not ask: %w", to, err)
	case err != nil:
		return fmt.Errorf("request to %s: %w", to, err)
	}
	if err := json.Unmarshal(reply.Data, answer); err != nil {
		return fmt.Errorf("answer to %s: %w", to, err)
	}
	if failure := answer.failure(); failure != nil {
		return failure
	}
	return nil
}

// codeOf is the code of the API error in err; zero when there is none.
func codeOf(err error) jetstream.ErrorCode {
	var failure *jetstream.APIError
	if errors.As(err, &failure) {
		return failure.ErrorCode
	}
	return 0
}
