// Package command is the command line that all daemons share, and the part of their start that is the
// same in each.
//
//	nswatch --config F              run
//	nswatch config check --config F validate offline, print the effective settings
//	nswatch config keys             list the stock settings
//	nswatch version                 print what program this is
//
// A daemon may add subcommands of its own, which read the same settings.
//
// Every flag and environment variable of the stock standalone driver works in each (contract 3.3), but for
// --bind-address, which is refused: the driver is served on a private Unix socket only.
//
// config check and run read and judge the settings by the same step, so what the first accepts can only fail
// in the second because of a file, an address or a peer.
//
// Invariant: a daemon starts nothing before all its settings are understood and its parts are made.
// What goes wrong until then is said in one line per problem on standard error, and the exit code is
// not 0. Run prepares the log, the metrics, the checks, the admin listener and tracing, lets the daemon
// add its own parts, and only then runs the group.
//
// With wait_at_start the parts that cannot be made are tried again, in between with all of what was begun undone: the process is alive
// and not ready, and says why. An http_address that cannot be had ends it in any case. Settings that do not validate end it too, unless
// --waiting-address says where probes are answered until they do.
//
// A daemon that uses the cluster, and to which the downward API says which Pod it is in (POD_NAME, POD_NAMESPACE, POD_UID), also tells by
// Events on its Pod why it is not ready: see podevent. Nothing waits for them.
//
// Callers: cmd/<daemon>/main.go of the four daemons, through their internal/app.
package command
