// Package companion renders the objects that stand around a workload Pod (contract 7.4, 7.6, 7.7, 9.5): the boundary
// Service, the supervisor Pod, the two bootstrap Secrets and the copies of pull Secrets; and it tells an object that stands
// from the one that is wanted.
//
// # Invariants
//
//   - Everything is checked before anything is rendered: [New] checks the settings, and each method checks the [Sandbox] and
//     what else it is given. An error names the setting or field, and no object comes with it.
//   - The same input makes the same object, so that a call which is repeated after a crash finds what it made before.
//   - Objects are matched by the uid of their owner, never by their name. Only [Same] says that an object may be used.
//   - What comes from outside reaches a process as it was given: the kubelet expands $(NAME) in commands and environments, so
//     each dollar sign in them is written twice.
//   - No Secret's content is in any error.
//
// # What the contract leaves open
//
//   - The supervisor Pod carries the whole generation of its run, as an annotation. The names of the Secrets carry only a
//     part of it, which other generations may share (contract 4.2).
//   - Settings that the supervisor would die of are refused here: proxy settings without a proxy, no gateway endpoint.
//   - The supervisor's container is started again when it fails (restartPolicy OnFailure; contract 7.6 has Never): a supervisor that
//     gives up while its gateway is away is replaced with the kubelet's growing pauses, under the uid that the gateway has stored
//     (contract 14.3 "3274"). Once the run is ready, one that was started again and is not ready has ended, as before.
//   - enableServiceLinks is false. Otherwise every Service of the namespace, one for each sandbox, would put seven variables
//     into each supervisor's environment, until it is too long to start a process with.
//   - The proxy credential is mounted as a directory of one file, because a mounted single file does not follow its Secret.
//
// The package is pure. Its callers are the planner and the executor of supervisorctl.
package companion
