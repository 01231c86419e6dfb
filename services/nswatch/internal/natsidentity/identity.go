package natsidentity

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/audit"
)

// APIPrefix stands for $JS.API in the requests of all daemons: js_api_prefix of [portcullis.nats].
const APIPrefix = "portcullis.js"

// names are the identities, in the order of accounts.conf.
var names = [...]string{"nswatch", "bootstrap", "tokenauth", "lifecycle", "gateway", "operator"}

// Names are the identities: the daemons that use NATS, the job that makes the bucket and the audit stream, a gateway that runs
// a reader of its own, and the operator, who only looks.
func Names() []string { return names[:] }

// Secret is the name of the Secret in which an identity finds its seed and the servers' authority.
func Secret(name string) string { return "portcullis-" + name + "-nats" }

// ConfigMap is the name of the ConfigMap from which the servers take [File].
const ConfigMap = "portcullis-nats-identities"

// File is the name of what [Config] renders, where accounts.conf looks for it.
const File = "identities.conf"

// variable is what accounts.conf calls an identity.
func variable(name string) string { return strings.ToUpper(name) + "_NKEY" }

// Config is the text of [File] for a gateway: the public key of each identity, and the subjects that have the gateway's id in
// them. publics has a key for each of [Names].
func Config(gatewayID string, publics map[string]string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# Made by nswatch nats identities for gateway %s. Nothing in it is secret.\n\n", gatewayID)
	for _, name := range names {
		if publics[name] == "" {
			return "", fmt.Errorf("identity %s has no public key", name)
		}
		fmt.Fprintf(&b, "%s: %q\n", variable(name), publics[name])
	}
	subject := "$KV." + allowkv.Bucket + "."
	for _, v := range [...]struct{ name, value string }{
		{"ALLOWLIST_SNAPSHOT", subject + allowlist.SnapshotKey(gatewayID)},
		{"ALLOWLIST_HEARTBEAT", subject + allowlist.HeartbeatKey(gatewayID)},
		{"ALLOWLIST_READ", APIPrefix + ".CONSUMER.CREATE." + allowkv.Stream + ".*." + subject + gatewayID + ".*"},
		{"AUDIT_TOKENAUTH", audit.Subject(gatewayID, "tokenauth")},
	} {
		fmt.Fprintf(&b, "%s: %q\n", v.name, v.value)
	}
	return b.String(), nil
}

// Public is the public key that a text of [Config] gives an identity, empty if it gives none.
func Public(config, name string) string {
	for line := range strings.Lines(config) {
		if value, found := strings.CutPrefix(line, variable(name)+": "); found {
			public, _ := strconv.Unquote(strings.TrimSpace(value))
			return public
		}
	}
	return ""
}

// Kustomization makes the ConfigMap and the Secrets of what is in a [Directory]. Their names have no hash: the ConfigMap is
// followed by the servers, the Secrets by the daemons.
func Kustomization(namespace string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Made by nswatch nats identities. The directory holds secrets: keep it as such.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: %s
generatorOptions:
  disableNameSuffixHash: true
configMapGenerator:
  - name: %s
    files: [%s]
secretGenerator:
`, namespace, ConfigMap, File)
	for _, name := range names {
		fmt.Fprintf(&b, "  - name: %s\n    files: [ca.crt, seed=%s]\n", Secret(name), seedFile(name))
	}
	return b.String()
}

func seedFile(name string) string { return name + ".seed" }
