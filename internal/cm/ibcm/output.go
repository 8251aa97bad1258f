// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import "verbena/internal/wire/cm"

// MAD is a whole management datagram.
type MAD [cm.MADSize]byte

// Datagram is a MAD to be sent, from Path.Local to Path.Remote, QP1 to QP1.
type Datagram struct {
	Path Path
	MAD  MAD
}

// maxOutput bounds the MADs waiting for PollOutput: more would mean that
// nobody sends them, and the protocol survives loss.
const maxOutput = 4096

type message interface{ Append([]byte) []byte }

// encode returns the MAD of a message.
func encode(attr cm.Attribute, tid uint64, m message) (mad MAD) {
	m.Append(cm.NewHeader(attr, tid).Append(mad[:0]))
	return mad
}

// begin writes the header of a MAD and returns what the message is appended to. Where
// encode has its message escape, an answer that is sent at once and kept nowhere is
// written this way, without allocating.
func begin(mad *MAD, attr cm.Attribute, tid uint64) []byte {
	return cm.NewHeader(attr, tid).Append(mad[:0])
}

func (a *Agent) send(path Path, mad *MAD) {
	if len(a.out)-a.outHead >= maxOutput {
		a.count[DroppedOutputFull]++
		return
	}
	a.count[Sent]++
	a.out = append(a.out, Datagram{Path: path, MAD: *mad})
}

// Waiting reports whether PollOutput or PollEvent may have something.
func (a *Agent) Waiting() bool { return a.outHead < len(a.out) || a.eventHead < len(a.events) }

// PollOutput fills d with the next MAD to send.
func (a *Agent) PollOutput(d *Datagram) bool {
	if a.outHead == len(a.out) {
		a.out, a.outHead = a.out[:0], 0
		return false
	}
	*d = a.out[a.outHead]
	a.outHead++
	return true
}
