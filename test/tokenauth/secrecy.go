package tokenauth

import "strings"

// Watch adds a text, as it will be when the test ends, that must hold nothing of a token.
func (s *Site) Watch(output func() string) { s.outputs = append(s.outputs, output) }

// Guard adds a token of which nothing may be written.
func (s *Site) Guard(token string) { s.tokens = append(s.tokens, token) }

// demandSecrecy fails the test when anything of a token was written.
func (s *Site) demandSecrecy() {
	for _, output := range s.outputs {
		text := output()
		for _, token := range s.tokens {
			if part := Disclosed(text, token); part != "" {
				s.t.Errorf("the output of a process holds %q of a token", part)
				return
			}
		}
	}
}

// Disclosed is a piece of the token's claims or signature that is in text; empty when there is none. The header of a token is the
// same for all tokens of a cluster and no secret.
func Disclosed(text, token string) string {
	const size = 16
	_, secret, _ := strings.Cut(token, ".")
	for i := 0; i+size <= len(secret); i += size / 2 {
		if piece := secret[i : i+size]; strings.Contains(text, piece) {
			return piece
		}
	}
	return ""
}
