// Package rights proves what the shipped overlays let each daemon do, on the API server that authorises by RBAC.
//
// testdata/<overlay>.txt is the list, for people to read: every verb on every resource, for each daemon, in each kind of place; and
// <overlay>-<component>.txt what that component adds. The tests install nothing of an overlay but its rights and demand
//
//   - that the API server knows of exactly the rules of the list, for each ServiceAccount in each place, those about paths that are no
//     resources included: a right more or a right less fails the test, and -update writes the list anew;
//   - that each verb of the list is let through, by a request that would change nothing;
//   - that each other verb on these resources, and on what would make a daemon powerful, is forbidden, in the same way.
//
// Shipped, PerWorkspace, WithDriverConfig and Workspace are the same rights for tests that have the daemons work with them and nothing else.
// That each right is also needed is shown where the daemons are tested, by what they ask for: TestRightsAreNeeded of test/allowlist (nswatch)
// and of test/tokenauth, which use Ledger, test/lifecycle, and test/supervisor.
package rights
