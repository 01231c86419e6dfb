// Package driverconf loads the settings of every Portcullis daemon: the stock
// `[openshell.drivers.kubernetes]` table of the gateway's TOML, the environment
// variables and flags of the stock standalone driver, and the mesh's own
// `[portcullis]` tables.
//
// Invariant: a *Config exists only if every setting in it was understood and
// passed every rule. A key that nobody reads, a value of the wrong type, a typo
// in a table's name or an unsafe pair of settings is an error, never a silent
// default, and one call reports all of them.
//
// Precedence is flag, then environment variable, then file, then default, for
// each key by itself; Config.Origin says which one won. The one unit of several
// keys is the admission policy given as JSON, which replaces
// allow_driver_config and resource_admission together.
//
// A flag counts only when it was really given. An environment variable that is
// set to the empty string counts as not set, except for keys whose value may be
// empty (a proxy, an image, a storage class and the like): there it overrides
// the file with the empty value. Keys tells which variable behaves how.
//
// What was not understood is told once: a rule that would read it is not applied,
// and neither is one that reads a key for which a misspelt name was probably meant.
//
// The package is called by shared/command for each daemon, before anything else
// starts, and for `config check`. Each caller passes the `[portcullis.<name>]`
// sections that it uses; the sections of other daemons are skipped, and names
// outside the closed list are errors. --otlp-endpoint and its variable set a key of
// the section telemetry, so for a caller that does not pass that section they are
// skipped with it.
//
// Rules and defaults are those of the driver contract, sections 2.1, 2.4, 3 and
// 4.1. Where the contract states no rule but the cluster would refuse the value
// at the first use (a Secret name, a host address), the value is refused here.
package driverconf
