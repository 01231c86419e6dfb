package contract_test

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// A driver that answers gateways before and after the rename, and older ones as well.
func ExampleRegister() {
	server := grpc.NewServer()
	err := contract.Register(server, computev1.UnimplementedComputeDriverServer{},
		contract.WithPrefixes(contract.Prefixes()...), contract.WithLegacyGateways())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(server.GetServiceInfo())) {
		fmt.Println(name)
	}
	// Output:
	// openshell.compute.v1.ComputeDriver
	// ryno.compute.v1.ComputeDriver
}
