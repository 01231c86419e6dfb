package verdict

// What a bearer is told. Contract 6.1 and 5.3 give the texts of the TokenReview, the namespace and the supervisor; every
// other refusal says the same, so that it does not tell which check stopped the bearer.
const (
	sayReviewFailed         = "Kubernetes TokenReview failed"
	sayNotChecked           = "the sandbox credential could not be checked"
	sayNotAccepted          = "sandbox credential was not accepted"
	sayNamespaceNotAccepted = "sandbox credential namespace is not accepted by the driver"
	sayNotSupervisor        = "the exchange must come from the paired supervisor Pod"
)

// What is said of a probe of the fence.
const (
	sayNotFenced  = "the cluster does not enforce the namespace's network policies"
	sayNotProbed  = "whether the namespace's network policies are enforced could not be found out"
	sayNoProbeYet = "whether the namespace's network policies are enforced is not known yet"
)
