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
