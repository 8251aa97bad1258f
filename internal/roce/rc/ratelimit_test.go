// SPDX-License-Identifier: BSD-2-Clause

package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/monotime"
	"verbena/internal/testkit/script"
	wire "verbena/internal/wire/roce"
)

// limitRate sets a limit of the rate: 8,000 kbit/s are a byte a microsecond.
func limitRate(s *script.Script, kbps, burst uint32) {
	s.Modify(ib.QPAttr{RateLimit: kbps, RateBurst: burst}, ib.QPRateLimit)
}

const (
	firstBytes  = wire.BTHBytes + wire.RETHBytes + 1024 + wire.ICRCBytes
	middleBytes = firstBytes - wire.RETHBytes
)

// A queue pair with a limit sends each packet when the rate has let out all before it. Each asks
// for an acknowledgement, as the local ACK time-out runs meanwhile.
func TestRateLimit(t *testing.T) {
	const us = monotime.Microsecond
	s := script.New(t, newRC)
	limitRate(s, 8000, 1)
	s.Post(script.Write(4096))
	if p := s.WantPacket("at once", wire.RCRDMAWriteFirst, psn); !p.AckReq {
		t.Fatal("does not ask for an acknowledgement")
	}
	s.Advance(firstBytes*us - 1)
	s.WantQuiet("too early")
	s.Advance(1)
	s.WantPacket("at the rate", wire.RCRDMAWriteMiddle, psn+1)
	s.Recv(script.Nak(psn+1, wire.NAKPSNSequence))
	s.Advance(middleBytes*us - 1)
	s.WantQuiet("a packet is repeated at the rate, too")
	s.Advance(1)
	s.WantPacket("again", wire.RCRDMAWriteMiddle, psn+1)
	s.Advance(middleBytes * us)
	s.WantPacket("the next", wire.RCRDMAWriteMiddle, psn+2)
	limitRate(s, 0, 0)
	s.WantPacket("without a limit", wire.RCRDMAWriteLast, psn+3)
	s.Recv(script.Ack(psn+3, 1))
	s.WantWC("done", 1, ib.WCSuccess)
	s.WantIdle("nothing is held")
}

// Without max_burst_sz a queue pair is up to a millisecond ahead of its rate, and catches up with
// it after a timer that came late.
func TestRateLimitBurst(t *testing.T) {
	s := script.New(t, newWideRC)
	limitRate(s, 80000, 0) // 10 bytes a microsecond
	s.Post(script.Write(40 * 1024))
	if n := len(s.Packets()); n != 10 {
		t.Fatalf("%d packets at once, want those that begin within a millisecond: 10", n)
	}
	s.Together(func() { s.Now = s.Now.Add(monotime.Millisecond) }) // no timer
	if n := len(s.Packets()); n != 10 {
		t.Fatalf("%d packets a millisecond later, want 10", n)
	}
	s.SetState(ib.QPReset)
	s.Connect()
	s.Post(script.Write(40 * 1024))
	if n := len(s.Packets()); n != 40 {
		t.Fatalf("%d packets, want 40: a reset ends the limit", n)
	}
}

// Within a host several packets go as one. A limit's burst bounds it.
func TestRateLimitOfLongPackets(t *testing.T) {
	s := script.New(t, newRC, func(c *script.Setup) { c.Ring = 1 << 17 })
	limitRate(s, 8000, 4096)
	s.Post(script.Write(64 << 10))
	if n := len(s.Packets()[0].Payload); n != 3072 {
		t.Fatalf("a packet of %d bytes, want the burst but a packet: 3072", n)
	}
}

// Acknowledgements and responses to READs go at once: the peer asked for them.
func TestRateLimitOfResponses(t *testing.T) {
	s := script.New(t, newRC)
	limitRate(s, 1, 1)
	s.Post(script.Write(1024), script.Write(1024))
	s.WantDrain("one request", 1)
	r := script.Request(wire.RCRDMAReadRequest, peerPSN, nil)
	s.Recv(s.At(r, 0, 4096))
	s.WantDrain("all responses", 4)
}

// The local ACK time-out does not run while the packet that it is to repeat waits for the rate: no
// retry is spent on it.
func TestRateLimitSpendsNoRetry(t *testing.T) {
	s := script.New(t, newRC)
	limitRate(s, 1, 1) // a packet in 8.6 s; all retries take less
	s.Post(script.Write(1024))
	s.WantPacket("at once", wire.RCRDMAWriteOnly, psn)
	s.Recv(script.Nak(psn, wire.NAKPSNSequence))
	s.Advance(8 * monotime.Second)
	s.WantQuiet("the copy waits")
	s.Advance(monotime.Second)
	s.WantPacket("again", wire.RCRDMAWriteOnly, psn)
	s.Recv(script.Ack(psn, 1))
	s.WantWC("done", 1, ib.WCSuccess)
}
