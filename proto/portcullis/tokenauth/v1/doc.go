// Package tokenauthv1 is the call from lifecycle to tokenauth: who is this bearer, and may its
// namespace be trusted now. Only an OK answer grants.
//
// Everything but this file is generated from tokenauth.proto.
package tokenauthv1
