package app_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

// TestReplayL21WhatItNeedsComesLate: with no API server, no NATS and neither of the other daemons it runs, says what is missing, and answers with
// a code after which a caller tries again; and when the API server comes, it is ready without a restart.
func TestReplayL21WhatItNeedsComesLate(t *testing.T) {
	s := newSite(t)
	p := s.start("--config", s.settings("shared", `http_address = "127.0.0.1:0"`, `supervisorctl_address = "127.0.0.1:1"`, `tokenauth_address = "127.0.0.1:1"`), "--log-level", "debug")
	p.Line("serving the driver")
	missing := body(p, "/readyz?verbose")
	for _, check := range []string{"[-] kubernetes: ", "[-] view: ", "readyz failed"} {
		if !strings.Contains(missing, check) {
			t.Errorf("nothing says %q: %s", check, missing)
		}
	}
	if live := body(p, "/livez"); live != "ok\n" {
		t.Errorf("it would be restarted: %s", live)
	}
	conn, err := udsock.NewClient(filepath.Join(s.dir, "s", "driver.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	driver := computev1.NewComputeDriverClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), commandtest.Patience)
	defer cancel()
	_, list := driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
	short, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	_, authenticate := driver.AuthenticateSandbox(short, &computev1.AuthenticateSandboxRequest{Credential: "x"})
	if status.Code(list) != codes.Unavailable || status.Code(authenticate) != codes.Unavailable && status.Code(authenticate) != codes.DeadlineExceeded {
		t.Errorf("list: %v; authenticate: %v", list, authenticate)
	}
	s.up.Store(true)
	commandtest.Eventually(t, "it is ready", func() bool { return body(p, "/readyz") == "ok\n" })
	if all, err := driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{}); err != nil || len(all.GetSandboxes()) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if code := p.Stop(); code != 0 {
		t.Errorf("it ended with %d: %s", code, p.Stderr.String())
	}
}
