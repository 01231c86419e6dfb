// Package kubeclient makes the Kubernetes clients of a daemon.
//
// There are two of everything (contract 3.4): Calls has a limit on each request, Watches has none on reading, because a
// read timeout kills an idle watch. Each has a transport, connections and a rate limiter of its own, so that neither
// starves the other.
//
// Invariants:
//
//   - A dead connection is noticed: HTTP/2 pings end it within PingInterval + PingTimeout of silence, and what waited
//     on it fails; a watch ends with an error event (bug corpus W10; measured with an API server 1.37 behind a
//     proxy that drops everything: 15.0 s with the defaults).
//   - Credentials are those on disk. The token file is read again every few seconds and after a 401; certificates and
//     authority are checked as often, and new connections use what is there (bug corpus T05, T07). A file that cannot
//     be used leaves the last good one in use, and shows in the log and the metrics.
//   - Waiting for the rate limiter is measured, bounded and never silent (bug corpus T10): a request that would wait
//     longer than ThrottleTimeout fails with ErrThrottled.
//   - Only https, only verified certificates, and only with credentials. Nothing is executed: kubeconfigs with
//     credential plugins are refused.
//   - Typed clients for built-in types speak protobuf; Dynamic speaks JSON, which custom resources need.
//
// Where the configuration comes from, first match:
//
//  1. the setting kubeconfig, which must then exist;
//  2. the Pod's ServiceAccount, when KUBERNETES_SERVICE_HOST and _PORT are set and the token is mounted;
//  3. the files in $KUBECONFIG, merged as kubectl merges them;
//  4. $HOME/.kube/config.
//
// The kubeconfig itself is read once; the files that it names are followed. A proxy is that of proxy-url, or else of
// HTTPS_PROXY and NO_PROXY; it may have a password. What cannot work, a port out of range or half a bundle of
// authorities, ends the start.
//
// Tokens, keys and passwords are held as secret.Value or behind functions, and no error repeats them.
//
// Callers: every daemon that touches the cluster, in its wiring.
package kubeclient
