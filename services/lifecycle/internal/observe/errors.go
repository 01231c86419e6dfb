package observe

import "errors"

// Why something cannot be told. What each is for the gateway, the driver says.
var (
	// ErrStale: the view is not current, or not complete yet. The same call may succeed later.
	ErrStale = errors.New("the view of the cluster is not current")
	// ErrBehind: a caller did not take what it was told in time. It opens another stream and is told everything again.
	ErrBehind = errors.New("the caller took too little of what it was told; open another stream")
	// ErrStopped: the observer does not run any more.
	ErrStopped = errors.New("the observer has stopped")
	// ErrAbsent: the cluster has answered that there is no such sandbox.
	ErrAbsent = errors.New("sandbox not found")
	// ErrAmbiguous: more than one Sandbox object has the id.
	ErrAmbiguous = errors.New("more than one Sandbox object has this sandbox id")
	// ErrUnreadable: there is an object with the id, and it does not say what a sandbox must say.
	ErrUnreadable = errors.New("the Sandbox object with this id cannot be understood")
	// ErrNotServed: the API server serves no known version of the Sandbox resource.
	ErrNotServed = errors.New("no known version of the Sandbox resource is served: install the Agent Sandbox definitions (agents.x-k8s.io v1beta1 or v1alpha1)")
)

// ErrRelist is what a Source's Watch wraps when the version that it was to begin at, or had reached, is of no use any more.
var ErrRelist = errors.New("a list is needed")

var errOlder = errors.New("the list is older than what was seen before: the API server lags, or its store was restored from a backup (then restart lifecycle)")
