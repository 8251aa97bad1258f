// SPDX-License-Identifier: BSD-2-Clause

package mem

// Purge voids every key of some domains and lets their memory go, as FreeWindow
// and Deregister do one by one: the end of one of several that share the table.
// When it has returned, nothing here reads or writes a byte of that memory. The
// caller must hold no span of it.
func (t *Table) Purge(domains map[PD]bool) {
	var regions []*Region
	t.mu.Lock()
	for n := range t.fresh {
		if int(n>>chunkBits) >= len(*t.chunks.Load()) { // fresh may run ahead of the keys given out
			break
		}
		s := t.slotNumber(n)
		if w := s.window; w != nil && domains[w.pd] {
			w.unbindLocked()
			w.gone = true
			t.giveLocked(n)
		}
		if r := s.region; r != nil && !r.gone && domains[r.PD()] {
			regions = append(regions, r)
		}
	}
	t.mu.Unlock()
	for _, r := range regions {
		_ = t.Deregister(r) // or somebody else does
	}
}
