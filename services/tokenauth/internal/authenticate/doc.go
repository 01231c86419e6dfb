// Package authenticate decides who a bearer is and whether its namespace may be trusted now: the 17 checks of contract 6.1
// in their order, with those that the original leaves out, as one pure function over facts.
//
// # Invariants
//
//   - Only an evaluation in which every step passed grants. The zero [Facts], [Lookup] and [Evaluator] refuse.
//   - "No", "could not find out" and "not asked yet" are three different things: [Missing] or a value that does not match,
//     [Failed], and the zero Lookup. All three refuse, each with its own reason.
//   - A fact counts only for the question that it answers. What was read ahead, on the word of a token that nobody had
//     verified, is an answer about an object, by its name. Whether it was read for the Pod that the review names, uid and
//     all, and lately enough, is the caller's to see to.
//   - The credential never comes in here, only its length and whether it has the form of a token; nothing that a caller is told
//     says which check it failed beyond what contract 6.1 and 5.3 say.
//
// # Steps
//
// [Steps] lists them. The 17 of the contract keep their order. What is added stands where it costs least and where nothing
// is believed before it is proven:
//
//   - request.size, request.gateway and request.form judge the request alone, behind the contract's look at it. The API server
//     takes the first word of what it is given for the token and decodes it leniently, so without request.form one token could be
//     spelled in many ways, each with another hash in the audit events.
//   - namespace.found and namespace.deletion (managed and operator mode), namespace.uid (operator mode) and namespace.owned
//     (managed mode) need a lookup, so they come behind the last of the steps that need only the review; and before the
//     Pod, because an answer from a namespace that took over the name of a listed one, or that is another gateway's, is worth
//     nothing. A list from a file names no uids, so there is nothing for namespace.uid to compare; the others stay.
//     namespace.owned closes what step 8 leaves open: by its name alone, a namespace of the gateway a-b may be one of
//     gateway a. namespace.deletion is behind both for the reason that pod.deletion is behind pod.uid.
//   - pod.deletion stands behind pod.uid: it is about this Pod, and not about one that took its name. A Pod that is being
//     deleted may finish what it does; a token is a new beginning, so it gets none (bug corpus T03).
//   - pod.annotation, the two spellings of the sandbox id against each other, stands before pod.sandbox, which uses one.
//   - review.pod and pod.owner also refuse names that no object can have: they would be asked for in vain for ever.
//   - pod.controller is the second half of step 14, with a reason of its own.
//   - sandbox.id is the second half of step 16; sandbox.deletion, sandbox.managed, sandbox.gateway and sandbox.workspace stand
//     behind it for the reason that pod.deletion stands behind pod.uid. sandbox.managed and sandbox.gateway are what the
//     selectors of contract 4.5 demand. sandbox.workspace (managed mode) makes the namespace from the workspace that the
//     Sandbox names, and so holds the Sandbox's labels against those of its namespace.
//   - supervisor.recorded and supervisor.current stand behind pod.supervisor, because only a supervisor is recorded.
//   - identity makes the answer, and namespace.listed.again asks the list once more: a namespace that was taken off it
//     while the lookups ran is refused, on the newest word there is.
//
// # Use
//
// An evaluation that meets a question without an answer ends there, and [Result.Next] is the question. So a caller
// evaluates, answers and evaluates again until Next is zero:
//
//	facts := authenticate.Facts{CredentialBytes: len(token), CredentialCompact: claims.Compact(token), GatewayID: request.GetGatewayId()}
//	for {
//		result := evaluator.Evaluate(&facts)
//		if result.Final() {
//			return result
//		}
//		answer(ctx, &facts, result)
//	}
//
// and no step can be left out, nor asked for too early. Facts that are there before they are asked for cost nothing and are
// used when their question comes. [Evaluator.Explain] is the same with the evidence of each step, for a person.
//
// The caller is package inquiry; package explanation shows what Explain found.
package authenticate
