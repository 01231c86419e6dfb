package companion

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/material"
	"github.com/portcullis-mesh/portcullis/shared/mainprocess"
)

// The two variables of a trace. Comparing leaves them out: a repeated call has another trace.
const (
	variableTraceParent = "TRACEPARENT"
	variableTraceState  = "TRACESTATE"
)

// admittedBackend is the isolation backend of the stock runtime (contract 7.6).
const admittedBackend = "openshell-sandbox"

// environment is the supervisor's environment (contract 7.6), in a fixed order.
func (r *Renderer) environment(s *Sandbox, main mainprocess.Process) ([]corev1.EnvVar, error) {
	spec, err := mainprocess.Encode(main)
	if err != nil {
		return nil, err
	}
	env := []corev1.EnvVar{
		variable("OPENSHELL_ADMITTED_ISOLATION_BACKEND", admittedBackend),
		variable("OPENSHELL_ENDPOINT", r.settings.GRPCEndpoint),
		variable("OPENSHELL_SANDBOX_ID", s.ID),
		variable("OPENSHELL_SANDBOX", s.Name),
		variable("OPENSHELL_MAIN_PROCESS_SPEC", spec),
		variable("OPENSHELL_K8S_SA_TOKEN_FILE", tokenDirectory+"/"+tokenFile),
		variable("OPENSHELL_SSH_SOCKET_PATH", runDirectory+"/ssh.sock"),
		variable("OPENSHELL_SSH_SOCKET_SHARED", "true"),
		variable("OPENSHELL_PROXY_TLS_DIR", runDirectory+"/proxy-tls"),
		variable("OPENSHELL_PROXY_CA_CERT", bootstrapDirectory+"/"+material.FileProxyCA),
		variable("OPENSHELL_PROXY_CA_KEY", bootstrapDirectory+"/"+material.FileProxyCAKey),
		variable("OPENSHELL_TELEMETRY_ENABLED", strconv.FormatBool(r.options.Telemetry)),
		variable("OPENSHELL_NETWORK_RUNTIME_CAPABILITIES", ""),
	}
	if s.LogLevel != "" {
		env = append(env, variable("OPENSHELL_LOG_LEVEL", s.LogLevel))
	}
	env = append(env, r.clientTLS()...)
	env = append(env, r.tracing(s)...)
	if socket := r.settings.ProviderSpiffeWorkloadAPISocketPath; socket != "" {
		env = append(env, variable("OPENSHELL_PROVIDER_SPIFFE_WORKLOAD_API_SOCKET", socket))
	}
	return env, nil
}

// clientTLS names the files that the supervisor trusts the gateway by: those of the Secret itself in shared mode, where it
// is in the Pod's namespace, and staged ones elsewhere.
func (r *Renderer) clientTLS() []corev1.EnvVar {
	const ca, certificate, key = "OPENSHELL_TLS_CA", "OPENSHELL_TLS_CERT", "OPENSHELL_TLS_KEY"
	switch {
	case r.settings.ClientTLSSecretName == "":
		return nil
	case !r.stagesClient():
		return []corev1.EnvVar{
			variable(ca, clientTLSDirectory+"/ca.crt"),
			variable(certificate, clientTLSDirectory+"/tls.crt"),
			variable(key, clientTLSDirectory+"/tls.key"),
		}
	case !r.options.ClientKey:
		return []corev1.EnvVar{variable(ca, bootstrapDirectory+"/"+material.FileClientCA)}
	default:
		return []corev1.EnvVar{
			variable(ca, bootstrapDirectory+"/"+material.FileClientCA),
			variable(certificate, bootstrapDirectory+"/"+material.FileClientCertificate),
			variable(key, bootstrapDirectory+"/"+material.FileClientKey),
		}
	}
}

// maxTraceState is what every receiver must accept, by W3C Trace Context.
const maxTraceState = 512

var traceParentRule = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

func (r *Renderer) tracing(s *Sandbox) []corev1.EnvVar {
	if r.settings.SupervisorOTLPEndpoint == "" {
		return nil
	}
	env := []corev1.EnvVar{variable("OPENSHELL_OTLP_ENDPOINT", r.settings.SupervisorOTLPEndpoint)}
	if !traceParentRule.MatchString(s.TraceParent) {
		return env
	}
	env = append(env, variable(variableTraceParent, s.TraceParent))
	if s.TraceState != "" && len(s.TraceState) <= maxTraceState && printable(s.TraceState) {
		env = append(env, variable(variableTraceState, s.TraceState))
	}
	return env
}

func variable(name, value string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, Value: literal(value)}
}

// literal is the text that the kubelet turns into value: it reads $$ as a dollar sign and $(NAME) as a variable.
func literal(value string) string { return strings.ReplaceAll(value, "$", "$$") }
