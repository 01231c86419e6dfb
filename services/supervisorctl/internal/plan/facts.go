package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Known is what a look at one object found. The zero Known is that nobody looked.
type Known[T any] struct {
	standing standing
	value    T
	err      error
}

type standing uint8

const (
	unseen standing = iota
	failed
	absent
	found
)

// Found says that the object is there.
func Found[T any](value T) Known[T] { return Known[T]{standing: found, value: value} }

// Absent says that the API server answered, and that there is no such object.
func Absent[T any]() Known[T] { return Known[T]{standing: absent} }

// Failed says that the API server did not answer, and why.
func Failed[T any](err error) Known[T] { return Known[T]{standing: failed, err: err} }

// Value is the object; false unless it was found.
func (k Known[T]) Value() (T, bool) { return k.value, k.standing == found }

// Absent reports whether it is known that there is no such object.
func (k Known[T]) Absent() bool { return k.standing == absent }

// Unseen reports whether nobody looked.
func (k Known[T]) Unseen() bool { return k.standing == unseen }

// unknown reports whether nothing is known, and why.
func (k Known[T]) unknown() (string, bool) {
	switch {
	case k.standing == found, k.standing == absent:
		return "", false
	case k.standing == failed && k.err != nil:
		return k.err.Error(), true
	}
	return "nobody looked", true
}

// Standing is what a policy of the fence is, compared with what it must be (contract 7.3). The zero Standing is altered.
type Standing uint8

// The standings of a policy that exists.
const (
	// Altered: it is ours and not what it must be, or it is being deleted.
	Altered Standing = iota
	// Foreign: it has our name and none of our labels.
	Foreign
	// Stands: it is what it must be.
	Stands
)

// Policy is one policy of the fence.
type Policy struct {
	Standing Standing
	// Difference says in words what is altered, or whose the policy is.
	Difference string
	UID        string
	Generation int64
	// Since is when it came to be as it is; zero when the cluster does not record that.
	Since time.Time
}

// Opening is a policy of somebody else that allows a workload more than the fence does. It decides nothing: it is reported.
type Opening struct {
	Policy, UID string
	// Opens says what, in words.
	Opens string
}

const (
	// mostWords is how many openings are told in words, and longestWords how many bytes of each.
	mostWords    = 4
	longestWords = 200
)

// OpeningWords are the first four of them on one line, of at most 200 bytes each, and how many there are more.
func OpeningWords(all []Opening) string {
	told := all[:min(len(all), mostWords)]
	said := make([]string, 0, len(told))
	for _, o := range told {
		said = append(said, cut(o.Opens, longestWords))
	}
	words := strings.Join(said, "; ")
	if more := len(all) - len(told); more > 0 {
		words += fmt.Sprintf("; and %d more", more)
	}
	return words
}

// cut is a text of at most so many bytes, which says when it is not the whole one.
func cut(text string, most int) string {
	const rest = "..."
	if len(text) > most {
		text = text[:most-len(rest)] + rest
	}
	return strings.ToValidUTF8(text, "")
}

// Ownership is whose an object is that has the name of a companion: judged by the uid of its owner against that of Want.Ref, and
// never against that of a Sandbox that was found under the name. The zero Ownership is somebody else's.
type Ownership uint8

// The ownerships.
const (
	// Theirs: it is not owned by the Sandbox.
	Theirs Ownership = iota
	// OfAnotherRun: it is owned by the Sandbox, and is not what this run needs.
	OfAnotherRun
	// OfThisRun: it is owned by the Sandbox and is what this run needs.
	OfThisRun
)

// Service is the boundary Service.
type Service struct {
	UID       string
	Ownership Ownership
	Deleting  bool
	// ClusterIP is empty when it has none of its own, also for a headless one.
	ClusterIP string
	// Detail says whose it is, or what differs.
	Detail string
}

