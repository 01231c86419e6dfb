package authenticate

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// What the API server is asked and answers with (contract 6.1).
const (
	// Audience of the tokens that supervisors present, and of our TokenReview (steps 2 and 5, contract 6.5).
	Audience = "openshell-gateway"
	// ExtraPodName and ExtraPodUID are the keys of the Pod that a token is bound to (step 9).
	ExtraPodName = "authentication.kubernetes.io/pod-name"
	ExtraPodUID  = "authentication.kubernetes.io/pod-uid"
)

// MaxCredential is the longest credential in bytes, as the mesh's AuthenticateRequest says.
const MaxCredential = 16384

// Facts are all that a decision rests on. The zero Facts refuse. Whoever fills them does no judging: what the cluster or the
// list answered goes in as it came.
type Facts struct {
	// CredentialBytes is how long the credential is. The credential itself stays outside.
	CredentialBytes int
	// CredentialCompact says that the credential has the form of a token of the cluster, in its one spelling.
	CredentialCompact bool
	// GatewayID is the one that the request names.
	GatewayID string

	// Review is the status of the TokenReview of this credential.
	Review Lookup[authenticationv1.TokenReviewStatus]
	// Namespace, Pod and Sandbox are live reads, made after the call came in and never from a cache.
	Namespace Lookup[metav1.ObjectMeta]
	Pod       Lookup[metav1.ObjectMeta]
	Sandbox   Lookup[sandboxapi.Sandbox]

	// List is the allowlist's answer when the review was known; ListAgain is the one when everything else was. They are
	// asked for one after the other, and a copy of the first is not the second. An Answer about no namespace, or another
	// one, was not asked for.
	List, ListAgain allowlist.Answer
}

// Bearer is what is known of whoever presented the credential, as far as an evaluation came. Except in a grant it is for the
// log and the audit event only: what is in it was said by the review or the Pod, and a later step may have refused it.
type Bearer struct {
	// Namespace and ServiceAccount of the review's user.
	Namespace, ServiceAccount string
	// PodName and PodUID that the token is bound to.
	PodName, PodUID string
	// SandboxID that the Pod names, and SandboxUID of the Sandbox that it names as its owner.
	SandboxID, SandboxUID string
}
