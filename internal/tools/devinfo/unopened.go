// SPDX-License-Identifier: BSD-2-Clause

package devinfo

import (
	"context"

	"verbena/ib"
	"verbena/internal/stats"
	"verbena/internal/tools/cli"
	"verbena/verbs"
)

// unopened is an NTB link. Opening it would take it from the process that is to have it. So the
// process that has it open is asked whether the port is active.
type unopened struct{ verbs.DeviceInfo }

func (u unopened) Query() ib.DeviceAttr { return u.Attr() }

func (u unopened) GIDTable(int) ([]ib.GIDEntry, error) { return u.GIDs() }

func (u unopened) QueryPort(int) (ib.PortAttr, error) {
	a := u.PortAttr()
	processes, err := stats.Collect(context.Background(), cli.RuntimeDir())
	if err != nil {
		return a, err
	}
	for _, p := range processes {
		for _, d := range p.Devices {
			if d.Active && d.GUID == uint64(u.GUID) {
				a.State, a.PhysState = ib.PortActive, 5
			}
		}
	}
	return a, nil
}
