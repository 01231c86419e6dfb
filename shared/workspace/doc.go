// Package workspace says where a gateway's sandboxes live and what their objects are called: the namespace and the name of
// a Sandbox in each workspace mode (contract 4.1), the names of its companions (4.2), the keys and values of labels and
// annotations (4.3, 4.4), and the selectors that find a gateway's objects (4.5).
//
// Invariants:
//
//   - A name that does not fit is an error. Nothing is cut, hashed or folded to make it fit.
//   - Names alone prove no ownership. The namespace openshell-a-b-c is the one of workspace b-c at gateway a and of
//     workspace c at gateway a-b, so in managed mode [Scheme.Owns] decides, by the labels that say which of the two it is:
//     of all pairs of gateway and workspace exactly one owns a labelled namespace.
//   - The zero [Scheme] places nothing and owns nothing.
//
// The package is pure: values in, values out. It is for every daemon that reads or writes objects of sandboxes; the caller today
// is tokenauth, which judges where a bearer lives and what its objects say.
package workspace
