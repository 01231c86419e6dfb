package command_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/command"
)

const waiting = "[portcullis.nswatch]\nhttp_address = \"127.0.0.1:0\"\nwait_at_start = true\n"

// probe asks the admin listener that a line of the log has told.
func probe(t *testing.T, log *transcript, message, path string) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		_, rest, told := strings.Cut(log.String(), `"address":"`)
		address, _, _ := strings.Cut(rest, `"`)
		if !told || !strings.Contains(log.String(), message) {
			continue
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil { // between two listeners
			continue
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err == nil {
			return fmt.Sprint(answer.StatusCode, " ", string(text))
		}
	}
	t.Fatalf("no answer at %s; the log:\n%s", path, log)
	return ""
}

// A daemon whose parts cannot be made stays alive, says why it is not ready, and starts when they can.
func TestStartThatWaits(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mended atomic.Bool
	var open opened
	var log transcript
	ended := make(chan result, 1)
	go func() {
		ended <- runInto(ctx, &log, program(func(_ context.Context, p *command.Parts[*own]) error {
			if !mended.Load() {
				p.Opened(&open)
				open.Add(1)
				p.Group.Add("part", func(context.Context) error { panic("started") })
				return errors.New("read key k.pem: no such file")
			}
			p.Group.Add("part", func(ctx context.Context) error { <-ctx.Done(); return nil })
			return p.Checks.AddReadiness("part", func(context.Context) error { return nil })
		}), nil, "--config", settings(t, waiting))
	}()
	if alive := probe(t, &log, "the start waits", "/livez"); alive != "200 ok\n" {
		t.Errorf("livez: %s", alive)
	}
	if ready := probe(t, &log, "the start waits", "/readyz"); !strings.HasPrefix(ready, "503 ") || !strings.Contains(ready, "start: read key k.pem: no such file") {
		t.Errorf("readyz: %s", ready)
	}
	mended.Store(true)
	if ready := probe(t, &log, `"message":"starting"`, "/readyz"); ready != "200 ok\n" {
		t.Errorf("readyz: %s", ready)
	}
	stop()
	if got := <-ended; got.code != 0 {
		t.Errorf("%+v", got)
	}
	if left := open.Load(); left != 0 {
		t.Errorf("%d of what the tries opened is open still", left)
	}
}

// opened counts what is not closed.
type opened struct{ atomic.Int32 }

func (o *opened) Close() error { o.Add(-1); return nil }

// A stop that comes while a start waits is no failure.
func TestStopOfAStartThatWaits(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log transcript
	ended := make(chan result, 1)
	go func() {
		ended <- runInto(ctx, &log, program(func(context.Context, *command.Parts[*own]) error { return errors.New("never") }), nil, "--config", settings(t, waiting))
	}()
	probe(t, &log, "the start waits", "/livez")
	stop()
	if got := <-ended; got.code != 0 {
		t.Errorf("%+v", got)
	}
}
