// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"context"
	"fmt"
	"time"

	"verbena/ib"
	"verbena/internal/tools/cli"
	"verbena/verbs"
)

// pollsPerCheck is the number of empty polls between checks of the context.
const pollsPerCheck = 1024

// measure runs one of krping's measuring modes. Both sides tell each other
// where their source buffer is; then the client measures, and the server does
// its part until the client disconnects.
func (s *session) measure(ctx context.Context) error {
	peer, err := s.introduce(ctx)
	if err != nil {
		return err
	}
	switch s.o.mode() {
	case modeWriteLatency:
		err = s.writeLatency(ctx, peer)
	case modeReadLatency:
		if !s.server {
			err = s.readLatency(ctx, peer)
		}
	case modeBandwidth:
		if !s.server || s.o.duplex {
			err = s.bandwidth(ctx, peer)
		}
	}
	if err != nil || !s.server {
		return err
	}
	return s.untilDisconnected(ctx)
}

// introduce exchanges Infos, the client's first.
func (s *session) introduce(ctx context.Context) (Info, error) {
	if !s.server {
		if err := s.advertise(s.source, allAccess); err != nil {
			return Info{}, err
		}
	}
	peer, err := s.awaitInfo(ctx)
	if err != nil {
		return Info{}, err
	}
	if int(peer.Size) < s.o.size {
		return Info{}, fmt.Errorf("the peer offers %d bytes, we use %d: give the same -S on "+
			"both sides", peer.Size, s.o.size)
	}
	if s.server {
		if err := s.advertise(s.source, allAccess); err != nil {
			return Info{}, err
		}
	}
	if err := s.await(ctx, ib.WCSend); err != nil {
		return Info{}, err
	}
	if memoryMode(s.o.mem) == memFastReg { // the local end of the transfers
		wrs, err := s.ready(ib.AccessLocalWrite)
		if err != nil {
			return Info{}, err
		}
		return peer, s.post(wrs...)
	}
	return peer, nil
}

// spin polls until a completion of that kind came, or cond holds.
func (s *session) spin(ctx context.Context, until func() bool) error {
	for polls := 1; !until(); polls++ {
		if _, err := s.poll(); err != nil {
			return err
		}
		if polls%pollsPerCheck == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *session) transfer(op ib.WROpcode, peer Info) verbs.SendWR {
	return verbs.SendWR{
		Opcode: op, Flags: ib.SendSignaled, SGList: []ib.SGE{s.data.sge(s.o.size)},
		RemoteAddr: peer.Addr, RKey: peer.RKey,
	}
}

// writeLatency sends a counter in both directions in the first byte of the buffers.
func (s *session) writeLatency(ctx context.Context, peer Info) error {
	wr := s.transfer(ib.WRRDMAWrite, peer)
	arrived := &s.source.bytes()[0]
	start := time.Now()
	sent, received, completed := 0, 0, 0
	for sent < s.o.count || completed < s.o.count || received < s.o.count {
		if received < s.o.count && (s.server || sent > 0) {
			received++
			if err := s.spin(ctx, func() bool {
				return cli.LoadByte(arrived) == byte(received)
			}); err != nil {
				return err
			}
		}
		if sent < s.o.count {
			sent++
			s.data.bytes()[0] = byte(sent)
			if err := s.post(wr); err != nil {
				return err
			}
		}
		if completed < s.o.count {
			completed++
			if err := s.spin(ctx, func() bool { return s.done[ib.WCRDMAWrite] > 0 }); err != nil {
				return err
			}
			s.done[ib.WCRDMAWrite]--
		}
	}
	took := time.Since(start)
	s.reportDelta(took)
	fmt.Fprintf(s.out, "WRITE latency %.2f usec (half a round trip)\n",
		usec(took)/float64(2*s.o.count))
	return nil
}

// readLatency READs one at a time.
func (s *session) readLatency(ctx context.Context, peer Info) error {
	wr := s.transfer(ib.WRRDMARead, peer)
	start := time.Now()
	for range s.o.count {
		if err := s.post(wr); err != nil {
			return err
		}
		var err error
		if s.o.poll {
			err = s.spin(ctx, func() bool { return s.done[ib.WCRDMARead] > 0 })
			s.done[ib.WCRDMARead]--
		} else {
			err = s.await(ctx, ib.WCRDMARead)
		}
		if err != nil {
			return err
		}
	}
	took := time.Since(start)
	s.reportDelta(took)
	fmt.Fprintf(s.out, "READ latency %.2f usec\n", usec(took)/float64(s.o.count))
	return nil
}

// bandwidth keeps txDepth WRITEs outstanding.
func (s *session) bandwidth(ctx context.Context, peer Info) error {
	wr := s.transfer(ib.WRRDMAWrite, peer)
	start := time.Now()
	for posted, completed := 0, 0; completed < s.o.count; {
		for posted < s.o.count && posted-completed < s.o.txDepth {
			if err := s.post(wr); err != nil {
				return err
			}
			posted++
		}
		if err := s.spin(ctx, func() bool { return s.done[ib.WCRDMAWrite] > 0 }); err != nil {
			return err
		}
		completed += s.done[ib.WCRDMAWrite]
		s.done[ib.WCRDMAWrite] = 0
	}
	took := time.Since(start)
	s.reportDelta(took)
	fmt.Fprintf(s.out, "WRITE bandwidth %.2f MB/sec\n",
		float64(s.o.size)*float64(s.o.count)/took.Seconds()/(1<<20))
	return nil
}

// reportDelta prints krping's line, without its cycle counts.
func (s *session) reportDelta(took time.Duration) {
	fmt.Fprintf(s.out, "delta nsec %d iter %d size %d\n", took.Nanoseconds(), s.o.count, s.o.size)
}

func usec(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// untilDisconnected serves the client until it leaves.
func (s *session) untilDisconnected(ctx context.Context) error {
	for {
		if err := s.progress(ctx, true); err != nil {
			return err
		}
	}
}
