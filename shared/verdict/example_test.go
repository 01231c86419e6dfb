package verdict_test

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// A namespace that is not listed: the gateway gets the code its contract names and a short message,
// the log gets everything.
func Example() {
	d := verdict.Refuse(verdict.NotListed, "allowlist", "workspace team-b maps to namespace team-b").
		WithAllowlist(verdict.Evidence{Namespace: "team-b", Epoch: 3, Revision: 9, Proven: true, Age: 400 * time.Millisecond}).
		WithCode(codes.FailedPrecondition)
	fmt.Println(d.SafeErr())
	fmt.Println(d.Explain())
	// Output:
	// rpc error: code = FailedPrecondition desc = workspace is not in the operator namespace allowlist
	// denied: not_listed at allowlist: workspace team-b maps to namespace team-b (namespace "team-b", allowlist epoch 3, revision 9, age 400ms, uid "")
}
