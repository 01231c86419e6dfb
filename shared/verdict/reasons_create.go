package verdict

import "google.golang.org/grpc/codes"

// The reasons for which lifecycle refuses to speak with a gateway, or to make a sandbox out of a request, in the order in which
// it looks (contract 2.3, 7.2, 9.4, 11). RequestInvalid and LaunchInvalid are among them too.
const (
	// GatewayIncompatible: the gateway's metadata are missing, malformed or do not fit the driver's.
	GatewayIncompatible Reason = "gateway_incompatible"

	// DriverConfigDisabled: the request has a driver_config, and callers may not.
	DriverConfigDisabled Reason = "driver_config_disabled"
	// RequestReserved: a field of the request takes what belongs to the driver or the platform.
	RequestReserved Reason = "request_reserved"
	// ImageUnset: the request names no image, and there is no default one.
	ImageUnset Reason = "image_unset"
	// GPUAbsent: no node offers a graphics processor.
	GPUAbsent Reason = "gpu_absent"
	// GPUUnreadable: the nodes could not be asked for graphics processors.
	GPUUnreadable Reason = "gpu_unreadable"

	// IdentityUnreadable: the namespace that says which user and group to use could not be read.
	IdentityUnreadable Reason = "identity_unreadable"
	// IdentityImpossible: the user or group is none that a Pod can have.
	IdentityImpossible Reason = "identity_impossible"

	// AttachmentForbidden: the Pod would use something of a kind that no sandbox may.
	AttachmentForbidden Reason = "attachment_forbidden"
	// AttachmentUnreadable: whether an object may be attached could not be found out.
	AttachmentUnreadable Reason = "attachment_unreadable"
	// AttachmentAbsent: there is no such object.
	AttachmentAbsent Reason = "attachment_absent"
	// AttachmentIncomplete: the object has no uid.
	AttachmentIncomplete Reason = "attachment_incomplete"
	// AttachmentDeleting: the object is being deleted.
	AttachmentDeleting Reason = "attachment_deleting"
	// AttachmentOfSandbox: the volume claim belongs to a sandbox.
	AttachmentOfSandbox Reason = "attachment_of_sandbox"
	// AttachmentUnlabelled: the object lacks a label that allows it to be attached.
	AttachmentUnlabelled Reason = "attachment_unlabelled"
	// AttachmentReplaced: the object is not the one that the sandbox was made with.
	AttachmentReplaced Reason = "attachment_replaced"
	// AttachmentRecordInvalid: the record of what the sandbox was made with cannot be used.
	AttachmentRecordInvalid Reason = "attachment_record_invalid"
)

// createSpecs is never written to. As with a run, FAILED_PRECONDITION alone reaches the user of a create (contract 2.6).
var createSpecs = [...]Spec{
	{
		Reason: GatewayIncompatible, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The gateway's protocol version, names or capabilities are missing, malformed or do not meet the driver's.",
		Message: "gateway and driver are not compatible",
	},
	{
		Reason: DriverConfigDisabled, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The request has a driver_config, and the setting allow_driver_config is false.",
		Message: "caller driver config is disabled",
	},
	{
		Reason: RequestReserved, Outcome: Denied, Code: codes.InvalidArgument,
		Doc:     "A name, key, variable or path in the request belongs to the driver, the Sandbox controller or the platform.",
		Message: "the request uses what is reserved",
	},
	{
		Reason: ImageUnset, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The request names no image, and the setting default_image is empty.",
		Message: "no image was named, and there is no default image",
	},
	{
		Reason: GPUAbsent, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "A graphics processor was asked for, and no node has nvidia.com/gpu among what it allocates.",
		Message: "no node of the cluster offers a GPU",
	},
	{
		Reason: GPUUnreadable, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "A graphics processor was asked for, and the API server did not list its nodes.",
		Message: "the nodes of the cluster could not be read",
	},
	{
		Reason: IdentityUnreadable, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The annotations of the namespace, from which user and group follow, could not be read; nothing is assumed.",
		Message: "the user of the sandbox could not be determined",
	},
	{
		Reason: IdentityImpossible, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "User or group, by the settings or the namespace, is not from 1 to 2147483647, which is what Kubernetes takes.",
		Message: "the user or group of the sandbox is none that a pod can have",
	},
	{
		Reason: AttachmentForbidden, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The Pod would have a volume, an environment source, a device, an extended resource or a setting that no sandbox may have.",
		Message: "the sandbox would use something that sandboxes may not use",
	},
	{
		Reason: AttachmentUnreadable, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The API server did not say what an object is like that the sandbox would use: it refused, failed or took too long.",
		Message: "an object that the sandbox uses could not be read",
	},
	{
		Reason: AttachmentAbsent, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "There is no object of the kind and name that the sandbox would use.",
		Message: "an object that the sandbox uses does not exist",
	},
	{
		Reason: AttachmentIncomplete, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The object that the sandbox would use has no uid, or the answer is about another one.",
		Message: "an object that the sandbox uses cannot be identified",
	},
	{
		Reason: AttachmentDeleting, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The object that the sandbox would use has a deletion timestamp.",
		Message: "an object that the sandbox uses is being deleted",
	},
	{
		Reason: AttachmentOfSandbox, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The volume claim was made for the workspace of a sandbox, and labels are not required, which alone could allow it.",
		Message: "a volume claim that the sandbox uses belongs to a sandbox",
	},
	{
		Reason: AttachmentUnlabelled, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The object that the sandbox would use lacks a label of resource_admission.required_labels, or has another value there.",
		Message: "an object that the sandbox uses is not labelled for it",
	},
	{
		Reason: AttachmentReplaced, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "An object that the sandbox uses has another uid than at its creation, or was not among those that were admitted then.",
		Message: "an object that the sandbox uses was replaced",
	},
	{
		Reason: AttachmentRecordInvalid, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The annotation openshell.ai/resource-admission-identities of the Sandbox is missing or unreadable: somebody edited it.",
		Message: "the sandbox's record of the objects that it uses cannot be used",
	},
}
