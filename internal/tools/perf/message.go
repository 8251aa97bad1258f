// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"verbena/ib"
)

// protocol names the exchange and its version.
const protocol = "verbena perf 2"

// maxLineBytes bounds one message; the largest is an offer of maxQPs.
const maxLineBytes = 1 << 20

// Message kinds.
const (
	kindHello = "hello"
	kindOffer = "offer"
	kindReady = "ready"
	kindStep  = "step"
	kindDone  = "done"
	kindCount = "count"
	kindBye   = "bye"
	kindError = "error"
)

// Message is one line on the TCP connection.
type Message struct {
	Kind   string    `json:"kind"`
	Hello  *Hello    `json:"hello,omitempty"`
	Offer  *Offer    `json:"offer,omitempty"`
	Size   int       `json:"size,omitempty"`  // step
	Iters  int64     `json:"iters,omitempty"` // step, 0 is by duration
	Result *BWResult `json:"result,omitempty"`
	Error  string    `json:"error,omitempty"`
}

// Hello is the measurement that the client wants.
type Hello struct {
	Protocol      string  `json:"protocol"`
	Op            string  `json:"op"`
	Metric        string  `json:"metric"`
	Connection    service `json:"connection"`
	Kind          string  `json:"kind,omitempty"` // of the client's device
	MaxSize       int     `json:"max_size"`
	QPs           int     `json:"qps"`
	Depth         int     `json:"depth"`
	MTU           int     `json:"mtu"`    // bytes, 0 is the largest that both ports carry
	Inline        int     `json:"inline"` // bytes
	Bidirectional bool    `json:"bidirectional"`
	Events        bool    `json:"events"`
	RDMACM        bool    `json:"rdmacm"`
	CQMod         int     `json:"cq_mod"`      // of send lat
	DurationNS    int64   `json:"duration_ns"` // 0 is by iterations
}

// Offer has the addresses and keys of one side's queue pairs and memory.
type Offer struct {
	GID  GIDText  `json:"gid"`
	MTU  int      `json:"mtu"` // bytes the port carries
	QPs  []QPAddr `json:"qps"`
	Addr uint64   `json:"addr"` // of the memory
	RKey uint32   `json:"rkey"`
	Len  uint64   `json:"len"`
	// of the connection manager; that of the TCP connection if it is not told
	Port uint16 `json:"port,omitempty"`
	// READs and atomics of the peer that may be outstanding; olderReadDepth if it is not told
	ReadDepth uint8 `json:"read_depth,omitempty"`
}

// QPAddr is one queue pair.
type QPAddr struct {
	QPN uint32 `json:"qpn"`
	PSN uint32 `json:"psn"`
}

// GIDText is a GID that travels as 32 hexadecimal digits.
type GIDText ib.GID

// MarshalText implements encoding.TextMarshaler.
func (g GIDText) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, g[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *GIDText) UnmarshalText(b []byte) error {
	if len(b) != 2*len(g) {
		return errors.New("a GID has 32 hexadecimal digits")
	}
	_, err := hex.Decode(g[:], b)
	return err
}

// BWResult is the traffic of one direction of a bandwidth test.
type BWResult struct {
	Messages int64 `json:"messages"`
	Bytes    int64 `json:"bytes"`
	TookNS   int64 `json:"took_ns"`
	PeakBPS  int64 `json:"peak_bytes_per_second"`
}

// AppendMessage appends a message as one line.
func AppendMessage(b []byte, m *Message) ([]byte, error) {
	line, err := json.Marshal(m)
	if err != nil {
		return b, err
	}
	return append(append(b, line...), '\n'), nil
}

// ParseMessage parses one line and checks that the fields of its kind are there and in range.
func ParseMessage(line []byte) (*Message, error) {
	var m Message
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, fmt.Errorf("not a message of %s: %w", protocol, err)
	}
	switch m.Kind {
	case kindHello:
		if m.Hello == nil {
			return nil, errors.New("hello without content")
		}
		return &m, m.Hello.check()
	case kindOffer:
		if m.Offer == nil || len(m.Offer.QPs) == 0 || len(m.Offer.QPs) > maxQPs {
			return nil, errors.New("offer without queue pairs")
		}
	case kindStep:
		if m.Size < 1 || m.Size > ib.MaxMessage || m.Iters < 0 {
			return nil, errors.New("step of an impossible size")
		}
	case kindCount:
		if m.Result == nil {
			return nil, errors.New("count without content")
		}
	case kindReady, kindDone, kindBye, kindError:
	default:
		return nil, fmt.Errorf("unknown message %q", m.Kind)
	}
	return &m, nil
}

// check refuses values that a client of this version would not send.
func (h *Hello) check() error {
	switch {
	case h.Protocol != protocol:
		return fmt.Errorf("the peer speaks %q, we speak %q: use the same version of verbena on "+
			"both sides", h.Protocol, protocol)
	case h.MaxSize < 1 || h.MaxSize > maxSize:
		return fmt.Errorf("message size %d is not 1 to %d", h.MaxSize, maxSize)
	case h.QPs < 1 || h.QPs > maxQPs:
		return fmt.Errorf("%d queue pairs are not 1 to %d", h.QPs, maxQPs)
	case h.Depth < 1 || h.Depth > maxDepth:
		return fmt.Errorf("depth %d is not 1 to %d", h.Depth, maxDepth)
	case h.Inline < 0 || h.Inline > maxInline:
		return fmt.Errorf("inline %d is not 0 to %d", h.Inline, maxInline)
	case h.MTU != 0 && ib.MTUFor(h.MTU).Bytes() != h.MTU:
		return fmt.Errorf("path MTU %d", h.MTU)
	case h.CQMod < 0 || h.CQMod > latencyDepth:
		return fmt.Errorf("cq_mod %d is not 0 to %d", h.CQMod, latencyDepth)
	case h.DurationNS < 0:
		return errors.New("negative duration")
	case 2*h.QPs*h.MaxSize > maxMemory:
		return fmt.Errorf("%d queue pairs of %d bytes need more than %d MiB of memory", h.QPs,
			h.MaxSize, maxMemory>>20)
	}
	return h.Connection.check(h.Op)
}
