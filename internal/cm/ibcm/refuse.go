// SPDX-License-Identifier: BSD-2-Clause

package ibcm

// Refuser answers MADs on behalf of a process that has no connections and listens
// to nothing, so that peers need not run into their time-outs. It keeps nothing of
// them. The zero Refuser is ready.
type Refuser struct{ agent Agent }

// Refuse answers one MAD: a REQ is rejected, a DREQ confirmed, a SIDR_REQ denied. It
// is false where silence is the answer.
func (r *Refuser) Refuse(path Path, mad []byte, d *Datagram) bool {
	r.agent.HandleMAD(0, path, mad)
	ok := r.agent.PollOutput(d)
	r.agent.out, r.agent.outHead = r.agent.out[:0], 0 // for the next answer
	return ok
}
