package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/filesource"
	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/labelsource"
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
	keyDeadline  = "portcullis.nswatch.renew_deadline"
	keyPing      = "portcullis.kubernetes.ping_interval"

	keyPingTimeout = "portcullis.kubernetes.ping_timeout"
)

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
	validateSource(k, report)
	validateConnection(own, report)
	validateStop(own, report)
}

// validateSource asks the sources, so that a check of the settings and a start refuse the same.
func validateSource(k *driverconf.Kubernetes, report driverconf.Report) {
	if file := k.OperatorNamespaceFile; file != nil && *file != "" { // the stock table says that it is empty
		if err := filesource.CheckPath(*file); err != nil {
			report(keyFile, err.Error(), keyMode)
		}
	}
	if label := k.OperatorNamespaceLabel; label != nil {
		if err := labelsource.CheckSelector(*label); err != nil && !errors.Is(err, labelsource.ErrStockRule) {
			report(keyLabel, err.Error(), keyMode)
		}
	}
}

// validateConnection sees to it that a connection that died is replaced while the Lease can still be renewed.
func validateConnection(own *Settings, report driverconf.Report) {
	k, deadline := &own.Kubernetes, own.Own.RenewDeadline
	if k.PingInterval+k.PingTimeout >= deadline {
		report(keyPing, fmt.Sprintf("is %s and %s is %s, together not less than %s (%s): a dead connection to the API server would cost the Lease; shorten them, or lengthen the deadline",
			k.PingInterval, keyPingTimeout, k.PingTimeout, keyDeadline, deadline), keyPingTimeout, keyDeadline)
	}
}

// validateStop sees to it that a stop can end in time (rule W10).
func validateStop(own *Settings, report driverconf.Report) {
	grace := own.Own.ShutdownGrace
	if wait := own.Allowlist.StopGrace; wait.Std() > grace.Std()/stopShare {
		report("portcullis.allowlist.stop_grace", fmt.Sprintf("%s is more than a quarter of %s, %s: a stop could not end in time; shorten it, or lengthen the grace", wait, keyGrace, grace), keyGrace)
	}
	if release := own.Own.RenewDeadline.Std() / 2; release > grace.Std()/stopShare {
		report(keyDeadline, fmt.Sprintf("the release of the Lease may take half of it, %s, which is more than a quarter of %s, %s: a stop could not end in time; shorten it, or lengthen the grace",
			release.Round(time.Millisecond), keyGrace, grace), keyGrace)
	}
}
