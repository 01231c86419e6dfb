package control_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/control"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begin starts a gateway with a control socket, and returns the socket.
func begin(t *testing.T) (*scripted.Driver, *control.Client) {
	t.Helper()
	d := scripted.Start(t)
	dir, err := os.MkdirTemp("", "ctl") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	store, err := record.Open(filepath.Join(dir, "records.db"), record.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := driverconf.Load(driverconf.Source{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{Socket: d.Socket(), Policy: defaults.Kubernetes.AdmissionPolicy()}, store)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "control.sock")
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for _, part := range []func() error{
		func() error { return g.Run(ctx) },
		func() error { return control.Serve(ctx, g, socket) },
	} {
		work.Go(func() {
			if err := part(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		work.Wait()
		_ = store.Close()
		_ = os.RemoveAll(dir)
	})
	<-g.Ready()
	client := control.NewClient(socket)
	for { // the socket may come a moment later
		if _, err := client.Do(companionstest.Limit(t), control.List, control.Request{}); err == nil || t.Context().Err() != nil {
			return d, client
		}
	}
}

func TestOperations(t *testing.T) {
	t.Parallel()
	d, c := begin(t)
	ctx := companionstest.Limit(t)
	for name, tc := range map[string]struct {
		op      control.Operation
		request control.Request
		code    codes.Code
		text    string
	}{
		"no such operation":  {"explode", control.Request{}, codes.Unimplemented, "explode"},
		"no such sandbox":    {control.Stop, control.Request{ID: "x"}, codes.NotFound, "not found"},
		"no name":            {control.Create, control.Request{Workspace: "w"}, codes.InvalidArgument, "name"},
		"a spec that is not": {control.Create, control.Request{Workspace: "w", Name: "n", Spec: json.RawMessage(`{"tomorrow":1}`)}, codes.InvalidArgument, "spec"},
		"a config that is not": {
			control.Create, control.Request{Workspace: "w", Name: "n", DriverConfig: json.RawMessage(`[]`)}, codes.InvalidArgument, "driver_config",
		},
		"config is disabled": {
			control.Create, control.Request{Workspace: "w", Name: "n", DriverConfig: json.RawMessage(`{"kubernetes":{"pod":{}}}`)}, codes.FailedPrecondition, "disabled",
		},
	} {
		_, err := c.Do(ctx, tc.op, tc.request)
		if status.Code(err) != tc.code || !strings.Contains(status.Convert(err).Message(), tc.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	made, err := c.Do(ctx, control.Create, control.Request{Workspace: "w", Name: "n", Spec: json.RawMessage(`{"logLevel":"debug","environment":{"A":"b"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	sent := d.Calls("CreateSandbox")[0].(*computev1.CreateSandboxRequest).GetSandbox().GetSpec()
	if sent.GetLogLevel() != "debug" || sent.GetEnvironment()["A"] != "b" {
		t.Errorf("sent %v", sent.GetEnvironment())
	}
	found, err := c.Do(ctx, control.Get, control.Request{Workspace: "w", Name: "n"})
	if err != nil || found.Sandbox.ID != made.Sandbox.ID || found.Sandbox.RuntimeIdentity == "" {
		t.Errorf("%+v, %v", found.Sandbox, err)
	}
}

// TestLimits: a request that is too long, or has what nobody knows, is refused.
func TestLimits(t *testing.T) {
	t.Parallel()
	_, c := begin(t)
	_, err := c.Do(companionstest.Limit(t), control.List, control.Request{Stdin: make([]byte, 4<<20)})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "too large") {
		t.Error(err)
	}
}
