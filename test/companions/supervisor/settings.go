package supervisor

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
)

// Settings are the command line and the environment (contract 7.6).
type Settings struct {
	DescriptorFile string
	AuthFile       string
	Workdir        string // of every command
	HealthSocket   string
	SandboxID      string
	Endpoint       *url.URL // of the gateway, http or https
	TokenFile      string   // the projected ServiceAccount token
	CAFile         string   // of an https gateway; empty for the system's
	CertFile       string   // of the supervisor towards the gateway; may be empty
	KeyFile        string
	Main           MainProcess
}

// MainProcess is OPENSHELL_MAIN_PROCESS_SPEC.
type MainProcess struct {
	Version         int      `json:"version"`
	Command         []string `json:"command"`
	TTY             bool     `json:"tty"`
	AwaitAttachment bool     `json:"await_main_process_attachment"` // newer; not acted upon
}

// Parse reads the settings. The error names everything that is wrong.
func Parse(args []string, env map[string]string) (Settings, error) {
	var s Settings
	flags := flag.NewFlagSet("openshell-supervisor", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.DescriptorFile, "backend-descriptor-file", "", "runtime-descriptor.json")
	flags.StringVar(&s.AuthFile, "auth-bundle-file", "", "auth.json")
	flags.StringVar(&s.Workdir, "workdir", "", "working directory of commands")
	flags.StringVar(&s.HealthSocket, "health-socket-path", "", "socket that answers the health subcommand")
	// The stand-in mediates no egress. It knows these, so that what it does not know is a fault.
	for _, name := range []string{"upstream-proxy", "upstream-no-proxy", "upstream-proxy-auth-file", "upstream-proxy-ca-bundle"} {
		flags.String(name, "", "not used")
	}
	for _, name := range []string{"upstream-proxy-auth-allow-insecure", "upstream-proxy-connect-by-hostname"} {
		flags.Bool(name, false, "not used")
	}
	if err := flags.Parse(args); err != nil {
		return Settings{}, err
	}
	var problems []error
	if flags.NArg() > 0 {
		problems = append(problems, fmt.Errorf("argument %q: unexpected", flags.Arg(0)))
	}
	for name, path := range map[string]string{
		"--backend-descriptor-file": s.DescriptorFile, "--auth-bundle-file": s.AuthFile, "--workdir": s.Workdir, "--health-socket-path": s.HealthSocket,
	} {
		if !filepath.IsAbs(path) {
			problems = append(problems, fmt.Errorf("%s: %q is not an absolute path", name, path))
		}
	}
	problems = append(problems, s.environment(env)...)
	if err := errors.Join(problems...); err != nil {
		return Settings{}, err
	}
	return s, nil
}

func (s *Settings) environment(env map[string]string) []error {
	var problems []error
	wrong := func(name, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...)))
	}
	if got := env["OPENSHELL_ADMITTED_ISOLATION_BACKEND"]; got != "openshell-sandbox" {
		wrong("OPENSHELL_ADMITTED_ISOLATION_BACKEND", "%q is not openshell-sandbox", got)
	}
	if s.SandboxID = env["OPENSHELL_SANDBOX_ID"]; s.SandboxID == "" {
		wrong("OPENSHELL_SANDBOX_ID", "empty")
	}
	if s.TokenFile = env["OPENSHELL_K8S_SA_TOKEN_FILE"]; !filepath.IsAbs(s.TokenFile) {
		wrong("OPENSHELL_K8S_SA_TOKEN_FILE", "%q is not an absolute path", s.TokenFile)
	}
	var err error
	if s.Endpoint, err = url.Parse(env["OPENSHELL_ENDPOINT"]); err != nil || s.Endpoint.Hostname() == "" || (s.Endpoint.Scheme != "http" && s.Endpoint.Scheme != "https") {
		wrong("OPENSHELL_ENDPOINT", "not http://host[:port] or https://host[:port]")
	}
	if s.Main, err = ParseMainProcess(env["OPENSHELL_MAIN_PROCESS_SPEC"]); err != nil {
		wrong("OPENSHELL_MAIN_PROCESS_SPEC", "%v", err)
	}
	s.CAFile, s.CertFile, s.KeyFile = env["OPENSHELL_TLS_CA"], env["OPENSHELL_TLS_CERT"], env["OPENSHELL_TLS_KEY"]
	if (s.CertFile == "") != (s.KeyFile == "") {
		wrong("OPENSHELL_TLS_CERT", "OPENSHELL_TLS_CERT and OPENSHELL_TLS_KEY come together")
	}
	proxyCert, proxyKey := env["OPENSHELL_PROXY_CA_CERT"], env["OPENSHELL_PROXY_CA_KEY"]
	if proxyCert != "" || proxyKey != "" {
		// The stand-in intercepts nothing; that the pair fits is worth knowing all the same.
		if _, err := tls.LoadX509KeyPair(proxyCert, proxyKey); err != nil {
			wrong("OPENSHELL_PROXY_CA_CERT", "with OPENSHELL_PROXY_CA_KEY: %v", err)
		}
	}
	return problems
}

// maxSpec is the greatest size of a main process specification.
const maxSpec = 64 << 10

// ParseMainProcess reads a main process specification, as JSON or as base64url: and its unpadded
// encoding (contract 7.6).
func ParseMainProcess(value string) (MainProcess, error) {
	if len(value) > maxSpec {
		return MainProcess{}, fmt.Errorf("larger than %d bytes", maxSpec)
	}
	if encoded, ok := strings.CutPrefix(value, "base64url:"); ok {
		decoded, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
		if err != nil {
			return MainProcess{}, fmt.Errorf("base64url: %w", err)
		}
		value = string(decoded)
	}
	dec := json.NewDecoder(strings.NewReader(value))
	dec.DisallowUnknownFields()
	var m MainProcess
	switch err := dec.Decode(&m); {
	case err != nil:
		return MainProcess{}, err
	case dec.More():
		return MainProcess{}, errors.New("more than one JSON value")
	case m.Version != 1:
		return MainProcess{}, fmt.Errorf("version %d is not 1", m.Version)
	case len(m.Command) == 0 || m.Command[0] == "":
		return MainProcess{}, errors.New("command: empty")
	}
	return m, nil
}

// gateway returns the endpoint as host:port.
func (s Settings) gateway() string {
	port := s.Endpoint.Port()
	switch {
	case port != "":
	case s.Endpoint.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(s.Endpoint.Hostname(), port)
}
