package material_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/launch"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/material"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// untouched is randomness that must not be asked for.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("a key was begun")
	return 0, errors.New("not for this test")
}

func TestRefusedFacts(t *testing.T) {
	ca, leaf, key := foreignCA(t)
	_, _, otherKey := foreignCAOf(t, 201)
	many := func(n int) []byte { return []byte(strings.Repeat(string(ca), n/len(ca)+1)) }
	env := func(name, value string) func(f *material.Facts) {
		return func(f *material.Facts) { f.ChildEnv = map[string]string{"PATH": "/bin", name: value} }
	}
	for _, c := range []struct {
		name, want string
		do         func(f *material.Facts)
	}{
		{"no sandbox id", "SandboxID: ", func(f *material.Facts) { f.SandboxID = "" }},
		{"long sandbox id", "SandboxID: ", func(f *material.Facts) { f.SandboxID = strings.Repeat("a", 37) }},
		{"sandbox id that is no label", "SandboxID: ", func(f *material.Facts) { f.SandboxID = "a.b" }},
		{"no namespace", "Namespace: ", func(f *material.Facts) { f.Namespace = "" }},
		{"namespace that is no label", "Namespace: ", func(f *material.Facts) { f.Namespace = "team/a" }},
		{"no namespace uid", "NamespaceUID: is empty", func(f *material.Facts) { f.NamespaceUID = "" }},
		{"no sandbox uid", "SandboxUID: is empty", func(f *material.Facts) { f.SandboxUID = "" }},
		{"no workload uid", "WorkloadPodUID: is empty", func(f *material.Facts) { f.WorkloadPodUID = "" }},
		{"no supervisor uid", "SupervisorPodUID: is empty", func(f *material.Facts) { f.SupervisorPodUID = "" }},
		{"no fence uid", "FenceUID: is empty", func(f *material.Facts) { f.FenceUID = "" }},
		{"no fence version", "FenceResourceVersion: is empty", func(f *material.Facts) { f.FenceResourceVersion = "" }},
		{"no digest", "ResourceDigest: is empty", func(f *material.Facts) { f.ResourceDigest = "" }},
		{"space in a claim", "SandboxUID: holds whitespace", func(f *material.Facts) { f.SandboxUID = "a b" }},
		{"line end behind a claim", "WorkloadPodUID: holds whitespace", func(f *material.Facts) { f.WorkloadPodUID += "\n" }},
		{"wide space in a claim", "FenceUID: holds whitespace", func(f *material.Facts) { f.FenceUID = "a\u2003b" }},
		{"line separator in a claim", "FenceUID: holds whitespace", func(f *material.Facts) { f.FenceUID = "a\u2028b" }},
		{"NUL in a claim", "NamespaceUID: holds whitespace or a character", func(f *material.Facts) { f.NamespaceUID = "a\x00" }},
		{"claim that is not UTF-8", "SupervisorPodUID: holds", func(f *material.Facts) { f.SupervisorPodUID = "a\xff" }},
		{"long claim", "FenceResourceVersion: is longer than 253", func(f *material.Facts) { f.FenceResourceVersion = strings.Repeat("1", 254) }},
		{"no port", "BoundaryPort: is 0", func(f *material.Facts) { f.BoundaryPort = 0 }},
		{"no address", "ClusterIP: is not assigned", func(f *material.Facts) { f.ClusterIP = "" }},
		{"headless", "ClusterIP: is not assigned", func(f *material.Facts) { f.ClusterIP = "None" }},
		{"name for an address", "ClusterIP: is no address", func(f *material.Facts) { f.ClusterIP = "boundary.team-a.svc" }},
		{"address with a port", "ClusterIP: is no address", func(f *material.Facts) { f.ClusterIP = "10.0.0.1:5500" }},
		{"address with a leading zero", "ClusterIP: is no address", func(f *material.Facts) { f.ClusterIP = "10.0.0.01" }},
		{"any address", "ClusterIP: is no address", func(f *material.Facts) { f.ClusterIP = "0.0.0.0" }},
		{"any IPv6 address", "ClusterIP: is no address", func(f *material.Facts) { f.ClusterIP = "::" }},
		{"loopback", "ClusterIP: is no address", func(f *material.Facts) { f.ClusterIP = "127.0.0.1" }},
		{"multicast", "ClusterIP: is no address", func(f *material.Facts) { f.ClusterIP = "ff02::1" }},
		{"address with a zone", "ClusterIP: is no address", func(f *material.Facts) { f.ClusterIP = "fe80::1%eth0" }},
		{"IPv4 in IPv6", "ClusterIP: is no address", func(f *material.Facts) { f.ClusterIP = "::ffff:10.0.0.1" }},
		{"name for the host gateway", "HostGatewayIP: is no address", func(f *material.Facts) { f.HostGatewayIP = "gateway" }},
		{"host gateway with a zone", "HostGatewayIP: is no address", func(f *material.Facts) { f.HostGatewayIP = "fe80::1%eth0" }},
		{"any host gateway", "HostGatewayIP: is no address", func(f *material.Facts) { f.HostGatewayIP = "0.0.0.0" }},
		{"uid 0", "WorkloadUID: is not from 1", func(f *material.Facts) { f.WorkloadUID = 0 }},
		{"uid -1", "WorkloadUID: is not from 1", func(f *material.Facts) { f.WorkloadUID = 4294967295 }},
		{"gid 0", "WorkloadGID: is not from 1", func(f *material.Facts) { f.WorkloadGID = 0 }},
		{"gid -1", "WorkloadGID: is not from 1", func(f *material.Facts) { f.WorkloadGID = 4294967295 }},
		{"variable without a name", `ChildEnv[""]: is no name`, env("", "classified")},
		{"variable with =", `ChildEnv["A=B"]: is no name`, env("A=B", "classified")},
		{"variable with NUL in its name", `ChildEnv["A\x00"]: is no name`, env("A\x00", "classified")},
		{"variable not in UTF-8", `ChildEnv["A\xff"]: is no name`, env("A\xff", "classified")},
		{"value with NUL", `ChildEnv["A"]: has a value`, env("A", "classified\x00")},
		{"value not in UTF-8", `ChildEnv["A"]: has a value`, env("A", "classified\xff")},
		{"reserved variable", `ChildEnv["OPENSHELL_ENDPOINT"]: is reserved`, env("OPENSHELL_ENDPOINT", "classified")},
		{"no bundle", "Bundle: is missing", func(f *material.Facts) { f.Bundle = nil }},
		{"zero bundle", "Bundle: is missing", func(f *material.Facts) { f.Bundle = &launch.Bundle{} }},
		{"wiped bundle", "Bundle: is missing", func(f *material.Facts) { f.Bundle.Wipe() }},
		{"bundle with wiped tokens", "Bundle: is missing", func(f *material.Facts) { f.Bundle.Supervisor().Wipe() }},
		{"proxy CA that is none", "UpstreamProxyCA: holds no certificate", func(f *material.Facts) { f.UpstreamProxyCA = []byte("classified") }},
		{"proxy CA cut off", "UpstreamProxyCA: holds no certificate", func(f *material.Facts) { f.UpstreamProxyCA = append(slices.Clone(ca), ca[:40]...) }},
		{"proxy CA with its key", "UpstreamProxyCA: holds a private key", func(f *material.Facts) { f.UpstreamProxyCA = append(slices.Clone(ca), key...) }},
		{"client CA that is none", "ClientCA: holds no certificate", func(f *material.Facts) { f.ClientCA = []byte("classified") }},
		{"client key alone", "ClientCertificate: is missing", func(f *material.Facts) { f.ClientCA, f.ClientKey = ca, secret.New(key) }},
		{"client certificate alone", "ClientKey: is missing", func(f *material.Facts) { f.ClientCA, f.ClientCertificate = ca, leaf }},
		{"client certificate without CA", "ClientCA: is missing", func(f *material.Facts) { f.ClientCertificate, f.ClientKey = leaf, secret.New(key) }},
		{"client key of another", "ClientKey: does not belong", func(f *material.Facts) { f.ClientCA, f.ClientCertificate, f.ClientKey = ca, leaf, secret.New(otherKey) }},
		{"client certificate with its key", "ClientCertificate: holds a private key", func(f *material.Facts) {
			f.ClientCA, f.ClientCertificate, f.ClientKey = ca, append(slices.Clone(leaf), key...), secret.New(key)
		}},
		{"environment too large", "ChildEnv: make a Secret", env("A", strings.Repeat("x", material.MaxSecretBytes-16<<10))},
		{"environment that grows in JSON", "ChildEnv: make a Secret", env("A", strings.Repeat("\x01", 200_000))},
		{"bundles too large together", "UpstreamProxyCA and ClientCA: make a Secret", func(f *material.Facts) {
			f.UpstreamProxyCA, f.ClientCA = many(600_000), many(450_000)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := valid(t)
			c.do(f)
			m, err := material.Make(f, untouched{t})
			var e *material.Error
			if m != nil || !errors.As(err, &e) || e.Field == "" || e.Problem == "" {
				t.Fatalf("got %v", err)
			}
			if !strings.HasPrefix(err.Error(), "material: "+c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want %q alone", err, c.want)
			}
			if client := strings.HasPrefix(c.want, "Client") || strings.Contains(c.want, "and ClientCA"); errors.Is(err, material.ErrClient) != client {
				t.Errorf("about a file of the client's: %t", !client)
			}
			for _, leaked := range []string{"classified", "xxxx", "BEGIN", gatewayToken, sandboxToken} {
				if strings.Contains(err.Error(), leaked) {
					t.Errorf("the error shows a value: %v", err)
				}
			}
		})
	}
}

