// SPDX-License-Identifier: BSD-2-Clause

package rawbench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"verbena/internal/monotime"
	"verbena/internal/sys/udp"
)

// First byte of every datagram.
const (
	kindData   = 1 // then anything
	kindCredit = 2 // then 8 bytes: datagrams received, 8 bytes: bytes received, both in all
	kindEnd    = 3 // answered by credit and end
)

const (
	creditBytes = 17
	// stallAfter is the time after which a sender without credit takes all outstanding
	// datagrams for lost.
	stallAfter = 20 * monotime.Millisecond
	// idleAfter is the time after which a server whose client fell silent gives up.
	idleAfter = 10 * monotime.Second
	// yieldPolls is the number of empty polls after which the processor is
	// offered to others: with more processes than processors they need it.
	yieldPolls = 64
)

// Stream configures the datagrams to send.
type Stream struct {
	DatagramBytes int // UDP payload of each datagram; at least 17
	WindowBytes   int // most bytes unacknowledged; 0: 1 MiB
	Duration      monotime.Duration
}

const (
	defaultWindow = 1 << 20
	burstsAtOnce  = 8 // bursts per sendmmsg
)

// StreamResult has the counts of a stream's sender.
type StreamResult struct {
	Datagrams, Bytes uint64 // received by the server
	Lost             uint64 // datagrams
	Elapsed          monotime.Duration
}

// BytesPerSecond returns the payload rate received.
func (r StreamResult) BytesPerSecond() float64 { return float64(r.Bytes) / r.Elapsed.Seconds() }

// StreamServer receives one stream.
type StreamServer struct{ s *udp.Socket }

// NewStreamServer opens the receiving socket on an address.
func NewStreamServer(addr netip.Addr) (*StreamServer, error) {
	s, err := udp.Listen(addr, 0, udp.Options{})
	if err != nil {
		return nil, err
	}
	return &StreamServer{s}, nil
}

// Addr returns where to send to.
func (v *StreamServer) Addr() netip.AddrPort { return v.s.LocalAddr() }

// Close closes the socket.
func (v *StreamServer) Close() error { return v.s.Close() }

// Run receives a stream to its end, or for as long as something comes.
func (v *StreamServer) Run() error {
	b := udp.NewRxBatch()
	var credit [creditBytes]byte
	back := []udp.Datagrams{{Iov: [][]byte{credit[:]}}}
	var datagrams, bytes, told uint64
	empty := 0
	last := monotime.Now()
	for {
		n, err := v.s.ReadBatch(b)
		if err != nil {
			return err
		}
		if n == 0 {
			if empty++; empty%yieldPolls == 0 {
				if monotime.Now().Sub(last) > idleAfter {
					return errors.New("rawbench: the sender fell silent")
				}
				runtime.Gosched()
			}
			continue
		}
		empty, last = 0, monotime.Now()
		end := false
		for i := range n {
			m := b.Message(i)
			if len(m.Data) > 0 && m.Data[0] == kindEnd {
				end = true
			} else {
				datagrams += uint64(m.Segments())
				bytes += uint64(len(m.Data))
			}
			back[0].Dst = m.Src
		}
		// One credit a quarter of a megabyte, or when the socket is drained.
		if end || bytes-told >= defaultWindow/4 || n < udp.RxMessages {
			credit[0] = kindCredit
			if end {
				credit[0] = kindEnd
			}
			binary.BigEndian.PutUint64(credit[1:], datagrams)
			binary.BigEndian.PutUint64(credit[9:], bytes)
			if _, err := v.s.WriteBatch(back); err != nil {
				return err
			}
			told = bytes
		}
		if end {
			return nil
		}
	}
}

// sender is the state of RunStream.
type sender struct {
	s                     *udp.Socket
	rx                    *udp.RxBatch
	start                 monotime.Time
	sentBytes             uint64
	sentDatagrams         uint64
	rcvdBytes, rcvdDgrams uint64 // as the server says
	written               uint64 // bytes taken for lost
	ended                 bool
	polls                 int
}

