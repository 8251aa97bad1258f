// SPDX-License-Identifier: BSD-2-Clause

package trp

import (
	"testing"

	"verbena/internal/monotime"
	"verbena/internal/rtt"
)

func TestCloseWaitsForACKs(t *testing.T) {
	s := established(t, Config{})
	s.send(2)
	s.sent = nil
	s.c.Close(s.now)
	s.poll()
	s.wantState(Draining)
	s.wantNothing()
	wantEqual(t, "room", s.c.Room(), 0)
	s.recv(data(0, 1))
	s.wantACK(2, 1)
	s.recv(ack(1, 2))
	wantEqual(t, "acknowledged", s.acked, 2)
	s.wantFIN(2, 1)
	s.wantState(FinSent)
	s.recv(data(1, 2)) // under way when we closed
	s.wantNothing()
	s.wantUp(0)
	s.recv(fin(2, 2))
	s.wantEvent(EventDisconnected, LocalClose)
	s.wantNothing()
	s.recv(fin(2, 2)) // it did not get ours
	s.wantFIN(2, 1)
	s.pass(timeWait)
	s.wantEvent(EventClosed, 0)
	s.recv(fin(2, 2))
	s.wantNothing()
	s.wantNoEvent()
}

// Segments lost while draining still go again.
func TestCloseRepairs(t *testing.T) {
	s := established(t, Config{})
	s.send(1)
	s.wantData(0, 0)
	s.c.Close(s.now)
	s.pass(rtt.First)
	s.wantData(0, 0)
	s.recv(ack(0, 1))
	s.wantFIN(1, 0)
}

// urdma is gone once it has sent its FIN: nobody answers ours.
func TestFINIsRepeatedAndGivenUp(t *testing.T) {
	s := established(t, Config{})
	s.c.Close(s.now)
	s.poll()
	s.wantFIN(0, 0)
	for i := range finRetries {
		s.pass(rtt.First<<i - 1)
		s.wantNothing()
		s.pass(1)
		s.wantFIN(0, 0)
	}
	s.pass(rtt.First << finRetries)
	s.wantEvent(EventDisconnected, LocalClose)
	s.wantNothing()
	s.pass(timeWait)
	s.wantEvent(EventClosed, 0)
	wantEqual(t, "next timer", s.c.NextTimeout(), monotime.Never)
}

func TestPeerCloses(t *testing.T) {
	s := established(t, Config{})
	s.send(2)
	s.sent = nil
	s.recv(data(0, 0), fin(1, 1)) // acknowledges one of two
	s.wantFIN(2, 1)
	wantEqual(t, "acknowledged", s.acked, 1)
	s.wantEvent(EventDisconnected, PeerClose)
	wantEqual(t, "room", s.c.Room(), 0)
	wantEqual(t, "outstanding", s.c.Outstanding(), 0)
	for range finAnswers {
		s.recv(fin(1, 1))
		s.wantFIN(2, 1)
	}
	s.recv(fin(1, 1)) // two ends that answer each other come to an end
	s.wantNothing()
	s.pass(timeWait)
	s.wantEvent(EventClosed, 0)
}

// A FIN that tells of segments that never came is no orderly end.
func TestPeerAborts(t *testing.T) {
	s := established(t, Config{})
	s.recv(fin(3, 0))
	s.wantFIN(0, 0)
	s.wantEvent(EventDisconnected, PeerAbort)
}

func TestAbort(t *testing.T) {
	s := established(t, Config{})
	m := newMemory(t, 4096)
	s.c.Send([]byte("head"), m.span(0, 4096))
	s.poll()
	s.sent = nil
	s.c.Abort(s.now)
	wantEqual(t, "memory is released", m.region.Idle(), true)
	s.poll()
	s.wantFIN(1, 0)
	s.recv(fin(0, 0))
	s.wantEvent(EventDisconnected, LocalClose)
}

// A FIN confirms as well as a segment does.
func TestFINFirst(t *testing.T) {
	s, _ := requested(t, 512)
	s.acceptIt()
	s.recv(fin(0, 0))
	s.wantEvent(EventEstablished, 0)
	s.wantEvent(EventDisconnected, PeerClose)
	s.wantFIN(0, 0)
	s.pass(timeWait)
	s.wantEvent(EventClosed, 0)
	s.wantNothing()
}

// The layer above ends the association while a segment comes up.
func TestAbortFromWithin(t *testing.T) {
	s := established(t, Config{})
	s.onUp = func() { s.c.Abort(s.now) }
	s.recv(data(0, 0), data(1, 0))
	s.wantUp(0)
	wantEqual(t, "in order", s.order, 0)
	s.wantFIN(0, 1)
	s.wantNothing()
}

func TestCloseTwice(t *testing.T) {
	s := established(t, Config{})
	for range 3 {
		s.c.Close(s.now)
		s.c.Abort(s.now)
	}
	s.poll()
	s.wantFIN(0, 0)
	s.wantNothing()
	s.recv(fin(0, 0))
	s.c.Abort(s.now)
	s.pass(timeWait)
	s.c.Close(s.now)
	s.wantEvent(EventDisconnected, LocalClose)
	s.wantEvent(EventClosed, 0)
	s.wantNoEvent()
}

// A server that closes before anything of a client like urdma has come.
func TestCloseBeforeConfirmation(t *testing.T) {
	s, _ := requested(t, 0)
	s.acceptIt()
	s.send(1)
	s.c.Close(s.now)
	s.poll()
	s.wantFIN(1, 0) // the segment that was held back is missing
	s.recv(fin(0, 0))
	s.wantEvent(EventDisconnected, LocalClose)
}
