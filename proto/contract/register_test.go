package contract

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

func TestRegisterRefuses(t *testing.T) {
	cases := []struct {
		name string
		srv  computev1.ComputeDriverServer
		opts []Option
		want string
	}{
		{"no driver", nil, nil, "there is no driver"},
		{"no prefix", &driver{}, []Option{WithPrefixes()}, "no service prefix is given"},
		{"the zero prefix", &driver{}, []Option{WithPrefixes("")}, `service prefix "" is not known`},
		{"an unknown prefix", &driver{}, []Option{WithPrefixes(OpenShell, "openshel")}, `service prefix "openshel" is not known`},
		{"a prefix twice", &driver{}, []Option{WithPrefixes(Ryno, Ryno)}, "ryno.compute.v1.ComputeDriver is registered already"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := grpc.NewServer()
			err := Register(server, c.srv, c.opts...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q in it", err, c.want)
			}
			if info := server.GetServiceInfo(); len(info) != 0 {
				t.Errorf("registered in spite of the error: %v", info)
			}
		})
	}
}

func TestRegisterTwiceIsAnError(t *testing.T) {
	server := grpc.NewServer()
	if err := Register(server, &driver{}); err != nil {
		t.Fatal(err)
	}
	if err := Register(server, &driver{}, WithPrefixes(Ryno, OpenShell)); err == nil {
		t.Fatal("no error")
	}
	if _, ok := server.GetServiceInfo()[Ryno.ServiceName()]; ok {
		t.Error("half of the second call was registered")
	}
	if err := Register(server, &driver{}, WithPrefixes(Ryno)); err != nil {
		t.Errorf("another prefix: %v", err)
	}
}

func TestGeneratedDescriptionStaysUntouched(t *testing.T) {
	server := grpc.NewServer()
	if err := Register(server, &driver{}, WithPrefixes(Ryno, OpenShell), WithLegacyGateways()); err != nil {
		t.Fatal(err)
	}
	desc := computev1.ComputeDriver_ServiceDesc
	if desc.ServiceName != "openshell.compute.v1.ComputeDriver" {
		t.Errorf("service name = %q", desc.ServiceName)
	}
	if slices.ContainsFunc(desc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == legacyMethod }) {
		t.Error("the removed method is in the generated description")
	}
	methods := map[string][]string{}
	for name, info := range server.GetServiceInfo() {
		for _, m := range info.Methods {
			methods[name] = append(methods[name], m.Name)
		}
		slices.Sort(methods[name])
	}
	if len(methods) != 2 || !slices.Equal(methods[Ryno.ServiceName()], methods[OpenShell.ServiceName()]) || len(methods[Ryno.ServiceName()]) != 13 {
		t.Errorf("registered methods = %v", methods)
	}
}

func TestPrefix(t *testing.T) {
	for _, p := range Prefixes() {
		if got, err := ParsePrefix(string(p)); err != nil || got != p {
			t.Errorf("ParsePrefix(%q) = %q, %v", p, got, err)
		}
	}
	for _, s := range []string{"", "OpenShell", "openshell.", "open shell", "ryno\n"} {
		if got, err := ParsePrefix(s); err == nil || got != "" {
			t.Errorf("ParsePrefix(%q) = %q, %v, want an error", s, got, err)
		}
	}
	if got := Ryno.FullMethod("GetSandbox"); got != "/ryno.compute.v1.ComputeDriver/GetSandbox" {
		t.Errorf("FullMethod = %q", got)
	}
	if got := OpenShell.FullMethod("GetSandbox"); got != computev1.ComputeDriver_GetSandbox_FullMethodName {
		t.Errorf("FullMethod = %q", got)
	}
}

func TestCanonicalLeavesOtherPathsAlone(t *testing.T) {
	for _, path := range []string{"", "/grpc.health.v1.Health/Check", "/ryno.compute.v2.ComputeDriver/GetSandbox", "ryno.compute.v1.ComputeDriver/GetSandbox", "/evil.compute.v1.ComputeDriver/GetSandbox"} {
		if got := Canonical(path); got != path {
			t.Errorf("Canonical(%q) = %q", path, got)
		}
	}
}

func TestConnRenamesTheDriverOnly(t *testing.T) {
	for _, p := range []Prefix{"", "nobody"} {
		if cc, err := NewConn(nil, p); err == nil || cc != nil {
			t.Errorf("NewConn under %q = %v, %v, want an error", p, cc, err)
		}
	}
	c := conn{prefix: Ryno}
	for path, want := range map[string]string{
		computev1.ComputeDriver_GetSandbox_FullMethodName: "/ryno.compute.v1.ComputeDriver/GetSandbox",
		"/grpc.health.v1.Health/Check":                    "/grpc.health.v1.Health/Check",
		"/openshell.v1.OpenShell/GetSandbox":              "/openshell.v1.OpenShell/GetSandbox",
	} {
		if got := c.rename(path); got != want {
			t.Errorf("rename(%q) = %q, want %q", path, got, want)
		}
	}
}
