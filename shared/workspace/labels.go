package workspace

// prefix is the domain of every label and annotation key that the driver writes (contract 4.3, 4.4).
const prefix = "openshell.ai/"

// Label keys (contract 4.3). The comments name the objects that carry them.
const (
	// LabelManagedBy has the value ManagedByOpenShell: Sandbox, managed namespace, Service, Secrets, supervisor Pod, policies.
	LabelManagedBy = prefix + "managed-by"
	// LabelSandboxID is the gateway's id of the sandbox: Sandbox, Service, Secrets, supervisor Pod.
	LabelSandboxID = prefix + "sandbox-id"
	// LabelSandboxName is the gateway's name of the sandbox: Sandbox.
	LabelSandboxName = prefix + "sandbox-name"
	// LabelSandboxWorkspace is the workspace: Sandbox, managed namespace.
	LabelSandboxWorkspace = prefix + "sandbox-workspace"
	// LabelGatewayID is the gateway that owns the object: Sandbox, managed namespace, supervisor Pod.
	LabelGatewayID = prefix + "gateway-id"
	// LabelComponent is one of the Component values: Service, Secrets, supervisor Pod, policies.
	LabelComponent = prefix + "component"
	// LabelBoundaryPair is Pair of the sandbox id: both Pods.
	LabelBoundaryPair = prefix + "boundary-pair"
	// LabelBoundaryRole is RoleWorkload or RoleSupervisor: both Pods.
	LabelBoundaryRole = prefix + "boundary-role"
	// LabelCreate is CreatePending on a Sandbox whose create has not been answered yet, and is not there on any other. It is ours,
	// beside those of contract 4.3: what a create that died left behind is found by it.
	LabelCreate = prefix + "sandbox-create"
)

// ManagedByOpenShell is the value of LabelManagedBy.
const ManagedByOpenShell = "openshell"

// CreatePending is the value of LabelCreate.
const CreatePending = "pending"

// Values of LabelBoundaryRole.
const (
	RoleWorkload   = "workload"
	RoleSupervisor = "supervisor"
)

// Values of LabelComponent.
const (
	ComponentBoundaryService     = "boundary-service"
	ComponentSupervisor          = "supervisor"
	ComponentSandboxBootstrap    = "sandbox-bootstrap"
	ComponentSupervisorBootstrap = "supervisor-bootstrap"
	ComponentImagePull           = "image-pull"
	ComponentWorkloadFence       = "sandbox-workload-fence"
	ComponentSupervisorEgress    = "sandbox-supervisor-egress"
)

// SchedulingGate holds both Pods back until their material is there (contract 7.5, 7.6).
const SchedulingGate = prefix + "bootstrap"
