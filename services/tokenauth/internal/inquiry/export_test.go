package inquiry

import "github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"

// Limits of the package.
const (
	MostOwners  = mostOwners
	MostAhead   = mostAhead
	LongestLead = longestLead
)

// Remembered is how many Pods' Sandboxes are remembered.
func (i *Inquirer) Remembered() int { return i.owners.byPod.Len() }

// Remember remembers the Sandbox of a Pod, as a grant does.
func (i *Inquirer) Remember(podUID string, q authenticate.Question) { i.owners.remember(podUID, q) }
