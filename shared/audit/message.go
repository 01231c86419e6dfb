package audit

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Stream is the JetStream stream of all events of an account.
const Stream = "PORTCULLIS_AUDIT"

// subjects are those of Stream.
const (
	subjectPrefix = "portcullis.audit."
	subjects      = subjectPrefix + ">"
)

// Subject is where the events of a daemon that serves a gateway are published: portcullis.audit.<gateway>.<daemon>. A
// gateway id is one token there, its dots written as %2E.
func Subject(gatewayID, daemon string) string {
	return subjectPrefix + token(gatewayID) + "." + token(daemon)
}

// token writes every byte that has a meaning in subjects, or none in text, as % and two hex digits.
func token(text string) string {
	if isToken(text) {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		if isToken(text[i : i+1]) {
			b.WriteByte(text[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", text[i])
		}
	}
	return b.String()
}

func isToken(text string) bool {
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
		default:
			return false
		}
	}
	return true
}

// message is e for the stream, acknowledged on reply. The id lets the server recognise a copy; the stream's name keeps
// another stream that has taken the subject from acknowledging it.
func message(subject, reply string, e *Entry) *nats.Msg {
	return &nats.Msg{
		Subject: subject, Reply: reply, Data: e.encode(),
		Header: nats.Header{
			jetstream.MsgIDHeader:          []string{e.Instance + "-" + strconv.FormatUint(e.Seq, 10)},
			jetstream.ExpectedStreamHeader: []string{Stream},
		},
	}
}

// failure is why one attempt to publish failed.
type failure struct {
	why cause
	// alone says that the one event is at fault, so that another attempt would fail too.
	alone bool
	text  string
}

func (f *failure) Error() string { return f.text }

// acknowledged reads the answer to a message: nil when the event is in the stream.
func acknowledged(answer *nats.Msg) *failure {
	if len(answer.Data) == 0 && answer.Header.Get("Status") == "503" { // no responders
		return &failure{why: causeNoStream, text: "no stream takes subject " + subjects +
			": bootstrap the stream " + Stream + ", and see that JetStream is on"}
	}
	var ack struct {
		Error  *jetstream.APIError `json:"error"`
		Stream string              `json:"stream"`
	}
	switch err := json.Unmarshal(answer.Data, &ack); {
	case err != nil:
		return &failure{why: causeRefused, text: "the answer is no acknowledgement: " + err.Error()}
	case ack.Error != nil:
		return &failure{
			why: causeRefused, alone: ack.Error.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum,
			text: "the server refused the event: " + ack.Error.Error(),
		}
	case ack.Stream != Stream:
		return &failure{why: causeRefused, text: "another stream than " + Stream + " took the event"}
	default:
		return nil
	}
}
