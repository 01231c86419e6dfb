// Package bench measures Portcullis on the real parts that its tests run on. There is no threshold in it: it prints a
// table for docs/performance.md.
//
// What is compared is measured in one run, on one control plane, between the same two instants: a request to change a
// label, and its effect. The instants are on the machine's monotonic clock, which all processes share.
//
// supervisorctl is compared with a client that plays its writes: what it wrote for one sandbox is recorded, and written by client-go for
// others, in the same order and with the same wait for the controller, without a read and without a check.
//
// What the relay and the NATS server take is measured without a cluster: each as a process, between ends in this one that ask and answer as
// the daemons around it do.
package bench
