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
	payload, err := openPayload(kindSnapshot, record, keys)
	if err != nil {
		return Snapshot{}, Digest{}, err
	}
	s, err := decodeSnapshot(payload)
	if err != nil {
		return Snapshot{}, Digest{}, &Rejection{Cause: Malformed, err: err}
	}
	if s.GatewayID != gatewayID {
		return Snapshot{}, Digest{}, foreign(s.GatewayID, gatewayID)
	}
	return s, digestOf(payload), nil
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
	payload, err := openPayload(kindHeartbeat, record, keys)
	if err != nil {
		return Heartbeat{}, err
	}
	h, err := decodeHeartbeat(payload)
	if err != nil {
		return Heartbeat{}, &Rejection{Cause: Malformed, err: err}
	}
	if h.GatewayID != gatewayID {
		return Heartbeat{}, foreign(h.GatewayID, gatewayID)
	}
	return h, nil
}

func openPayload(k kind, record []byte, keys KeySet) ([]byte, error) {
	e, err := parseEnvelope(k, record)
	if err != nil {
		return nil, err
	}
	return e.open(keys)
}

func foreign(found, want string) error {
	return reject(ForeignGateway, "it is for gateway %s, not %s", quote(found), quote(want))
}