func foreignCAOf(t *testing.T, seed byte) (ca, leaf, key []byte) {
	t.Helper()
	m := produce(t, valid(t), fixed(seed))
	return nil, m.Sandbox[material.FileCertificate].Expose(), m.Sandbox[material.FileKey].Expose()
}

// Everything that is wrong is told at once.
func TestAllProblems(t *testing.T) {
	err := (&material.Facts{ChildEnv: map[string]string{"": "", "OPENSHELL_X": ""}}).Check()
	want := strings.Join([]string{
		"SandboxID", "Namespace", "NamespaceUID", "SandboxUID", "WorkloadPodUID", "SupervisorPodUID", "FenceUID", "FenceResourceVersion",
		"ResourceDigest", "BoundaryPort", "ClusterIP", "WorkloadUID", "WorkloadGID", `ChildEnv[""]`, `ChildEnv["OPENSHELL_X"]`, "Bundle",
	}, " ")
	var got []string
	for line := range strings.Lines(fmt.Sprint(err)) {
		got = append(got, strings.Split(line, ": ")[1])
	}
	if strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, " "), want)
	}
}

func TestLimitsAreReached(t *testing.T) {
	f := valid(t)
	f.SandboxID, f.Namespace = strings.Repeat("a", 36), strings.Repeat("b", 63)
	for _, claim := range []*string{&f.NamespaceUID, &f.SandboxUID, &f.WorkloadPodUID, &f.SupervisorPodUID, &f.FenceUID, &f.FenceResourceVersion, &f.ResourceDigest} {
		*claim = strings.Repeat("u", 253)
	}
	f.ChildEnv = map[string]string{"A": strings.Repeat("x", material.MaxSecretBytes-24<<10)}
	ca, _, _ := foreignCA(t)
	f.UpstreamProxyCA = []byte(strings.Repeat(string(ca), (material.MaxSecretBytes-24<<10)/len(ca)))
	m := produce(t, f, rand.Reader)
	for name, files := range map[string]map[string]string{"sandbox": texts(m.Sandbox), "supervisor": texts(m.Supervisor)} {
		size := 0
		for _, text := range files {
			size += len(text)
		}
		if size >= material.MaxSecretBytes || size < material.MaxSecretBytes/2 {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
}
