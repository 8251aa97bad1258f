// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"verbena/ib"
	"verbena/internal/tools/cli"
	"verbena/internal/wire/cm"
	wire "verbena/internal/wire/roce"
)

// floodRate is in datagrams a second.
const floodRate = 50000

// The kinds of a flood.
const (
	floodGarbage = "garbage datagrams"
	floodREQs    = "refused REQs"
)

// floodMeasures are a session's throughput while a stranger sends to its port.
//
// The stranger needs a processor too. So the peer is the same session beside as many datagrams
// to a plain socket: one that nobody reads, or that sends them back as a refusal is sent.
var floodMeasures = []measure{
	besideFlood(floodGarbage, unreadSocket, "same host"),
	besideFlood(floodGarbage, unreadSocket, "UDP", overUDP),
	besideFlood(floodREQs, echoSocket, "same host"),
	besideFlood(floodREQs, echoSocket, "UDP", overUDP),
}

// plainSocket opens a socket that takes a flood instead of our port.
type plainSocket struct {
	name string
	open func(*peer, context.Context) (at netip.AddrPort, close func(), err error)
}

var (
	unreadSocket = plainSocket{"unread socket", (*peer).unread}
	echoSocket   = plainSocket{"UDP echo", (*peer).echo}
)

func besideFlood(kind string, other plainSocket, way string, flags ...string) measure {
	session := writeBandwidth(64<<10, flags...)
	beside := func(ctx context.Context, r *run, to netip.AddrPort) (float64, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		flood := r.own(ctx, "flood", kind, to.String(), strconv.Itoa(floodRate))
		var out bytes.Buffer
		flood.Stdout, flood.Stderr = &out, &out
		if err := flood.Start(); err != nil {
			return 0, err
		}
		rate, err := session(ctx, r)
		cancel()
		_ = flood.Wait() // interrupted
		var sent float64
		if _, e := fmt.Sscan(out.String(), &sent); e != nil {
			return 0, errors.Join(err, fmt.Errorf("flood: %w: %s", e, tail(out.String())))
		}
		fmt.Fprintf(r.log, "%s: beside %.0f datagrams a second to %v\n", way, sent, to)
		return rate, err
	}
	return measure{
		name: fmt.Sprintf("WRITE 64 KiB beside %d %s a second, %s", floodRate, kind, way),
		unit: "MB/s", beside: other.name, goal: goal{bound: 0.5, atLeast: true, ratio: true},
		ours: func(ctx context.Context, r *run) (float64, error) {
			return beside(ctx, r, netip.AddrPortFrom(netip.MustParseAddr(r.host), wire.Port))
		},
		raw: func(ctx context.Context, r *run) (float64, error) {
			at, shut, err := other.open(r.peer, ctx)
			if err != nil {
				return 0, err
			}
			defer shut()
			return beside(ctx, r, at)
		},
	}
}

// unread opens a socket whose datagrams the kernel drops once its buffer is full.
func (p *peer) unread(ctx context.Context) (netip.AddrPort, func(), error) {
	addr, err := netip.ParseAddr(p.host)
	if err != nil {
		return netip.AddrPort{}, nil, err
	}
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
	if err != nil {
		return netip.AddrPort{}, nil, err
	}
	return c.LocalAddr().(*net.UDPAddr).AddrPort(), func() { _ = c.Close() }, nil
}

// echo starts a process that sends datagrams back.
func (p *peer) echo(ctx context.Context) (netip.AddrPort, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := p.own(ctx, "serve", roleEcho, p.host)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return netip.AddrPort{}, nil, err
	}
	shut := func() { cancel(); _ = cmd.Wait() } // interrupted
	at, err := readAddr(out)
	if err != nil {
		shut()
		return netip.AddrPort{}, nil, err
	}
	return at, shut, nil
}

// echoServer sends back each datagram, until it is closed.
type echoServer struct{ *net.UDPConn }

func newEchoServer(addr netip.Addr) (echoServer, error) {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
	return echoServer{c}, err
}

func (s echoServer) Addr() netip.AddrPort { return s.LocalAddr().(*net.UDPAddr).AddrPort() }

func (s echoServer) Run() error {
	var b [2048]byte
	for {
		n, from, err := s.ReadFromUDPAddrPort(b[:])
		if err != nil {
			return err
		}
		if _, err := s.WriteToUDPAddrPort(b[:n], from); err != nil {
			return err
		}
	}
}

