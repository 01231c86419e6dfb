package allowlist

import "fmt"

// SealSnapshot signs s and returns the record to store, with the digest by which heartbeats name it. Records above
// PlainLimit are compressed. The error is a value that no reader would accept; a list that no record can hold is
// ErrTooLarge.
func SealSnapshot(s Snapshot, signer *Signer) ([]byte, Digest, error) {
	payload, err := s.encode()
	if err != nil {
		return nil, Digest{}, err
	}
	record, err := seal(kindSnapshot, payload, signer)
	if err != nil {
		return nil, Digest{}, fmt.Errorf("seal snapshot: %w", err)
	}
	return record, digestOf(payload), nil
}

// OpenSnapshot verifies a stored record and reads it (rule R1). Any byte string is safe to give. The error is a
// *Rejection; nothing of a record that gives one may be used.
func OpenSnapshot(record []byte, keys KeySet, gatewayID string) (Snapshot, Digest, error) {
	s, digest, _, err := openSnapshot(record, keys, gatewayID)
	return s, digest, err
}

// openSnapshot tells the key too.
func openSnapshot(record []byte, keys KeySet, gatewayID string) (Snapshot, Digest, PublicKey, error) {
	payload, by, err := openPayload(kindSnapshot, record, keys)
	if err != nil {
		return Snapshot{}, Digest{}, PublicKey{}, err
	}
	s, err := decodeSnapshot(payload)
	if err != nil {
		return Snapshot{}, Digest{}, PublicKey{}, &Rejection{Cause: Malformed, err: err}
	}
	if s.GatewayID != gatewayID {
		return Snapshot{}, Digest{}, PublicKey{}, foreign(s.GatewayID, gatewayID)
	}
	return s, digestOf(payload), by, nil
}

// SealHeartbeat signs h and returns the record to store. The error is a value that no reader would accept.
func SealHeartbeat(h Heartbeat, signer *Signer) ([]byte, error) {
	payload, err := h.encode()
	if err != nil {
		return nil, err
	}
	record, err := seal(kindHeartbeat, payload, signer)
	if err != nil {
		return nil, fmt.Errorf("seal heartbeat: %w", err)
	}
	return record, nil
}

// OpenHeartbeat is OpenSnapshot for heartbeats.
func OpenHeartbeat(record []byte, keys KeySet, gatewayID string) (Heartbeat, error) {
	h, _, err := openHeartbeat(record, keys, gatewayID)
	return h, err
}

// openHeartbeat tells the key too.
func openHeartbeat(record []byte, keys KeySet, gatewayID string) (Heartbeat, PublicKey, error) {
	payload, by, err := openPayload(kindHeartbeat, record, keys)
	if err != nil {
		return Heartbeat{}, PublicKey{}, err
	}
	h, err := decodeHeartbeat(payload)
	if err != nil {
		return Heartbeat{}, PublicKey{}, &Rejection{Cause: Malformed, err: err}
	}
	if h.GatewayID != gatewayID {
		return Heartbeat{}, PublicKey{}, foreign(h.GatewayID, gatewayID)
	}
	return h, by, nil
}

func openPayload(k kind, record []byte, keys KeySet) ([]byte, PublicKey, error) {
	e, err := parseEnvelope(k, record)
	if err != nil {
		return nil, PublicKey{}, err
	}
	return e.open(keys)
}

func foreign(found, want string) error {
	return reject(ForeignGateway, "it is for gateway %s, not %s", quote(found), quote(want))
}
