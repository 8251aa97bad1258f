// SPDX-License-Identifier: BSD-2-Clause

package rawbench

import (
	"errors"
	"slices"

	"verbena/internal/monotime"
)

// Lengths of messages are those of RoCE's packets with 8 bytes.
const (
	FramePing  = 12 + 8 + 4      // a SEND: BTH, payload, ICRC
	FrameWrite = 12 + 16 + 8 + 4 // a WRITE, with its RETH
	frameAck   = 12 + 4 + 4      // an acknowledgement
)

// Echo returns each message to the client, until the last one.
func (f *Frames) Echo(payload int) error {
	for {
		n, count, err := f.take()
		if err != nil || count == last {
			return err
		}
		for range n {
			if err := f.put(payload, count); err != nil {
				return err
			}
		}
		if err := f.s.kick(); err != nil {
			return err
		}
	}
}

// Count acknowledges the messages that it finds in the ring by one message, until the last one.
func (f *Frames) Count() error {
	for all := uint32(0); ; {
		n, count, err := f.take()
		if err != nil || count == last {
			return err
		}
		all += uint32(n)
		if err := f.put(frameAck, all); err != nil {
			return err
		}
		if err := f.s.kick(); err != nil {
			return err
		}
	}
}

// end ends the server.
func (f *Frames) end() error {
	return errors.Join(f.put(frameAck, last), f.s.kick())
}

// Ping sends count messages, each after the answer to the one before, and returns the times.
func (f *Frames) Ping(payload, count int) (r PingResult, err error) {
	for range count {
		start := monotime.Now()
		if err := errors.Join(f.put(payload, 0), f.s.kick()); err != nil {
			return r, err
		}
		if _, _, err := f.take(); err != nil {
			return r, err
		}
		r.OneWay = append(r.OneWay, monotime.Now().Sub(start)/2)
	}
	slices.Sort(r.OneWay)
	return r, f.end()
}

// Flood sends count messages and returns the time. At most window messages are outstanding. The
// server is Count; with echoed it returns each message.
func (f *Frames) Flood(payload, count, window int, echoed bool) (monotime.Duration, error) {
	start := monotime.Now()
	for out, acked := 0, 0; acked < count; {
		for out < count && out-acked < window {
			if err := f.put(payload, uint32(out)); err != nil {
				return 0, err
			}
			out++
		}
		if err := f.s.kick(); err != nil {
			return 0, err
		}
		n, all, err := f.take()
		if err != nil {
			return 0, err
		}
		if acked += n; !echoed {
			acked = int(all)
		}
	}
	return monotime.Now().Sub(start), f.end()
}
