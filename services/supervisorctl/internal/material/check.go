package material

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	// MaxSecretBytes is how much the values of one Secret may hold together: the API server's own limit.
	MaxSecretBytes = 1 << 20
	// maxClaim is longer than any uid or resourceVersion that the API server makes, bytes.
	maxClaim = 253
	// reserved is kept in each Secret for the certificates and keys that are not made yet, and for the descriptor: several
	// times what they take.
	reserved = 16 << 10
)

// Error is one thing that is wrong with the facts. It holds nothing of a secret.
type Error struct {
	// Field of Facts, with the name of a variable where it is about one.
	Field string
	// Problem says what is wrong and what is expected.
	Problem string
}

// Fields of Facts that hold the files of the client's Secret, and the two that share a Secret with the files that came.
const (
	fieldClientCA          = "ClientCA"
	fieldClientCertificate = "ClientCertificate"
	fieldClientKey         = "ClientKey"
	fieldPassed            = "UpstreamProxyCA and ClientCA"
)

// ErrClient is an [*Error] about a file of the client's Secret, for errors.Is.
var ErrClient = errors.New("a file of the client's Secret cannot be used")

// Is reports whether target is ErrClient and the error is about one of its files.
func (e *Error) Is(target error) bool {
	return target == ErrClient && slices.Contains([]string{fieldClientCA, fieldClientCertificate, fieldClientKey, fieldPassed}, e.Field)
}

// Error names the field and the problem.
func (e *Error) Error() string { return "material: " + e.Field + ": " + e.Problem }

// Check reports everything that is wrong with the facts as errors.Join of [*Error], ordered by field; nil when Make can use
// them. Sizes apart, which Make knows better.
func (f *Facts) Check() error {
	var problems []error
	report := func(field, problem string) { problems = append(problems, &Error{Field: field, Problem: problem}) }
	if err := workspace.CheckSandboxID(f.SandboxID); err != nil {
		report("SandboxID", err.Error())
	}
	if len(validation.IsDNS1123Label(f.Namespace)) > 0 {
		report("Namespace", "is no DNS-1123 label")
	}
	for _, c := range []struct{ field, value string }{
		{"NamespaceUID", f.NamespaceUID},
		{"SandboxUID", f.SandboxUID},
		{"WorkloadPodUID", f.WorkloadPodUID},
		{"SupervisorPodUID", f.SupervisorPodUID},
		{"FenceUID", f.FenceUID},
		{"FenceResourceVersion", f.FenceResourceVersion},
		{"ResourceDigest", f.ResourceDigest},
	} {
		if problem := claimProblem(c.value); problem != "" {
			report(c.field, problem)
		}
	}
	f.checkNetwork(report)
	f.checkIdentity(report)
	f.checkEnv(report)
	f.checkBundle(report)
	f.checkPEM(report)
	return errors.Join(problems...)
}

func claimProblem(value string) string {
	switch {
	case value == "":
		return "is empty; it has to be read from the API before"
	case len(value) > maxClaim:
		return fmt.Sprintf("is longer than %d bytes", maxClaim)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }):
		return "holds whitespace or a character that does not print"
	}
	return ""
}

func (f *Facts) checkNetwork(report func(field, problem string)) {
	if f.BoundaryPort == 0 {
		report("BoundaryPort", "is 0")
	}
	a, err := netip.ParseAddr(f.ClusterIP)
	switch {
	case f.ClusterIP == "" || f.ClusterIP == "None":
		report("ClusterIP", "is not assigned; the boundary Service must not be headless")
	case err != nil || a.Zone() != "" || a.Is4In6() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback():
		report("ClusterIP", "is no address that a Service can have")
	}
	if f.HostGatewayIP == "" {
		return
	}
	if a, err := netip.ParseAddr(f.HostGatewayIP); err != nil || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() {
		report("HostGatewayIP", "is no address of a host; leave it empty for none")
	}
}

func (f *Facts) checkIdentity(report func(field, problem string)) {
	for _, c := range []struct {
		field string
		id    uint32
	}{{"WorkloadUID", f.WorkloadUID}, {"WorkloadGID", f.WorkloadGID}} {
		if c.id == 0 || c.id == math.MaxUint32 {
			report(c.field, "is not from 1 to 4294967294")
		}
	}
}

// checkEnv names variables and never shows a value.
func (f *Facts) checkEnv(report func(field, problem string)) {
	for _, name := range slices.Sorted(maps.Keys(f.ChildEnv)) {
		field, value := fmt.Sprintf("ChildEnv[%.64q]", name), f.ChildEnv[name]
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00") || !utf8.ValidString(name):
			report(field, "is no name of a variable: it is empty, not UTF-8, or holds = or NUL")
		case strings.HasPrefix(name, "OPENSHELL_"):
			report(field, "is reserved; variables of the runtime do not go to the workload")
		case strings.Contains(value, "\x00") || !utf8.ValidString(value):
			report(field, "has a value that holds NUL or is not UTF-8, which JSON cannot carry unchanged")
		}
	}
}

func (f *Facts) checkBundle(report func(field, problem string)) {
	if f.Bundle == nil || f.Bundle.SessionID() == "" || f.Bundle.Supervisor().IsZero() {
		report("Bundle", "is missing or was wiped")
	}
}

func (f *Facts) checkPEM(report func(field, problem string)) {
	for _, c := range []struct {
		field string
		text  []byte
	}{{"UpstreamProxyCA", f.UpstreamProxyCA}, {fieldClientCA, f.ClientCA}, {fieldClientCertificate, f.ClientCertificate}} {
		if problem := bundleProblem(c.text); problem != "" {
			report(c.field, problem)
		}
	}
	key := f.ClientKey.Expose() // to see whether it belongs to the certificate
	defer clear(key)
	switch {
	case len(f.ClientCertificate) == 0 && len(key) == 0:
	case len(f.ClientCertificate) == 0:
		report(fieldClientCertificate, "is missing beside ClientKey")
	case len(key) == 0:
		report(fieldClientKey, "is missing beside ClientCertificate")
	case len(f.ClientCA) == 0:
		report(fieldClientCA, "is missing beside ClientCertificate and ClientKey")
	default:
		if _, err := pemfile.ParseKeyPair(f.ClientCertificate, key); err != nil {
			report(fieldClientKey, "does not belong to ClientCertificate, or is no unencrypted PEM key")
		}
	}
}

// bundleProblem judges certificates that are copied into a Secret: all must be sound, and nothing else may come along.
func bundleProblem(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	if _, err := pemfile.Certificates(text); err != nil {
		return "holds no certificate in PEM, or one that is not sound"
	}
	if bytes.Contains(text, []byte("PRIVATE KEY")) {
		return "holds a private key"
	}
	return ""
}
