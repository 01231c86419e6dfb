package app

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Full keys that more than one rule names.
const (
	keyMode      = "openshell.drivers.kubernetes.workspace_mode"
	keyLabel     = "openshell.drivers.kubernetes.operator_namespace_label"
	keyFile      = "openshell.drivers.kubernetes.operator_namespace_file"
	keySigning   = "portcullis.nswatch.signing_key_file"
	keyPublic    = "portcullis.allowlist.public_keys_file"
	keyNamespace = "portcullis.nswatch.lease_namespace"
	keyGrace     = "portcullis.nswatch.shutdown_grace"
)

// maxSource is what a snapshot can say about its source, bytes.
const maxSource = 4096

// stopShare is what of shutdown_grace each may take at a stop: the release of the Lease, and the wait for a successor.
// Together they are what a daemon that serves calls has for those.
const stopShare = 4

// validate has the rules that only the running daemon has, and those over several tables. That the selector parses,
// selects not nearly everything, and that there is exactly one source, is the stock table's own rule.
func validate(cfg *driverconf.Config, own *Settings, report driverconf.Report) {
	k := &cfg.Kubernetes
	if k.WorkspaceMode != driverconf.ModeOperator {
		report(keyMode, fmt.Sprintf("is %s: nswatch publishes the namespaces of operator mode, and the other modes have no list; set operator, or run no nswatch", k.WorkspaceMode))
	}
	if own.Own.SigningKeyFile == "" {
		report(keySigning, "is empty; name the file with the private key that signs the allowlist: nswatch keys generate makes one")
	}
	if k.OperatorNamespaceFile != nil {
		if problem := pathProblem(*k.OperatorNamespaceFile); problem != "" {
			report(keyFile, problem, keyMode)
		}
	}
	if k.OperatorNamespaceLabel != nil && len(*k.OperatorNamespaceLabel) > maxSource {
		report(keyLabel, fmt.Sprintf("has %d bytes, at most %d are possible; use one label for all trusted namespaces", len(*k.OperatorNamespaceLabel), maxSource))
	}
	validateStop(own, report)
}

// validateStop sees to it that a stop can end in time (rule W10).
func validateStop(own *Settings, report driverconf.Report) {
	grace := own.Own.ShutdownGrace
	if wait := own.Allowlist.StopGrace; wait.Std() > grace.Std()/stopShare {
		report("portcullis.allowlist.stop_grace", fmt.Sprintf("%s is more than a quarter of %s, %s: a stop could not end in time; shorten it, or lengthen the grace", wait, keyGrace, grace), keyGrace)
	}
	if release := own.Own.RenewDeadline.Std() / 2; release > grace.Std()/stopShare {
		report("portcullis.nswatch.renew_deadline", fmt.Sprintf("the release of the Lease may take half of it, %s, which is more than a quarter of %s, %s: a stop could not end in time; shorten it, or lengthen the grace",
			release.Round(time.Millisecond), keyGrace, grace), keyGrace)
	}
}

// pathProblem refuses a path that a snapshot could not name.
func pathProblem(path string) string {
	switch {
	case path == "": // the stock table says so
		return ""
	case !filepath.IsAbs(path):
		return "must be an absolute path"
	case len(path) > maxSource:
		return fmt.Sprintf("has %d bytes, at most %d are possible", len(path), maxSource)
	case !utf8.ValidString(path) || strings.ContainsFunc(path, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }):
		return "must be one line of UTF-8 without control characters"
	}
	return ""
}
