// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import "verbena/internal/wire/cm"

// handleLAP refuses an alternate path: the application loads one by
// ibv_modify_qp, as rdma_cm has no call for it.
func (a *Agent) handleLAP(path Path, tid uint64, m *cm.LAP) {
	c, known := a.lookup(path, m.RemoteCommID, m.LocalCommID)
	if c == nil && known {
		return
	}
	apr := cm.APR{LocalCommID: m.RemoteCommID, RemoteCommID: m.LocalCommID,
		Status: cm.APUnsupported}
	if c == nil {
		apr.Status = cm.APInvalidCommID
	}
	a.count[LAPRefused]++
	var mad MAD
	apr.Append(begin(&mad, cm.AttrAPR, tid))
	a.answer(path, &mad)
}
