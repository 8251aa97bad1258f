// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"cmp"
	"maps"
	"slices"

	"verbena/internal/mem"
	"verbena/internal/stats"
)

// ShowIdentifiers makes `verbena stat` show those of a connection manager, which list returns.
func (c *Context) ShowIdentifiers(list func() []stats.Identifier) {
	c.host.identifiers.Store(&list)
}

// objects adds the objects of a device's contexts, each kind by its numbers.
func (h *host) objects(d *stats.Device) {
	h.mu.Lock()
	all := slices.Collect(maps.Keys(h.contexts))
	h.mu.Unlock()
	slices.SortFunc(all, func(a, b *Context) int { return cmp.Compare(a.number, b.number) })
	for _, c := range all {
		if c.info.Name == d.Name {
			c.show(d)
		}
	}
}

// show adds the objects of a context.
func (c *Context) show(d *stats.Device) {
	d.Contexts = append(d.Contexts, c.number)
	c.mu.Lock()
	domains := slices.Collect(maps.Values(c.domains))
	cqs, srqs := slices.Collect(maps.Keys(c.cqs)), slices.Collect(maps.Keys(c.srqs))
	c.mu.Unlock()
	slices.SortFunc(domains, func(a, b *PD) int { return cmp.Compare(a.num, b.num) })
	slices.SortFunc(cqs, func(a, b *CQ) int { return cmp.Compare(a.number, b.number) })
	slices.SortFunc(srqs, func(a, b *SRQ) int { return cmp.Compare(a.number, b.number) })
	ours := map[mem.PD]bool{}
	for _, p := range domains {
		ours[p.num] = true
		d.PDs = append(d.PDs, stats.PD{PDN: uint32(p.num), Context: c.number,
			Users: users(&p.users)})
	}
	for _, q := range cqs {
		d.CQs = append(d.CQs, stats.CQ{CQN: q.number, Context: c.number, Depth: q.Depth(),
			Users: users(&q.users)})
	}
	for _, s := range srqs {
		o := stats.SRQ{SRQN: s.number, Context: c.number, PDN: uint32(s.pd.num),
			XRC: s.xrcd != nil, TM: s.tags != nil, Recvs: s.ring.Len(), Users: users(&s.users)}
		if o.TM {
			o.Tags, _ = s.tags.Len()
		}
		d.SRQs = append(d.SRQs, o)
	}
	d.Regions += c.keys.Regions(ours, stats.MostRegions, func(n uint32, r *mem.Region) {
		d.MRs = append(d.MRs, stats.MR{MRN: n, Context: c.number, PDN: uint32(r.PD()),
			Length: r.Length()})
	})
}