// Pod is one of the two Pods.
type Pod struct {
	Name, UID string
	Ownership Ownership
	Deleting  bool
	// Gated says that our scheduling gate is on it.
	Gated bool
	// Ended says that it is Succeeded or Failed, Ready that its status says so.
	Ended, Ready bool
	// Restarted says that a container of it was started more than once: a supervisor is replaced in place until the run is ready.
	Restarted bool
	// Altered says what of the admitted workload Pod is not as asked for; of a Pod that is released, what somebody has made another of it
	// since: a label that the fence and the Service find it by, an ephemeral container, an image, a further network. Empty when all is well.
	Altered string
	// Detail says whose it is, or what differs, or why it ended or is not ready.
	Detail string
	// Cause is why it ended or is not ready, when somebody says so: one of the reasons that are about Pods.
	Cause verdict.Reason
	// Hopeless says that the cause does not go away by itself, however often is tried.
	Hopeless bool
	// Doomed says that the cause hardly goes away by itself: a run with it has ImageLimit to be ready.
	Doomed bool
	// Since is when it came to be as it is: deleted, ended, gated, ready or not; zero when the cluster does not record that.
	Since time.Time
}

// Bound is what is written in the Secrets of a run, so that they are good for these objects alone. The zero Bound is nothing.
type Bound struct {
	// Workload, Supervisor and Fence are uids.
	Workload, Supervisor, Fence string
	FenceGeneration             int64
	// Address is the boundary Service's cluster IP.
	Address string
}

// Attempt is what one execution knows of its own doing. The zero Attempt has done nothing.
type Attempt struct {
	// ID is its name in the record; of no two attempts the same.
	ID string
	// MayTake says that the attempt named in the record, if it is another, cannot be at work any more.
	MayTake bool
	// Began says that this attempt wrote a Begin, or may have; not that one was refused because the Sandbox had changed meanwhile.
	Began bool
	// Afresh says that a step with Afresh was executed, or that MakeSecrets was begun, by this attempt.
	Afresh bool
	// Inherited is the workload Pod for which another attempt may have made Secrets from which this one took over: as long as that Pod is
	// there, so are they.
	Inherited string
	// MadeFor is the For of the MakeSecrets that this attempt brought to its end, after it put its name into the record. DeleteSecrets
	// makes it zero.
	MadeFor Bound
	// Service and Supervisor are the uids of what this attempt made last of them.
	Service, Supervisor string
	// Secrets is what the record is to say of them.
	Secrets string
	// Evidence is what the record is to say of the fence that the Secrets vouch for.
	Evidence string
	// SecretsGone says that this attempt removed the Secrets that it could, and made none since.
	SecretsGone bool
	// WorkloadOverdue says that the workload Pod was waited for as long as it may take.
	WorkloadOverdue bool
	// Refusal is why the cluster makes no workload Pod, in its words; empty when nothing says so.
	Refusal string
}

// Facts are all that a step rests on.
type Facts struct {
	// Now is the wall clock's time, for StartedAt of the record.
	Now time.Time
	// Acknowledged is sandbox_runtime.network_policy_enforced.
	Acknowledged bool

	Sandbox Known[sandboxapi.Object]
	// Misplaced says why the Sandbox that was found is in no place of this gateway's; empty when it is in one.
	Misplaced string

	WorkloadFence, SupervisorFence Known[Policy]
	Service                        Known[Service]
	Supervisor, Workload           Known[Pod]
	// Openings are the policies that open the workload's fence again. They decide nothing.
	Openings Known[[]Opening]

	Attempt Attempt
	// Idle is for how long nothing of the Sandbox's record has changed, as far as the asking process has seen; Witnessed says that it saw
	// it become as it is, so that Idle is all of the time.
	Idle      time.Duration
	Witnessed bool
}

// Doomed reports whether a Pod is there that has ImageLimit to be ready.
func (f *Facts) Doomed() bool {
	for _, seen := range [...]Known[Pod]{f.Workload, f.Supervisor} {
		if pod, ok := seen.Value(); ok && pod.Doomed && !pod.Ready {
			return true
		}
	}
	return false
}
