// Package provision makes the Secrets and ConfigMaps that the mesh starts with, in its namespace: certificates of the mesh and of NATS,
// the identities of those who talk to NATS, and the keys of the allowlist and of the audit trail.
//
// What each is for, and who sees it:
//
//	portcullis-mesh-ca, portcullis-nats-ca   the two authorities, with their keys: nobody but this command
//	portcullis-<daemon>-mesh-tls             certificate of a daemon in the mesh: that daemon
//	portcullis-nats-tls                      certificate of the NATS servers: they
//	portcullis-<identity>-nats               seed of an identity in NATS, see package natsidentity: that identity. That of a gateway with a
//	                                         reader of its own is made when it is asked for
//	portcullis-nats-identities               their public keys, a ConfigMap: the NATS servers
//	portcullis-nswatch-signing               private key of the allowlist: nswatch, and never NATS
//	portcullis-allowlist-keys                its public half, a ConfigMap: every reader
//	portcullis-tokenauth-audit               key of the tokens' hashes in audit events: tokenauth
//
// Two authorities, since a NATS server takes whoever shows a certificate of its authority for another server of its cluster: a daemon's
// certificate must be of no use there.
//
// Invariants:
//
//   - What is there and good is kept, so that it may run as often as one likes. A certificate is made anew in the last third of its life,
//     or when its authority is another one, or others are to be trusted beside it.
//   - A renewal touches certificates alone, and makes nothing that is not there.
//   - What somebody else made is never changed: it is an error that names it.
//   - A key or a seed is in its Secret, and in no error and no output.
//
// Caller: the command nswatch secrets, which the component certs-job runs in the cluster: whole when it is applied, and each week, under
// an account that can do no more, as a renewal.
package provision
