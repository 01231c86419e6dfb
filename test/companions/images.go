package companions

import (
	"testing"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// Images are references of images that the node has.
type Images struct {
	Supervisor string // /openshell-supervisor; for the setting supervisor_image
	Runtime    string // /openshell-sandbox; for the setting sandbox_runtime_image
	Workload   string // /openshell-workload and nothing else, no shell; for a sandbox's template
}

// the programs, by the name that their images have them under.
const (
	supervisorProgram = "openshell-supervisor"
	runtimeProgram    = "openshell-sandbox"
	workloadProgram   = "openshell-workload"
)

// LoadImages builds the three programs and loads their images into the node. Node profile only.
func LoadImages(t testing.TB, node *cluster.Cluster) Images {
	t.Helper()
	load := func(name string) string {
		ref := "portcullis.test/" + name + ":1"
		node.LoadProgram(t, ref, name, "test", "./companions/cmd/"+name)
		return ref
	}
	return Images{Supervisor: load(supervisorProgram), Runtime: load(runtimeProgram), Workload: load(workloadProgram)}
}

// Workload is the command that does args (see package workload) in a sandbox of the Workload image.
func Workload(args ...string) []string {
	return append([]string{"/" + workloadProgram}, args...)
}