// floodCommand sends datagrams at a rate until it is interrupted, and prints the rate
// that it has reached.
func floodCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "flood KIND ADDR:PORT RATE",
		Short:  "Send datagrams that nobody wants",
		Hidden: true,
		Args:   cli.Args(3, 3, "a kind, an address with a port, and a rate"),
		RunE: func(cmd *cobra.Command, args []string) error {
			datagrams := map[string]func(from, to netip.AddrPort) [][]byte{
				floodGarbage: garbage, floodREQs: forgedREQs}[args[0]]
			if datagrams == nil {
				return cli.Usagef("%q is neither %q nor %q", args[0], floodGarbage, floodREQs)
			}
			to, err := netip.ParseAddrPort(args[1])
			if err != nil {
				return cli.Usagef("%w", err)
			}
			rate, err := strconv.Atoi(args[2])
			if err != nil || rate < 1 {
				return cli.Usagef("%q is no rate", args[2])
			}
			sent, err := flood(cmd.Context(), datagrams, to, rate)
			fmt.Fprintf(cmd.OutOrStdout(), "%.0f\n", sent)
			return err
		},
	}
}

// flood sends datagrams from a neighbour of the address, a millisecond's at once.
func flood(ctx context.Context, datagrams func(from, to netip.AddrPort) [][]byte,
	to netip.AddrPort, rate int) (reached float64, err error) {
	const tick = time.Millisecond
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.Addr().Next(), 0)))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	all := datagrams(c.LocalAddr().(*net.UDPAddr).AddrPort(), to)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	sent, start := 0, time.Now()
	for ctx.Err() == nil {
		<-ticker.C
		// A late sender does not make up for more than a few ticks.
		due := int(time.Since(start).Seconds() * float64(rate))
		for burst := 4 * max(rate/int(time.Second/tick), 1); sent < due && burst > 0; burst-- {
			_, err := c.WriteToUDPAddrPort(all[sent%len(all)], to)
			if err != nil && !strings.Contains(err.Error(), "refused") {
				return 0, err
			}
			sent++
		}
	}
	return float64(sent) / time.Since(start).Seconds(), nil
}

// garbage returns datagrams that no process can use: random bytes, packets for queue pairs
// that do not exist, malformed MADs, and requests with a wrong ICRC.
func garbage(from, to netip.AddrPort) (all [][]byte) {
	r := rand.New(rand.NewPCG(3, 4))
	pseudo := wire.NewPseudo(from.Addr(), to.Addr(), from.Port(), to.Port())
	random := func(b []byte) []byte {
		for range 64 {
			b = append(b, byte(r.Uint32()))
		}
		return b
	}
	for _, req := range forgedREQs(from, to) {
		req[len(req)-1] ^= 1
		qpn := ib.QPN(r.Uint32N(1<<24-16) + 8)
		stray := wire.BTH{Opcode: wire.RCSendOnly, MigReq: true, PKey: ib.DefaultPKey, DestQP: qpn}
		mad := wire.BTH{Opcode: wire.UDSendOnly, MigReq: true, PKey: ib.DefaultPKey, DestQP: ib.QP1}
		deth := wire.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QP1}
		all = append(all, req, random(nil), pseudo.Seal(random(stray.Append(nil)), 0),
			pseudo.Seal(random(deth.Append(mad.Append(nil))), 0))
	}
	return all
}

// forgedREQs returns requests of peers that do not exist, for a service that nobody
// offers.
func forgedREQs(from, to netip.AddrPort) (all [][]byte) {
	const different = 1024
	r := rand.New(rand.NewPCG(1, 2))
	pseudo := wire.NewPseudo(from.Addr(), to.Addr(), from.Port(), to.Port())
	for range different {
		req := cm.REQ{
			LocalCommID: r.Uint32(), ServiceID: cm.NewServiceID(cm.PortSpaceTCP, 1),
			LocalCAGUID: ib.GUID(r.Uint64()), LocalQPN: ib.QPN(r.Uint32N(1<<24-16) + 8),
			Service: cm.ServiceRC, PKey: ib.DefaultPKey, PathMTU: ib.MTU1024,
			RemoteResponseTimeout: 20, LocalResponseTimeout: 20, MaxCMRetries: 15,
			RetryCount: 7, RNRRetryCount: 7,
			Primary: cm.Path{LocalGID: ib.GIDFromAddr(from.Addr()),
				RemoteGID: ib.GIDFromAddr(to.Addr()), HopLimit: 64, ACKTimeout: 18},
		}
		copy(req.PrivateData[:], cm.IPHeader{Port: 9, Src: from.Addr(), Dst: to.Addr()}.Append(nil))
		bth := wire.BTH{Opcode: wire.UDSendOnly, MigReq: true, PKey: ib.DefaultPKey, DestQP: ib.QP1}
		packet := wire.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QP1}.Append(bth.Append(nil))
		packet = append(packet, cm.NewHeader(cm.AttrREQ, r.Uint64()).Append(nil)...)
		all = append(all, pseudo.Seal(req.Append(packet), 0))
	}
	return all
}
