package driver_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	extensionv1 "github.com/portcullis-mesh/portcullis/proto/openshell/extension/v1"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/gateway/clock"
	"github.com/portcullis-mesh/portcullis/test/gateway/driver"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func policy() driverconf.AdmissionPolicy {
	return driverconf.AdmissionPolicy{ResourceAdmission: driverconf.ResourceAdmission{Enabled: true, RequiredLabels: map[string]string{
		"openshell.ai/sandbox-attachable": "true", "openshell.ai/sandbox-attachable-workspace": "${workspace}",
	}}}
}

func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func config(socket string) driver.Config {
	return driver.Config{Socket: socket, Policy: policy(), Retry: 250 * time.Millisecond, Patience: 30 * time.Second, Clock: clock.System{}}
}

// TestHandshake: what the gateway refuses to start with (contract 2.3, 2.4).
func TestHandshake(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(c *computev1.GetCapabilitiesResponse)
		config func(c *driver.Config)
		want   string
	}{
		"compatible":           {},
		"under the other name": {config: func(c *driver.Config) { c.Prefix = contract.Ryno }},
		"no extension":         {change: func(c *computev1.GetCapabilitiesResponse) { c.Extension = nil }, want: "upgrade the extension"},
		"another major":        {change: func(c *computev1.GetCapabilitiesResponse) { c.Extension.ProtocolVersion.Major = 2 }, want: "major 2"},
		"another minor":        {change: func(c *computev1.GetCapabilitiesResponse) { c.Extension.ProtocolVersion.Minor = 9 }},
		"without the contract": {change: func(c *computev1.GetCapabilitiesResponse) { c.Extension.SupportedCapabilities = nil }, want: "which the gateway requires"},
		"it wants more": {change: func(c *computev1.GetCapabilitiesResponse) {
			c.Extension.RequiredCapabilities = append(c.Extension.RequiredCapabilities, "openshell.compute.tomorrow")
		}, want: "openshell.compute.tomorrow"},
		"no policy":      {change: func(c *computev1.GetCapabilitiesResponse) { c.ResourceAdmissionPolicy = "" }, want: "does not acknowledge"},
		"policy v2":      {change: func(c *computev1.GetCapabilitiesResponse) { c.ResourceAdmissionPolicy = "v2:{}" }, want: "does not acknowledge"},
		"another policy": {config: func(c *driver.Config) { c.Policy.AllowDriverConfig = true }, want: "policies differ"},
		"spaced policy": {change: func(c *computev1.GetCapabilitiesResponse) {
			c.ResourceAdmissionPolicy = strings.Replace(scripted.Policy, ",", ", ", 1)
		}},
		"unreadable":       {change: func(c *computev1.GetCapabilitiesResponse) { c.ResourceAdmissionPolicy = "v1:{" }, want: "not readable"},
		"an unknown key":   {change: func(c *computev1.GetCapabilitiesResponse) { c.ResourceAdmissionPolicy = `v1:{"x":1}` }, want: "not readable"},
		"and then some":    {change: func(c *computev1.GetCapabilitiesResponse) { c.ResourceAdmissionPolicy += "{}" }, want: "something follows"},
		"lifecycle duties": {change: func(c *computev1.GetCapabilitiesResponse) { c.GatewayManagesLifecycle = true }, want: "gateway_manages_lifecycle"},
		"no policy is needed": {
			change: func(c *computev1.GetCapabilitiesResponse) { c.ResourceAdmissionPolicy = "" },
			config: func(c *driver.Config) { c.Policy.ResourceAdmission.Enabled = false },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scripted.Start(t)
			if tc.change != nil {
				s.SetCapabilities(tc.change)
			}
			c := config(s.Socket())
			if tc.config != nil {
				tc.config(&c)
			}
			d, err := driver.Connect(limit(t), c)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %q", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.Close() }()
			told := s.Calls("GetCapabilities")[0].(*computev1.GetCapabilitiesRequest).GetGateway()
			if told.GetImplementationName() != "openshell/gateway" || len(told.GetRequiredCapabilities()) != 1 {
				t.Errorf("the driver was told %v", told)
			}
			d.Capabilities().DriverName = "changed"
			if d.Capabilities().GetDriverName() != "scripted" {
				t.Error("the snapshot can be changed")
			}
		})
	}
}

