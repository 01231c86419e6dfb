package tokenauth_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

// forged changes one thing about a token before the test signs it, as the API server would.
type forged struct {
	name   string
	claims func(map[string]any)
	// header and payload change their texts, foreign has another API server's key.
	header, payload func(string) string
	foreign         bool
}

var hour = time.Hour.Seconds()

func moved(claim string, seconds float64) func(map[string]any) {
	return func(claims map[string]any) { claims[claim] = float64(time.Now().Unix()) + seconds }
}

var forgeries = []forged{
	{name: "expired", claims: moved("exp", -hour)},
	{name: "not yet valid", claims: moved("nbf", hour)},
	{name: "of an issuer that is not trusted", claims: func(c map[string]any) { c["iss"] = "https://elsewhere" }},
	{name: "for no audience", claims: func(c map[string]any) { delete(c, "aud") }},
	{name: "for our audience by another spelling", claims: func(c map[string]any) { c["aud"] = []string{"Openshell-Gateway"} }},
	{name: "of a Pod by its name and another uid", claims: func(c map[string]any) {
		pod(c)["uid"] = "7c1d2e3f-0a4b-4c8d-8e9f-a0b1c2d3e4f5"
	}},
	{name: "of an account by another uid", claims: func(c map[string]any) {
		bound(c)["serviceaccount"].(map[string]any)["uid"] = "7c1d2e3f-0a4b-4c8d-8e9f-a0b1c2d3e4f5"
	}},
	{name: "signed by another cluster's key", foreign: true},
	{name: "of an algorithm that is none", header: func(string) string { return `{"alg":"none"}` }},
	{name: "of an algorithm that the key is not for", header: func(h string) string { return strings.Replace(h, "ES256", "HS256", 1) }},
	{name: "with one claim twice", payload: func(p string) string {
		return strings.TrimSuffix(p, "}") + `,"kubernetes.io":{"namespace":"elsewhere"}}`
	}},
	{name: "with claims that are no object", payload: func(string) string { return `["openshell-gateway"]` }},
}

func bound(claims map[string]any) map[string]any { return claims["kubernetes.io"].(map[string]any) }

func pod(claims map[string]any) map[string]any { return bound(claims)["pod"].(map[string]any) }

// A token that this test signs with the API server's own key is as good as one that the API server issued, so what is refused is
// refused for what was changed. No test can wait until an issued one expires: ten minutes are the least.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	s := tokenauth.Shared(t, cluster.Start(t, cluster.ControlPlane))
	p := s.Start()
	p.AwaitReady()
	c := s.Client(p)
	key, foreign := s.ClusterKey(), tokenauth.NewKey(t)
	b := s.Bearer(s.Namespace)
	awaitAccepted(t, c, b)
	header, payload := s.Parts(b.Token)

	signed := *b
	signed.Token = s.Sign(key, header, s.Claims(payload, moved("exp", hour)))
	for _, f := range forgeries {
		t.Run(f.name, func(t *testing.T) {
			awaitAccepted(t, c, &signed)
			k, h, p := key, header, payload
			if f.foreign {
				k = foreign
			}
			if f.claims != nil {
				p = s.Claims(p, f.claims)
			}
			if f.header != nil {
				h = f.header(h)
			}
			if f.payload != nil {
				p = f.payload(p)
			}
			if !json.Valid([]byte(h)) || !json.Valid([]byte(p)) || !f.foreign && h == header && p == payload {
				t.Fatal("the case does not change what it says")
			}
			demandRefused(t, c, s.Sign(k, h, p), verdict.CredentialNotAccepted)
		})
	}
	p.Stop()
}
