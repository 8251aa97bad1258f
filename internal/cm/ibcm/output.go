// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"slices"

	"verbena/internal/wire/cm"
)

// MAD is a whole management datagram.
type MAD [cm.MADSize]byte

// Datagram is a MAD to be sent, from Path.Local to Path.Remote, QP1 to QP1.
type Datagram struct {
	Path Path
	MAD  MAD
}

const (
	// maxOutput bounds the MADs waiting for PollOutput: more would mean that
	// nobody sends them, and the protocol survives loss.
	maxOutput = 4096
	// maxAnswers bounds the MADs among them that answer strangers, so that any number of requests
	// leaves room for the messages of connections.
	maxAnswers = maxOutput / 2
)

type message interface{ Append([]byte) []byte }

// encode returns the MAD of a message.
func encode(attr cm.Attribute, tid uint64, m message) (mad MAD) {
	m.Append(cm.NewHeader(attr, tid).Append(mad[:0]))
	return mad
}

// encodeECE is encode of a message that may carry the options of ECE, as its attribute modifier.
func encodeECE(attr cm.Attribute, tid uint64, m message, options uint32) (mad MAD) {
	h := cm.NewHeader(attr, tid)
	h.Modifier = options
	m.Append(h.Append(mad[:0]))
	return mad
}

// begin writes the header of a MAD and returns the buffer for the message. Where encode makes its
// message escape, an answer that is sent at once and kept nowhere is written this way, without
// allocating.
func begin(mad *MAD, attr cm.Attribute, tid uint64) []byte {
	return cm.NewHeader(attr, tid).Append(mad[:0])
}

// send queues a message of a connection.
func (a *Agent) send(path Path, mad *MAD) { a.queue(path, mad, maxOutput) }

// answer queues a MAD for a peer without a connection, or one that is not repeated.
func (a *Agent) answer(path Path, mad *MAD) { a.queue(path, mad, maxAnswers) }

func (a *Agent) queue(path Path, mad *MAD, room int) {
	if len(a.out)-a.outHead >= room {
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

// PutBack returns MADs of PollOutput for which there was no room where they are sent. They
// are the next of PollOutput again.
func (a *Agent) PutBack(unsent []Datagram) {
	if n := len(unsent); n <= a.outHead {
		a.outHead -= n
		copy(a.out[a.outHead:], unsent)
		return
	}
	a.out, a.outHead = slices.Concat(unsent, a.out[a.outHead:]), 0
}