// TestAcknowledged: bytes are compared, and equal meaning is not enough (contract 2.4).
func TestAcknowledged(t *testing.T) {
	t.Parallel()
	s := scripted.Start(t)
	d, err := driver.Connect(limit(t), config(s.Socket()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := d.Acknowledged(limit(t)); err != nil {
		t.Error(err)
	}
	s.Script("GetCapabilities", scripted.Fail(codes.Unavailable, "busy"))
	if err := d.Acknowledged(limit(t)); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	s.SetCapabilities(func(c *computev1.GetCapabilitiesResponse) {
		c.ResourceAdmissionPolicy = strings.Replace(scripted.Policy, ",", ", ", 1)
	})
	if err := d.Acknowledged(limit(t)); status.Code(err) != codes.FailedPrecondition {
		t.Error(err)
	}
	// A driver that was restarted is reached again, and not asked who it is.
	s.Kill()
	if err := d.Acknowledged(limit(t)); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	s.SetCapabilities(func(c *computev1.GetCapabilitiesResponse) {
		c.ResourceAdmissionPolicy, c.Extension = scripted.Policy, nil
	})
	s.Serve()
	for ctx := limit(t); ; {
		if err = d.Acknowledged(ctx); status.Code(err) != codes.Unavailable || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// TestDialling: every 250 ms, for 30 s (contract 2.1, 2.12).
func TestDialling(t *testing.T) {
	t.Parallel()
	manual := clock.NewManual(time.Unix(0, 0))
	c := config(filepath.Join(t.TempDir(), "none.sock"))
	c.Clock = manual
	result := make(chan error, 1)
	go func() {
		_, err := driver.Connect(limit(t), c)
		result <- err
	}()
	for range 120 {
		select {
		case err := <-result:
			t.Fatalf("gave up early: %v", err)
		default:
		}
		if err := manual.AwaitTimer(limit(t), 250*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		manual.Advance(250 * time.Millisecond)
	}
	if err := <-result; err == nil || !strings.Contains(err.Error(), "could not be reached within 30s") {
		t.Error(err)
	}

	// One that comes late is found.
	s := scripted.Start(t)
	s.Kill()
	late := clock.NewManual(time.Unix(0, 0))
	c.Socket, c.Clock = s.Socket(), late
	found := make(chan error, 1)
	go func() {
		d, err := driver.Connect(limit(t), c)
		if err == nil {
			err = d.Close()
		}
		found <- err
	}()
	if err := late.AwaitTimer(limit(t), 250*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	s.Serve()
	late.Advance(250 * time.Millisecond)
	if err := <-found; err != nil {
		t.Error(err)
	}
}

// TestSilence: what takes the connection and never answers is given up after the same 30 s, or as long as it was told.
func TestSilence(t *testing.T) {
	t.Parallel()
	silent := func(t *testing.T) string {
		listener, err := udsock.Listen(t.Context(), filepath.Join(t.TempDir(), "d", "driver.sock"), udsock.Options{Log: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer func() { _ = conn.Close() }()
			}
		}()
		return listener.Addr().String()
	}
	held := func(t *testing.T) string {
		s := scripted.Start(t)
		_, step := scripted.Hold(nil)
		s.Script("GetCapabilities", step)
		return s.Socket()
	}
	for name, raise := range map[string]func(*testing.T) string{"no connection": silent, "no answer": held} {
		for _, patience := range []time.Duration{time.Second, 30 * time.Second} {
			t.Run(name+" for "+patience.String(), func(t *testing.T) {
				t.Parallel()
				manual := clock.NewManual(time.Unix(0, 0))
				c := config(raise(t))
				c.Clock, c.Patience = manual, patience
				result := make(chan error, 1)
				go func() {
					_, err := driver.Connect(limit(t), c)
					result <- err
				}()
				if err := manual.AwaitTimer(limit(t), patience); err != nil {
					t.Fatal(err)
				}
				manual.Advance(patience - 1)
				select {
				case err := <-result:
					t.Fatalf("gave up early: %v", err)
				default:
				}
				manual.Advance(1)
				if err := <-result; err == nil || !strings.Contains(err.Error(), "within "+patience.String()) {
					t.Error(err)
				}
			})
		}
	}
}

// TestMetadata: every rule of contract 2.3, on each side.
func TestMetadata(t *testing.T) {
	t.Parallel()
	many := func(n int) []string {
		names := []string{driver.CapabilityContract, driver.CapabilityLaunch}
		for i := 2; i < n; i++ {
			names = append(names, "openshell.x."+strings.Repeat("a", i%100+1)+strings.Repeat("-b", i/100))
		}
		return names
	}
	for name, tc := range map[string]struct {
		change func(m *extensionv1.PeerMetadata)
		want   string
	}{
		"valid":               {func(*extensionv1.PeerMetadata) {}, ""},
		"no version":          {func(m *extensionv1.PeerMetadata) { m.ProtocolVersion = nil }, "protocol_version"},
		"no name":             {func(m *extensionv1.PeerMetadata) { m.ImplementationName = "" }, "implementation_name"},
		"a name of 128":       {func(m *extensionv1.PeerMetadata) { m.ImplementationName = strings.Repeat("n", 128) }, ""},
		"a name of 129":       {func(m *extensionv1.PeerMetadata) { m.ImplementationName = strings.Repeat("n", 129) }, "implementation_name"},
		"a control character": {func(m *extensionv1.PeerMetadata) { m.ImplementationVersion = "1\n" }, "implementation_version"},
		"128 capabilities":    {func(m *extensionv1.PeerMetadata) { m.SupportedCapabilities = many(128) }, ""},
		"129 capabilities":    {func(m *extensionv1.PeerMetadata) { m.SupportedCapabilities = many(129) }, "129 entries"},
		"named twice": {func(m *extensionv1.PeerMetadata) {
			m.RequiredCapabilities = append(m.RequiredCapabilities, m.RequiredCapabilities[0])
		}, "twice"},
		"two segments":     {func(m *extensionv1.PeerMetadata) { m.SupportedCapabilities[0] = "openshell.compute" }, "no capability"},
		"another first":    {func(m *extensionv1.PeerMetadata) { m.SupportedCapabilities[0] = "openshel.compute.x" }, "no capability"},
		"an empty segment": {func(m *extensionv1.PeerMetadata) { m.SupportedCapabilities[0] = "openshell..x" }, "no capability"},
		"upper case":       {func(m *extensionv1.PeerMetadata) { m.SupportedCapabilities[0] = "openshell.compute.X" }, "no capability"},
		"a capability of 129": {func(m *extensionv1.PeerMetadata) {
			m.SupportedCapabilities[0] = "openshell.a." + strings.Repeat("x", 117)
		}, "no capability"},
		"a capability of 128": {func(m *extensionv1.PeerMetadata) {
			m.SupportedCapabilities = append(m.SupportedCapabilities, "openshell.a."+strings.Repeat("x", 116))
		}, ""},
		"digits and hyphens": {func(m *extensionv1.PeerMetadata) {
			m.SupportedCapabilities = append(m.SupportedCapabilities, "openshell.0-9.-")
		}, ""},
		"an empty required":    {func(m *extensionv1.PeerMetadata) { m.RequiredCapabilities = []string{""} }, "required_capabilities"},
		"an unmet requirement": {func(m *extensionv1.PeerMetadata) { m.RequiredCapabilities = []string{"openshell.x.y"} }, "openshell.x.y"},
	} {
		for _, side := range []string{"gateway", "driver"} {
			gateway, peer := driver.Gateway("1"), scripted.Capabilities().GetExtension()
			changed := map[string]*extensionv1.PeerMetadata{"gateway": gateway, "driver": peer}[side]
			tc.change(changed)
			err := driver.Compatible(gateway, peer)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s of the %s: %v, want %q", name, side, err, tc.want)
			}
		}
	}
	if err := driver.Compatible(driver.Gateway("1"), nil); err == nil {
		t.Error("nobody is compatible")
	}
}
