// SPDX-License-Identifier: BSD-2-Clause

package mem

// Regions returns how many regions some domains have, and calls show for the first of them with
// their places in the table. show must not call the table.
func (t *Table) Regions(domains map[PD]bool, most int, show func(place uint32, r *Region)) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for place := range t.fresh {
		if int(place>>chunkBits) >= len(*t.chunks.Load()) {
			break // fresh may run ahead of the keys given out
		}
		if r := t.slotNumber(place).region; r != nil && !r.gone && domains[r.PD()] {
			if n < most {
				show(place, r)
			}
			n++
		}
	}
	return n
}
