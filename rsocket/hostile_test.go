// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/rstream"
	wire "verbena/internal/wire/rsocket"
	"verbena/rdmacm"
	"verbena/verbs"
)

// hostile connects to a listener without a stream. Its table and buffer are memory of its own.
func hostile(t *testing.T, l net.Listener, change func(d *wire.ConnData)) (*rdmacm.Conn, wire.ConnData, error) {
	t.Helper()
	kind := rdmacm.Kind(l.Addr().Network())
	param := &rdmacm.ConnParam{RetryCount: 7, RNRRetryCount: 7}
	if config(kind).BySend {
		param.InitiatorDepth, param.ResponderResources = 1, 1
	}
	o := &rdmacm.Options{Kind: kind, Param: param, Prepare: func(c *rdmacm.Conn) error {
		mr, err := c.RegMR(make([]byte, 4096), ib.AccessLocalWrite|ib.AccessRemoteWrite)
		if err != nil {
			return err
		}
		d := wire.ConnData{Credits: 32, Table: wire.Window{Addr: mr.Addr(), Key: mr.RKey(), Length: 2},
			Buffer: wire.Window{Addr: mr.Addr() + 64, Key: mr.RKey(), Length: 1024}}
		change(&d)
		param.PrivateData = d.Append(nil)
		for range 32 {
			wr := verbs.RecvWR{SGList: []ib.SGE{mr.SGE(2048, wire.MessageSize)}}
			if _, err := c.QP().PostRecv(wr); err != nil {
				return err
			}
		}
		return nil
	}}
	c, err := rdmacm.Dial(context.Background(), l.Addr().String(), o)
	if err != nil {
		return nil, wire.ConnData{}, err
	}
	t.Cleanup(func() { c.Close() })
	d, ok := parsePeer(c.PrivateData)
	if !ok {
		t.Fatalf("private data %x", c.PrivateData)
	}
	return c, d, nil
}

func nothing(*wire.ConnData) {}

// Requests that are no rsocket's are refused, and the listener goes on.
func TestRequestsOfNoRsocketAreRefused(t *testing.T) {
	l := listening(t, "roce")
	defer l.Close()
	_, _, err := hostile(t, l, func(d *wire.ConnData) { d.Table.Length = 1 })
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a table of one entry: %v", err)
	}
	c, err := rdmacm.Dial(context.Background(), l.Addr().String(), nil)
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("no private data: %v, %v", c, err)
	}
	_, _, err = hostile(t, l, nothing)
	check(t, err)
}

// bySend returns work requests whose messages are SENDs.
func bySend(wrs []verbs.SendWR) (out []verbs.SendWR) {
	for _, wr := range wrs {
		if wr.Opcode != ib.WRRDMAWriteWithImm {
			out = append(out, wr)
			continue
		}
		word := make([]byte, wire.MessageSize)
		wire.PutSend(word, wr.ImmData)
		if len(wr.Inline) > 0 {
			wr.Opcode = ib.WRRDMAWrite
			out = append(out, wr)
		}
		out = append(out, verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, Inline: word})
	}
	return out
}

// A peer that breaks the rules loses its stream, and no more.
func TestHostileMessages(t *testing.T) {
	message := func(m wire.MessageType, v uint32) verbs.SendWR {
		return verbs.SendWR{Opcode: ib.WRRDMAWriteWithImm, ImmData: wire.Message{Type: m, Value: v}.Uint32()}
	}
	entry := func(d wire.ConnData, w wire.Window, credits uint32) verbs.SendWR {
		wr := message(wire.Credit, credits)
		wr.Flags, wr.Inline = ib.SendInline, w.Append(nil, binary.LittleEndian)
		wr.RemoteAddr, wr.RKey = d.Table.Addr+wire.WindowSize, d.Table.Key
		return wr
	}
	for name, c := range map[string]struct {
		wrs  func(d wire.ConnData) []verbs.SendWR
		want error
	}{
		"more bytes than granted": {func(wire.ConnData) []verbs.SendWR {
			return []verbs.SendWR{message(wire.Data, bufferSize+1)}
		}, rstream.ErrProtocol},
		"an unknown message": {func(wire.ConnData) []verbs.SendWR { return []verbs.SendWR{message(3, 9)} }, rstream.ErrProtocol},
		"a mapping":          {func(wire.ConnData) []verbs.SendWR { return []verbs.SendWR{message(wire.IOMap, 1<<28)} }, rstream.ErrProtocol},
		"a SEND": {func(wire.ConnData) []verbs.SendWR {
			return []verbs.SendWR{{Opcode: ib.WRSend, Flags: ib.SendInline, Inline: []byte("12345")}}
		}, syscall.EPROTO},
		"a window that is not the peer's": {func(d wire.ConnData) []verbs.SendWR {
			return []verbs.SendWR{entry(d, wire.Window{Addr: 1 << 60, Key: 5, Length: 1<<32 - 1}, 1<<29-1)}
		}, syscall.ECONNRESET},
	} {
		for _, network := range kinds {
			t.Run(name+" over "+network, func(t *testing.T) {
				l := listening(t, network)
				defer l.Close()
				peer, d, err := hostile(t, l, nothing)
				check(t, err)
				s, err := l.Accept()
				check(t, err)
				defer s.Close()
				wrs := c.wrs(d)
				if config(rdmacm.Kind(network)).BySend {
					wrs = bySend(wrs)
				}
				_, err = peer.QP().PostSend(wrs...)
				check(t, err)
				go func() { // into windows that may not exist
					for b := make([]byte, 1<<20); ; {
						if _, err := s.Write(b); err != nil {
							return
						}
					}
				}()
				b := make([]byte, 1000)
				for err == nil {
					_, err = s.Read(b)
				}
				wantError(t, err, "read", c.want)
			})
		}
	}
}
