// Package supervisor sets up the daemon supervisorctl inside a test: a gateway in operator mode with its namespaces, the stand-in Agent
// Sandbox controller and kubelet, a ServiceAccount with the shipped rights, the daemon as a process behind a proxy, and
// lifecycle's side of the mesh.
//
// The rights are those of the shipped manifests in the mode of the Site, under its names: supervisorctl may here what it may in a cluster, and
// nothing else. There is none to read a Secret but the named sources, none to change or delete a policy, and none to make a Sandbox.
//
// A [Box] is what lifecycle leaves in the cluster before it asks for a set: the suspended Sandbox with its template (contract 7.2 step
// 11, 7.5). It is written down here from the contract, with the contract's own words for keys, and shares nothing with the daemon.
//
// [History] holds every state of every object of the Site's namespaces in the one order in which the API server took them, and judges
// it: no workload is let go unfenced, without its supervisor or with Secrets that do not belong together; no Secret is made before both
// Pods stand, or can be changed; the supervisor goes before its workload.
//
// [Gate] sees every write of the daemon, and can hold it before or after the API server gets it: when the process is killed then, it
// died at exactly that point.
//
// Invariants: without a change a Box is right in every respect; History judges every namespace when the test ends, unless the test says
// that it broke the rules there itself; and no process has written anything of a token or a private key.
//
// Callers: the tests of supervisorctl on a real API server, beside this file.
package supervisor
