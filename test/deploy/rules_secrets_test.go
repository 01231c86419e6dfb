package deploy_test

import (
	"slices"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// signing is the Secret with the key that lists are signed with, and holder is whose it is.
const (
	signing = "portcullis-nswatch-signing"
	holder  = "Deployment nswatch"
)

// brokers are the Secrets of the servers of NATS.
var brokers = []string{"portcullis-nats-tls"}

// keysStayApart: nobody but nswatch has the signing key, and NATS has the Secrets of its servers alone: who takes a server over can withhold
// a list, and makes none.
func keysStayApart(w *deploy.World) (found breaches) {
	for _, p := range w.Pods {
		for _, secret := range secretsOf(p) {
			if secret == signing && p.Workload != holder {
				found.add("%s has the signing key", p.Workload)
			}
			if p.Workload == "StatefulSet nats" && !slices.Contains(brokers, secret) {
				found.add("%s has Secret %s", p.Workload, secret)
			}
		}
	}
	return found
}

// secretsOf are the Secrets that a Pod gets, by its volumes or in its environment.
func secretsOf(p deploy.Pod) (names []string) {
	for _, v := range p.Spec.Volumes {
		if v.Secret != nil {
			names = append(names, v.Secret.SecretName)
		}
		if v.Projected != nil {
			for _, source := range v.Projected.Sources {
				if source.Secret != nil {
					names = append(names, source.Secret.Name)
				}
			}
		}
	}
	for _, c := range containers(p) {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				names = append(names, e.ValueFrom.SecretKeyRef.Name)
			}
		}
		for _, from := range c.EnvFrom {
			if from.SecretRef != nil {
				names = append(names, from.SecretRef.Name)
			}
		}
	}
	return names
}
