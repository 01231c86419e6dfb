package node

import (
	"fmt"
	"path/filepath"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/dns"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/pki"
)

// containerdConfig keeps all of containerd below dir. restrict_oom_score_adj lets runc start where
// the machine may not lower out-of-memory scores (no CAP_SYS_RESOURCE).
func containerdConfig(dir string) string {
	return fmt.Sprintf(`version = 2
root = %[1]q
state = %[2]q

[grpc]
  address = %[3]q

[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  sandbox_image = %[4]q

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = %[5]q

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = %[6]q
        SystemdCgroup = false
`,
		filepath.Join(dir, "containerd/root"), filepath.Join(dir, "containerd/state"), socketPath(dir),
		PauseImage, filepath.Join(dir, "cni"), filepath.Join(dir, "runc"))
}

// cniNetwork is the name of the Pods' network.
const cniNetwork = "portcullis"

// cniConfig is a plain bridge. Pods leave the node under their own address, since the machine has a
// route back to them.
func cniConfig(dir string) string {
	return fmt.Sprintf(`{
  "cniVersion": "0.4.0",
  "name": "`+cniNetwork+`",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "dataDir": %q,
        "ranges": [[{"subnet": %q}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, filepath.Join(dir, "ipam"), podsRange)
}

// kubeletConfig turns off what a test node has no use for or what cgroup v1 cannot give.
func kubeletConfig(dir, ca string, serving pki.Pair) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[2]q}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /%[7]s
clusterDNS: [%[8]s]
clusterDomain: %[9]s
containerRuntimeEndpoint: "unix://%[3]s"
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
healthzBindAddress: 127.0.0.1
localStorageCapacityIsolation: false
podLogsDir: %[4]q
staticPodPath: ""
tlsCertFile: %[5]q
tlsPrivateKeyFile: %[6]q
# A test machine's disk may be as full as it likes.
evictionHard: {memory.available: "1Mi"}
imageGCHighThresholdPercent: 100
syncFrequency: 10s
`, Address, ca, socketPath(dir), filepath.Join(dir, "podlogs"), serving.Cert, serving.Key, cgroupRoot, dns.Address, dns.Domain)
}

// proxyConfig uses the nftables mode; the machine's connection tracking limits are not the node's to
// set.
func proxyConfig(kubeconfig string) string {
	return fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: %q}
clusterCIDR: %s
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
healthzBindAddress: 127.0.0.1:10256
hostnameOverride: %s
metricsBindAddress: 127.0.0.1:10249
mode: nftables
`, kubeconfig, PodCIDR, Name)
}
