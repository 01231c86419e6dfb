package e2e_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// names lets the Pods of a policy ask the cluster's name server, in the words that our own policies use, and nobody else.
const names = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow-names}
spec:
  podSelector: {matchLabels: {app: fenced}}
  policyTypes: [Egress]
  egress:
    - to:
        - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}
          podSelector: {matchLabels: {k8s-app: kube-dns}}
      ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
`

// A Pod finds a Service by its name and reaches the Pod behind it through the cluster address, also after that Pod gave
// way to another.
func TestPodFindsAServiceByName(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Node)
	c.DNS(t)
	ns := c.Namespace(t, restricted)
	c.Apply(t, ns, []byte(service))
	asker, other := startProbe(t, c, ns, "asker"), startProbe(t, c, ns, "other")
	for _, name := range []string{"other", "other." + ns, "other." + ns + ".svc", "other." + ns + ".svc.cluster.local"} {
		dials(t, asker, name+":80", true)
	}
	dials(t, asker, "other:81", false) // that the name resolves is not enough: the dial must arrive
	dials(t, asker, "another:80", false)

	pods := c.Client().CoreV1().Pods(ns)
	if err := pods.Delete(t.Context(), other.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	dials(t, asker, "other:80", false)
	cluster.Eventually(t, "the Pod is gone", func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=other"})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d left", len(list.Items))
		}
		return err
	})
	successor := startProbe(t, c, ns, "other")
	if successor.UID == other.UID {
		t.Fatal("the Pod was not replaced")
	}
	dials(t, asker, "other:80", true)
}

// Services open nothing that a policy closes: neither by their cluster address nor by their name, and a policy that lets
// names be asked for lets nothing else through.
func TestServicesDoNotOpenAFence(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Node)
	c.DNS(t)
	ns := c.Namespace(t, restricted)
	c.Apply(t, ns, []byte(service))
	fenced, other := startProbe(t, c, ns, "fenced"), startProbe(t, c, ns, "other")
	svc, err := c.Client().CoreV1().Services(ns).Get(t.Context(), "other", metav1.GetOptions{})
	noError(t, err)
	address, name := net.JoinHostPort(svc.Spec.ClusterIP, "80"), "other."+ns+".svc:80" // the short name is the Pod's own to itself
	server := net.JoinHostPort(cluster.DNSAddress, "53")
	for _, target := range []string{name, address, server} {
		dials(t, fenced, target, true)
	}
	c.Apply(t, ns, []byte(denyEgress))
	for _, target := range []string{name, address, server} {
		dials(t, fenced, target, false)
	}
	dials(t, other, name, true) // a Pod that no policy means

	c.Apply(t, ns, []byte(names))
	dials(t, fenced, server, true)
	dials(t, fenced, address, false)
	// The name is known again, and what is behind it is still closed: the failure is no longer the lookup's.
	cluster.Eventually(t, "the name resolves behind the fence", func(ctx context.Context) error {
		_, why, err := ask(ctx, fenced, "/dial?addr="+name)
		if err == nil && !strings.Contains(why, svc.Spec.ClusterIP) {
			err = fmt.Errorf("the dial says %q", why)
		}
		return err
	})
}
