// Package broker tests the NATS servers that the mesh is shipped with: the configuration files of deploy/kustomize/base/nats and
// components/nats-ha themselves, with identities that nswatch nats identities makes, on real servers.
//
// What it holds:
//
//   - the rights in accounts.conf are those of a table here and no others; each is needed, as something that somebody must be able
//     to do fails without it; and everything else that was thought of is denied to everybody;
//   - nobody can have anything stored in the bucket or the audit stream by a trick with replies, headers or consumers;
//   - the documented commands work as written, the stock NATS CLI included;
//   - keys and identities are replaced, servers die and are replaced one by one, and no reader ever allows what it must not.
//
// Where a path, an address or a port of the shipped files cannot be had in a test, it is replaced, and a replacement that finds nothing
// fails.
package broker
