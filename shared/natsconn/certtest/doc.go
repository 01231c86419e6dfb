// Package certtest makes certificate authorities and certificates for tests.
//
// Everything is ECDSA P-256, made in the test's process, valid for 127.0.0.1, ::1 and localhost, and written
// only where the test says. Rotation is a second Issue over the same paths: files are replaced by rename, as a
// mounted Secret would be, so that a reader sees the old or the new file and never half of one.
//
// Callers: the tests of natsconn, its sub-packages, kubeclient, pemfile and telemetry. Production code must not import it.
package certtest
