// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"verbena/ib"
	"verbena/internal/wire/cm"
)

// Refusal is a request for a connection, or for a datagram service, that an Agent has refused.
type Refusal struct {
	Path      Path
	ServiceID cm.ServiceID
	PeerQPN   ib.QPN // 0: a SIDR_REQ names none
	Reason    cm.Reason
}

func (a *Agent) refused(r Refusal) {
	if a.Refused != nil {
		a.Refused(r)
	}
}

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
