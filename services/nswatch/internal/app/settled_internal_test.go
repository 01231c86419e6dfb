package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/inspection"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// looked is a report on a list of revision 2 and a beat for the revision that is said.
func looked(vouched uint64) *inspection.Report {
	now := time.Now()
	bounds := allowlist.DefaultSettings()
	return inspection.NewReport(&allowkv.Inspection{
		GatewayID: "blue", LocalTime: now, ServerTime: now,
		Snapshots:  []allowkv.KeptRecord{{Snapshot: &allowlist.Snapshot{GatewayID: "blue", Epoch: 1, Revision: 2, PublishedAt: now}}},
		Heartbeats: []allowkv.KeptRecord{{Heartbeat: &allowlist.Heartbeat{GatewayID: "blue", Epoch: 1, Revision: vouched, PublishedAt: now}}},
	}, &bounds)
}

func TestSettled(t *testing.T) {
	failed := errors.New("NATS is away")
	slow, usual := 5*time.Second, time.Second
	for name, tc := range map[string]struct {
		interval time.Duration
		look     func(n int) (*inspection.Report, error)
		usable   bool
		err      error
		takes    time.Duration // at least; and not twice that
	}{
		"vouched for":                {usual, func(int) (*inspection.Report, error) { return looked(2), nil }, true, nil, 0},
		"another is vouched for":     {usual, func(int) (*inspection.Report, error) { return looked(3), nil }, false, nil, 0},
		"vouched for a moment later": {usual, func(n int) (*inspection.Report, error) { return looked(uint64(min(2, n))), nil }, true, nil, 50 * time.Millisecond},
		"never":                      {usual, func(int) (*inspection.Report, error) { return looked(1), nil }, false, nil, settlePatience},
		"never, at a slow beat":      {slow, func(int) (*inspection.Report, error) { return looked(1), nil }, false, nil, 2 * slow},
		"not to be seen": {usual, func(n int) (*inspection.Report, error) {
			if n == 1 {
				return looked(1), nil
			}
			return nil, failed
		}, false, failed, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bounds := allowlist.DefaultSettings()
				bounds.HeartbeatInterval = driverconf.Duration(tc.interval)
				began, looks := time.Now(), 0
				report, err := settled(context.Background(), &bounds, func() (*inspection.Report, error) {
					looks++
					return tc.look(looks)
				})
				if !errors.Is(err, tc.err) || err == nil && report.Usable != tc.usable {
					t.Errorf("got %+v, %v", report, err)
				}
				if took := time.Since(began); took < tc.takes || took > 2*tc.takes {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}
