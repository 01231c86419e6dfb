package workspace

// The two spellings of the annotation that names a Pod's sandbox. The stock driver renamed the key once; during the
// migration both are written and both are read, by SandboxIDOf (contract 4.4, 14.4 "rossoctl 1815").
const (
	// AnnotationSandboxID is the key of today: Sandbox, workload Pod template, supervisor Pod.
	AnnotationSandboxID = prefix + "sandbox-id"
	// AnnotationSandboxIDFormer is the key of the first releases, on Pods.
	AnnotationSandboxIDFormer = "openshell.io/sandbox-id"
)

// Annotation keys of a Sandbox object (contract 4.4).
const (
	// AnnotationSandboxName and AnnotationSandboxWorkspace repeat the labels of the same keys.
	AnnotationSandboxName      = LabelSandboxName
	AnnotationSandboxWorkspace = LabelSandboxWorkspace
	// AnnotationBootstrapping is True while a create or restart is in progress.
	AnnotationBootstrapping = runtime + "bootstrapping"
	// AnnotationBootstrapStartedAt is in milliseconds since 1970.
	AnnotationBootstrapStartedAt = runtime + "bootstrap-started-at-ms"
	// AnnotationBootstrapOperation is one of the Operation values.
	AnnotationBootstrapOperation = runtime + "bootstrap-operation"
	// AnnotationBootstrapPhase is one of the Phase values.
	AnnotationBootstrapPhase = runtime + "bootstrap-phase"
	// AnnotationBootstrapSession is the session id of the generation.
	AnnotationBootstrapSession = runtime + "bootstrap-session"
	// AnnotationBootstrapEpoch is the auth epoch of the run and AnnotationBootstrapAttempt the attempt at it that is under way. Both
	// are ours, beside those of contract 4.4: a session alone does not tell two runs apart (contract 2.6), and two replicas must
	// not make the Secrets of one run at the same time.
	AnnotationBootstrapEpoch   = runtime + "bootstrap-epoch"
	AnnotationBootstrapAttempt = runtime + "bootstrap-attempt"
	// AnnotationGeneration is the name of the generation.
	AnnotationGeneration = runtime + "generation"
	// AnnotationReadiness is one of the Readiness values.
	AnnotationReadiness = runtime + "readiness"
	// AnnotationWorkloadUID and AnnotationSupervisorUID are the uids of the two Pods. They are recorded before the Pods'
	// gates are lifted (contract 7.2, 7.11), so a Pod that runs and is not recorded belongs to no finished start.
	AnnotationWorkloadUID   = runtime + "workload-uid"
	AnnotationSupervisorUID = runtime + "supervisor-uid"
	// AnnotationMainProcessSpec is the JSON of the main process, for restarts.
	AnnotationMainProcessSpec = runtime + "main-process-spec"
	// AnnotationLogLevel is for restarts.
	AnnotationLogLevel = runtime + "log-level"
	// AnnotationFenceUID and AnnotationFenceGeneration are uid and metadata.generation of the workload fence.
	AnnotationFenceUID        = runtime + "network-policy-uid"
	AnnotationFenceGeneration = runtime + "network-policy-generation"
	// AnnotationAdmissionIdentities is a JSON map from Kind/namespace/name to uid; cluster-scoped kinds leave the namespace empty.
	AnnotationAdmissionIdentities = prefix + "resource-admission-identities"
	// AnnotationCallerDriverConfig is True or False.
	AnnotationCallerDriverConfig = prefix + "caller-driver-config-used"
	// AnnotationTraceContext is the caller's trace; the Agent Sandbox controller reserves it on Pod templates.
	AnnotationTraceContext = "opentelemetry.io/trace-context"
	// AnnotationUIDRange and AnnotationSupplementalGroups are copied from the namespace for diagnosis.
	AnnotationUIDRange           = "openshift.io/sa.scc.uid-range"
	AnnotationSupplementalGroups = "openshift.io/sa.scc.supplemental-groups"
)

// runtime begins the keys that describe the running generation; stop clears them (contract 7.10).
const runtime = prefix + "sandbox-runtime-"

// Values of the annotations that say yes or no.
const (
	True  = "true"
	False = "false"
)

// Values of AnnotationBootstrapOperation.
const (
	OperationCreate  = "create"
	OperationRestart = "restart"
	OperationStop    = "stop"
)

// Values of AnnotationBootstrapPhase.
const (
	PhasePreparing  = "preparing"
	PhaseReleased   = "released"
	PhaseReleasing  = "releasing"
	PhaseSuspending = "suspending"
)

// Values of AnnotationReadiness.
const (
	ReadinessReady       = "ready"
	ReadinessUnavailable = "unavailable"
)

// SandboxIDOf reads the sandbox id from a Pod's annotations, under either spelling of the key. The id is empty when
// neither key is set. A conflict means that both are set to different values, one of which may be empty: somebody wrote
// one of them who should not have, and neither may be used, so the id is empty too.
func SandboxIDOf(annotations map[string]string) (id string, conflict bool) {
	today, hasToday := annotations[AnnotationSandboxID]
	former, hasFormer := annotations[AnnotationSandboxIDFormer]
	switch {
	case hasToday && hasFormer && today != former:
		return "", true
	case hasToday:
		return today, false
	default:
		return former, false
	}
}
