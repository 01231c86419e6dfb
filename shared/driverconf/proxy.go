package driverconf

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// MaxProxyCABundleBytes is the largest CA bundle that can be staged (contract 3.1).
const MaxProxyCABundleBytes = 256 << 10

var secretKey = regexp.MustCompile(`^[A-Za-z0-9._-]{1,253}$`)

// validateProxy holds the proxy rules of contract 3.1. No message shows the
// proxy's URL or the list beside it, which may carry a credential by mistake.
func (k *Kubernetes) validateProxy(report Report) {
	const nameSetting, keySetting, consent = "proxy_auth_secret_name", "proxy_auth_secret_key", "proxy_auth_allow_insecure"
	if why := proxyProblem(k.HTTPSProxy); why != "" {
		report("https_proxy", why)
	}
	if strings.Contains(k.NoProxy, "@") {
		report("no_proxy", "must not hold an @: it lists destinations, and credentials have no place in it")
	}
	name, key := k.ProxyAuthSecretName, k.ProxyAuthSecretKey
	switch {
	case name != "" && len(validation.IsDNS1123Subdomain(name)) > 0:
		report(nameSetting, subdomainRule)
	case name == "" && key != "":
		report(nameSetting, "must be set together with "+keySetting, keySetting)
	}
	switch {
	case key != "" && (!secretKey.MatchString(key) || key == "." || key == ".."):
		report(keySetting, "must be 1 to 253 of A-Z, a-z, 0-9, '.', '_' and '-', and not . or ..")
	case key == "" && name != "":
		report(keySetting, "must be set together with "+nameSetting, nameSetting)
	}
	credential := name != "" || key != ""
	if credential && k.HTTPSProxy == "" {
		report("https_proxy", "must be set when a proxy credential is: there is no proxy to send it to", nameSetting, keySetting)
	}
	switch scheme, _, _ := strings.Cut(k.HTTPSProxy, "://"); {
	case k.ProxyAuthAllowInsecure && !credential:
		report(consent, "is true, but there is no credential; set "+nameSetting+" and "+keySetting+" or remove it", nameSetting, keySetting)
	case credential && strings.EqualFold(scheme, "http") && !k.ProxyAuthAllowInsecure:
		report(consent, "must be true to send the credential in clear text to an http proxy; better use an https proxy", "https_proxy", nameSetting, keySetting)
	}
}

func proxyProblem(proxy string) string {
	switch why := urlProblem(proxy); {
	case strings.Contains(proxy, "@"):
		return "must not carry credentials; put them into a Secret and name it with proxy_auth_secret_name and proxy_auth_secret_key"
	case why == urlRule:
		return "must be a URL with a host that begins with http:// or https://, such as http://proxy.example:3128"
	default:
		return why
	}
}

// ReadProxyCABundle reads the file that proxy_ca_bundle names and checks it: a
// regular file of at most MaxProxyCABundleBytes, PEM, at least one certificate
// that parses, and no private key, since the bundle is copied into Secrets. It
// returns nil without a bundle. The contract has it read at the start and again
// for each generation, so call it both times.
func (k *Kubernetes) ReadProxyCABundle() ([]byte, error) {
	if k.ProxyCABundle == "" {
		return nil, nil
	}
	bundle, err := readRegular(k.ProxyCABundle, MaxProxyCABundleBytes)
	if err == nil {
		err = checkBundle(bundle)
	}
	if err != nil {
		return nil, fmt.Errorf("%s.proxy_ca_bundle: file %s: %w", kubernetesPrefix, quote(k.ProxyCABundle), err)
	}
	return bundle, nil
}

func checkBundle(bundle []byte) error {
	anchors := 0
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		switch {
		case strings.Contains(block.Type, "PRIVATE KEY"):
			return errors.New("holds a private key; a CA bundle holds certificates only")
		case block.Type == "CERTIFICATE":
			if _, err := x509.ParseCertificate(block.Bytes); err == nil {
				anchors++
			}
		}
	}
	if anchors == 0 {
		return errors.New("has no PEM certificate that can be read")
	}
	return nil
}
