package admitted

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Reasons about what the Pod shares with its node and how it finds others.
const (
	HostNetwork Reason = "workload_host_network"
	HostPID     Reason = "workload_host_pid"
	HostIPC     Reason = "workload_host_ipc"
	// ExtraNetwork: a network beside the cluster's is not behind its policies.
	ExtraNetwork         Reason = "workload_extra_network"
	SharedProcesses      Reason = "workload_shared_processes"
	RestartPolicy        Reason = "workload_restart_policy"
	DNSPolicy            Reason = "workload_dns_policy"
	DNSNameservers       Reason = "workload_dns_nameservers"
	DNSSearches          Reason = "workload_dns_searches"
	HostAliases          Reason = "workload_host_aliases"
	TokenMounted         Reason = "workload_token_mounted"
	TokenProjected       Reason = "workload_token_projected"
	ServiceAccount       Reason = "workload_service_account"
	ImagePullSecrets     Reason = "workload_image_pull_secrets"
	RuntimeClass         Reason = "workload_runtime_class"
	UserNamespaceMissing Reason = "workload_user_namespace_missing"
	ResourceClaims       Reason = "workload_resource_claims"
)

// resolver is the address that the runtime answers names at (contract 7.5).
const resolver = "127.0.0.53"

// networkAnnotations are those of the Network Plumbing Working Group and of its reference implementation, with which a Pod
// gets further network interfaces, or another one for its first.
var networkAnnotations = []string{"k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network"}

func isolation() []check {
	return []check{
		{HostNetwork, func(p *corev1.Pod, _ *Expected) string {
			return unless(!p.Spec.HostNetwork, "hostNetwork is true: the Pod is on the network of its node, where no fence is")
		}},
		{HostPID, func(p *corev1.Pod, _ *Expected) string { return unless(!p.Spec.HostPID, "hostPID is true") }},
		{HostIPC, func(p *corev1.Pod, _ *Expected) string { return unless(!p.Spec.HostIPC, "hostIPC is true") }},
		{ExtraNetwork, func(p *corev1.Pod, _ *Expected) string { return Networks(p) }},
		{SharedProcesses, func(p *corev1.Pod, _ *Expected) string {
			return unless(!is(p.Spec.ShareProcessNamespace, true), "shareProcessNamespace is true")
		}},
		{RestartPolicy, func(p *corev1.Pod, _ *Expected) string {
			return unless(p.Spec.RestartPolicy == corev1.RestartPolicyNever, "restartPolicy is %.40q, and must be Never", p.Spec.RestartPolicy)
		}},
		{DNSPolicy, func(p *corev1.Pod, _ *Expected) string {
			return unless(p.Spec.DNSPolicy == corev1.DNSNone, "dnsPolicy is %.40q, and must be None", p.Spec.DNSPolicy)
		}},
		{DNSNameservers, func(p *corev1.Pod, _ *Expected) string {
			return unless(slices.Equal(dns(p).Nameservers, []string{resolver}),
				"dnsConfig.nameservers is %.120q, and must be %s alone", dns(p).Nameservers, resolver)
		}},
		{DNSSearches, func(p *corev1.Pod, _ *Expected) string {
			return unless(len(dns(p).Searches) == 0, "dnsConfig.searches is %.120q, and must be empty", dns(p).Searches)
		}},
		{HostAliases, hostAliases},
		{TokenMounted, func(p *corev1.Pod, _ *Expected) string {
			return unless(is(p.Spec.AutomountServiceAccountToken, false),
				"automountServiceAccountToken is %s, and must be false", value(p.Spec.AutomountServiceAccountToken))
		}},
		{TokenProjected, tokenProjected},
		{ServiceAccount, func(p *corev1.Pod, e *Expected) string {
			return unless(p.Spec.ServiceAccountName == e.ServiceAccount,
				"serviceAccountName is %.80q, and must be %q", p.Spec.ServiceAccountName, e.ServiceAccount)
		}},
		{ImagePullSecrets, pullSecrets},
		{RuntimeClass, func(p *corev1.Pod, e *Expected) string {
			class := ""
			if p.Spec.RuntimeClassName != nil {
				class = *p.Spec.RuntimeClassName
			}
			return unless(class == e.RuntimeClass, "runtimeClassName is %.80q, and must be %q", class, e.RuntimeClass)
		}},
		{UserNamespaceMissing, func(p *corev1.Pod, e *Expected) string {
			return unless(!e.UserNamespace || is(p.Spec.HostUsers, false), "hostUsers is %s, and must be false", value(p.Spec.HostUsers))
		}},
		{ResourceClaims, func(p *corev1.Pod, _ *Expected) string {
			return unless(len(p.Spec.ResourceClaims) == 0, "the Pod has %d resource claims, and must have none", len(p.Spec.ResourceClaims))
		}},
	}
}

// Networks says what asks for a network beside the cluster's; empty when nothing does. Annotations of a Pod that was admitted can still be
// edited, and are read when it starts.
func Networks(p *corev1.Pod) string {
	for _, key := range networkAnnotations {
		if _, set := p.Annotations[key]; set {
			return unless(false, "the annotation %s puts the Pod on a network of its own choice, where no fence is", key)
		}
	}
	return ""
}

func dns(p *corev1.Pod) corev1.PodDNSConfig {
	if p.Spec.DNSConfig == nil {
		return corev1.PodDNSConfig{}
	}
	return *p.Spec.DNSConfig
}

// hostAliases allows the names of the host gateway, and only with its address: any other entry sends a name elsewhere than
// the resolver would.
func hostAliases(p *corev1.Pod, e *Expected) string {
	for _, alias := range p.Spec.HostAliases {
		if e.HostGatewayIP == "" || alias.IP != e.HostGatewayIP {
			return unless(false, "hostAliases lead %.120q to %.50q, which is not the host gateway", alias.Hostnames, alias.IP)
		}
		for _, name := range alias.Hostnames {
			if name != "host.docker.internal" && name != "host.openshell.internal" {
				return unless(false, "hostAliases lead %.120q to the host gateway, and that is none of its names", name)
			}
		}
	}
	return ""
}

func tokenProjected(p *corev1.Pod, _ *Expected) string {
	for _, v := range p.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ServiceAccountToken != nil {
				return unless(false, "volume %.80q holds a token of the ServiceAccount for %.80q", v.Name, source.ServiceAccountToken.Audience)
			}
		}
	}
	return ""
}

// pullSecrets never names the bootstrap Secret. Where none was rendered, the API server has put the ServiceAccount's there.
func pullSecrets(p *corev1.Pod, e *Expected) string {
	var names []string
	for _, reference := range p.Spec.ImagePullSecrets {
		names = append(names, reference.Name)
	}
	if slices.Contains(names, e.Secret) {
		return unless(false, "imagePullSecrets names the bootstrap Secret %s", e.Secret)
	}
	return unless(len(e.PullSecrets) == 0 || slices.Equal(names, e.PullSecrets),
		"imagePullSecrets is %.160q, and must be %.160q", names, e.PullSecrets)
}
