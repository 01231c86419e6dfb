package audit

import (
	"testing"

	"github.com/nats-io/nats.go"
)

func TestAcknowledged(t *testing.T) {
	good := `{"stream":"PORTCULLIS_AUDIT","seq":5}`
	for _, test := range []struct {
		name, data string
		status     string
		want       cause
		alone      bool
	}{
		{"stored", good, "", noTrouble, false},
		{"stored before", `{"stream":"PORTCULLIS_AUDIT","seq":5,"duplicate":true}`, "", noTrouble, false},
		{"no responders", "", "503", causeNoStream, false},
		{"another stream", `{"stream":"OTHER","seq":5}`, "", causeRefused, false},
		{"no stream named", `{"seq":5}`, "", causeRefused, false},
		{"too large", `{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}`, "", causeRefused, true},
		{"account full", `{"error":{"code":503,"err_code":10047,"description":"insufficient storage"}}`, "", causeRefused, false},
		{"error beside a stream", `{"error":{"code":503,"err_code":10077},"stream":"PORTCULLIS_AUDIT"}`, "", causeRefused, false},
		{"garbage", "+OK", "", causeRefused, false},
		{"nothing", "", "", causeRefused, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer := &nats.Msg{Data: []byte(test.data), Header: nats.Header{}}
			if test.status != "" {
				answer.Header.Set("Status", test.status)
			}
			got := acknowledged(answer)
			if got == nil {
				got = &failure{}
			}
			if got.why != test.want || got.alone != test.alone || (got.why != noTrouble) != (got.Error() != "") {
				t.Errorf("got %+v", got)
			}
		})
	}
}
