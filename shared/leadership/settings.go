package leadership

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Settings are the part of a daemon's section, such as [portcullis.nswatch], that is about the Lease. Start from
// DefaultSettings: the zero value has no limits and does not validate.
type Settings struct {
	// LeaseName is the name of the Lease, the same in all replicas for one gateway and in no other. Empty means
	// DefaultLeaseName of the daemon and the gateway.
	LeaseName string `toml:"lease_name"`
	// LeaseNamespace is where the Lease is. Empty means the Pod's own namespace.
	LeaseNamespace string `toml:"lease_namespace"`
	// LeaseDuration is how long others wait for a holder that went silent. Whole seconds, 1s to 5m.
	LeaseDuration driverconf.Duration `toml:"lease_duration"`
	// RenewDeadline is how long after its last renewal a holder stops to act. 200ms to less than LeaseDuration; what
	// lies between the two is the margin for clocks that run apart.
	RenewDeadline driverconf.Duration `toml:"renew_deadline"`
	// RetryPeriod is the time between two renewals; between two tries of a standby it is 1 to 2.2 of it, at random. 20ms
	// to a third of RenewDeadline.
	RetryPeriod driverconf.Duration `toml:"retry_period"`
}

// DefaultSettings replace a leader that is killed after 8 to 17 s: a standby tries every RetryPeriod times 1 to 2.2, and
// counts LeaseDuration from the try at which it saw the last renewal, not from that renewal. Measured with these
// defaults, the list of a new nswatch is used after 12.1 to 14.3 s; its readers close max_staleness (15 s) after the last beat.
//
// Kubernetes' own components take 15 s, 10 s and 2 s. What the shorter times cost is a change of leaders after 7 s
// without the API server.
func DefaultSettings() Settings {
	return Settings{
		LeaseDuration: driverconf.Duration(10 * time.Second),
		RenewDeadline: driverconf.Duration(7 * time.Second),
		RetryPeriod:   driverconf.Duration(1500 * time.Millisecond),
	}
}

// Validate reports every problem under its key. It does no I/O.
func (s *Settings) Validate(report func(key, problem string)) {
	if s.LeaseName != "" && len(validation.IsDNS1123Subdomain(s.LeaseName)) > 0 {
		report("lease_name", fmt.Sprintf("%q is not a name of an object: at most 253 of a-z, 0-9, '-' and '.', with a letter or digit at both ends of each part", s.LeaseName))
	}
	if s.LeaseNamespace != "" && len(validation.IsDNS1123Label(s.LeaseNamespace)) > 0 {
		report("lease_namespace", fmt.Sprintf("%q is not a name of a namespace: 1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends", s.LeaseNamespace))
	}
	lease, renew, retry := s.LeaseDuration.Std(), s.RenewDeadline.Std(), s.RetryPeriod.Std()
	switch {
	case lease < time.Second || lease > 5*time.Minute:
		report("lease_duration", fmt.Sprintf("is %s, must be from 1s to 5m", lease))
	case lease%time.Second != 0:
		report("lease_duration", fmt.Sprintf("is %s, must be whole seconds: a Lease counts in them", lease))
	}
	switch {
	case renew < 200*time.Millisecond:
		report("renew_deadline", fmt.Sprintf("is %s, must be at least 200ms", renew))
	case renew >= lease:
		report("renew_deadline", fmt.Sprintf("is %s, not less than lease_duration (%s): another replica would lead before this one has stopped", renew, lease))
	}
	switch {
	case retry < 20*time.Millisecond:
		report("retry_period", fmt.Sprintf("is %s, must be at least 20ms", retry))
	case 3*retry > renew:
		report("retry_period", fmt.Sprintf("is %s, more than a third of renew_deadline (%s): one slow renewal would lose the Lease", retry, renew))
	}
}

// check is Validate for New, whose caller should have validated before.
func (s *Settings) check() error {
	var problems []error
	s.Validate(func(key, problem string) { problems = append(problems, fmt.Errorf("leadership: %s %s", key, problem)) })
	if s.LeaseName == "" {
		problems = append(problems, errors.New("leadership: the Lease has no name"))
	}
	if s.LeaseNamespace == "" {
		problems = append(problems, errors.New("leadership: the Lease has no namespace"))
	}
	return errors.Join(problems...)
}

// tryTimeout bounds one request. A renewal makes three at worst, and another one must still fit in after them.
func (s *Settings) tryTimeout() time.Duration { return s.RenewDeadline.Std() / 4 }

// releaseTimeout bounds the two or more requests of a release.
func (s *Settings) releaseTimeout() time.Duration { return s.RenewDeadline.Std() / 2 }

// jitter is how much longer than RetryPeriod a standby waits at most, as a factor.
const jitter = 1 + leaderelection.JitterFactor

const namePrefix = "portcullis-"

// daemonName is what may stand in the name of a Lease, of a metric and in a label.
var daemonName = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)

// notInNames is what a gateway id may hold and the name of a Lease may not.
var notInNames = regexp.MustCompile(`[^a-z0-9-]`)

// DefaultLeaseName is the name of the Lease of a daemon for a gateway id, which is a label value:
// portcullis-<daemon>-<gateway id>. An id that no name may hold is changed, and gets a part of its hash behind, so that two
// gateways never share a Lease.
func DefaultLeaseName(daemon, gatewayID string) string {
	prefix := namePrefix + daemon + "-"
	if name := prefix + gatewayID; len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	hash := sha256.Sum256([]byte(gatewayID))
	return prefix + notInNames.ReplaceAllString(strings.ToLower(gatewayID), "-") + "-" + hex.EncodeToString(hash[:4])
}