// poll takes credit that has come.
func (c *sender) poll() (bool, error) {
	n, err := c.s.ReadBatch(c.rx)
	for i := range n {
		m := c.rx.Message(i)
		for j := range m.Segments() {
			if d := m.Segment(j); len(d) == creditBytes {
				c.rcvdDgrams = max(c.rcvdDgrams, binary.BigEndian.Uint64(d[1:]))
				c.rcvdBytes = max(c.rcvdBytes, binary.BigEndian.Uint64(d[9:]))
				c.ended = c.ended || d[0] == kindEnd
			}
		}
	}
	if n == 0 {
		if c.polls++; c.polls%yieldPolls == 0 {
			runtime.Gosched()
		}
	}
	return n > 0, err
}

func (c *sender) outstanding() int { return int(int64(c.sentBytes - c.written - c.rcvdBytes)) }

// RunStream sends a stream to a StreamServer and returns its counts.
func RunStream(local netip.Addr, to netip.AddrPort, o Stream) (StreamResult, error) {
	if o.DatagramBytes < creditBytes || o.DatagramBytes > udp.MaxBurstBytes {
		return StreamResult{}, fmt.Errorf("rawbench: datagrams of %d bytes: must be %d to %d",
			o.DatagramBytes, creditBytes, udp.MaxBurstBytes)
	}
	if o.WindowBytes == 0 {
		o.WindowBytes = defaultWindow
	}
	s, err := udp.Listen(local, 0, udp.Options{})
	if err != nil {
		return StreamResult{}, err
	}
	defer s.Close()
	c := &sender{s: s, rx: udp.NewRxBatch(), start: monotime.Now()}
	if err := c.stream(to, o); err != nil {
		return StreamResult{}, err
	}
	if err := c.end(to, c.start.Add(o.Duration+idleAfter)); err != nil {
		return StreamResult{}, err
	}
	return StreamResult{Datagrams: c.rcvdDgrams, Bytes: c.rcvdBytes,
		Lost: c.sentDatagrams - c.rcvdDgrams, Elapsed: monotime.Now().Sub(c.start)}, nil
}

// stream sends datagrams for as long as the stream is to take.
func (c *sender) stream(to netip.AddrPort, o Stream) error {
	perBurst := min(udp.MaxSegments, udp.MaxBurstBytes/o.DatagramBytes)
	burstBytes := perBurst * o.DatagramBytes
	window := max(o.WindowBytes, burstBytes)
	// Each burst from memory of its own, as an application's buffer would be.
	bursts := make([]udp.Datagrams, burstsAtOnce)
	for i := range bursts {
		p := make([]byte, burstBytes)
		for j := range perBurst {
			p[j*o.DatagramBytes] = kindData
		}
		bursts[i] = udp.Datagrams{Dst: to, Iov: [][]byte{p}, SegmentSize: o.DatagramBytes}
	}
	c.start = monotime.Now()
	progress := c.start
	for {
		now := monotime.Now()
		if now.Sub(c.start) >= o.Duration {
			return nil
		}
		if room := min((window-c.outstanding())/burstBytes, burstsAtOnce); room > 0 {
			n, err := c.s.WriteBatch(bursts[:room])
			if err != nil {
				return err
			}
			c.sentBytes += uint64(n * burstBytes)
			c.sentDatagrams += uint64(n * perBurst)
			progress = now
		} else if now.Sub(progress) > stallAfter {
			c.written += uint64(c.outstanding())
		}
		if _, err := c.poll(); err != nil {
			return err
		}
	}
}

// end asks the server to end the stream until it answers.
func (c *sender) end(to netip.AddrPort, deadline monotime.Time) error {
	end := []udp.Datagrams{{Dst: to, Iov: [][]byte{{kindEnd}}}}
	for asked := monotime.Time(0); !c.ended; {
		now := monotime.Now()
		if deadline.Before(now) {
			return errors.New("rawbench: the server does not answer")
		}
		if asked == 0 || now.Sub(asked) > stallAfter {
			asked = now
			if _, err := c.s.WriteBatch(end); err != nil {
				return err
			}
		}
		if _, err := c.poll(); err != nil {
			return err
		}
	}
	return nil
}
