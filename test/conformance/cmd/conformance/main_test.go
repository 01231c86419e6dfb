package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

func TestRun(t *testing.T) {
	call := func(args ...string) (code int, stdout, stderr string) {
		var out, problems bytes.Buffer
		code = run(t.Context(), args, &out, &problems)
		return code, out.String(), problems.String()
	}
	t.Run("a driver that conforms", func(t *testing.T) {
		d := scripted.Start(t)
		code, out, problems := call("--socket", d.Socket(), "--workspace", "team", "--only", "capabilities.stable,delete.absent,capabilities.policy")
		if code != 0 || !strings.Contains(out, "PASS delete.absent 2.6\n") || !strings.HasSuffix(out, "3 passed, 0 failed, 0 to be advised against, 0 not made\n") {
			t.Errorf("exit %d, output %s, errors %s", code, out, problems)
		}
	})
	t.Run("one that does not", func(t *testing.T) {
		d := scripted.Start(t)
		d.Script("StopSandbox", scripted.Fail(codes.Internal, "not now"))
		code, out, _ := call("--socket", d.Socket(), "--workspace", "team", "--only", "stop.absent", "--forbidden", "closed")
		want := `FAIL stop.absent 7.10: expected: the stop of an absent sandbox is NOT_FOUND; got: StopSandbox: expected NotFound, got Internal ("not now"); at a gateway: `
		if code != 1 || !strings.HasPrefix(out, want) {
			t.Errorf("exit %d, output %s", code, out)
		}
	})
	t.Run("what cannot be made", func(t *testing.T) {
		d := scripted.Start(t)
		code, out, _ := call("--socket", d.Socket(), "--workspace", "team", "--only", "crash.policy")
		if code != 0 || out != "---- crash.policy 2.4: not made: the target lacks a way to kill the driver\n0 passed, 0 failed, 0 to be advised against, 1 not made\n" {
			t.Errorf("exit %d, output %s", code, out)
		}
	})
	t.Run("no driver", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, problems bytes.Buffer
		code := run(ctx, []string{"--socket", t.TempDir() + "/none.sock", "--workspace", "team"}, &out, &problems)
		if code != 2 || problems.Len() == 0 {
			t.Errorf("exit %d, errors %s", code, &problems)
		}
	})
	t.Run("no socket", func(t *testing.T) {
		if code, _, problems := call("--workspace", "team"); code != 2 || !strings.Contains(problems, "--socket") {
			t.Errorf("exit %d, errors %s", code, problems)
		}
	})
}
