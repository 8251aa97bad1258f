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
	"os/exec"
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

// floodMeasures are a session's throughput beside forged requests that are refused. The
// peer is the same session beside as many datagrams that a plain socket sends back.
var floodMeasures = []measure{
	besideFlood("same host"),
	besideFlood("UDP", overUDP),
}

func besideFlood(name string, flags ...string) measure {
	under := func(requests bool) func(context.Context, *run) (float64, error) {
		return func(ctx context.Context, r *run) (float64, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			to := netip.AddrPortFrom(netip.MustParseAddr(r.host), wire.Port)
			if !requests {
				echo, at, err := r.echo(ctx)
				if err != nil {
					return 0, err
				}
				defer func() { cancel(); _ = echo.Wait() }() // interrupted
				to = at
			}
			flood := r.own(ctx, "flood", to.String(), strconv.Itoa(floodRate))
			var out bytes.Buffer
			flood.Stdout, flood.Stderr = &out, &out
			if err := flood.Start(); err != nil {
				return 0, err
			}
			rate, err := writeBandwidth(64<<10, flags...)(ctx, r)
			cancel()
			_ = flood.Wait() // interrupted
			var sent float64
			if _, e := fmt.Sscan(out.String(), &sent); e != nil {
				return 0, errors.Join(err, fmt.Errorf("flood: %w: %s", e, tail(out.String())))
			}
			fmt.Fprintf(r.log, "%s: beside %.0f datagrams a second to %v\n", name, sent, to)
			return rate, err
		}
	}
	return measure{
		name: fmt.Sprintf("WRITE 64 KiB beside %d refused REQs a second, %s", floodRate, name),
		unit: "MB/s", beside: "UDP echo",
		goal: goal{bound: 0.5, atLeast: true, ratio: true}, ours: under(true), raw: under(false)}
}

// echo starts a process that sends datagrams back.
func (p *peer) echo(ctx context.Context) (*exec.Cmd, netip.AddrPort, error) {
	cmd := p.own(ctx, "serve", roleEcho, p.host)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	if err := cmd.Start(); err != nil {
		return nil, netip.AddrPort{}, err
	}
	at, err := readAddr(out)
	return cmd, at, err
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
		Use:    "flood ADDR:PORT RATE",
		Short:  "Send forged requests to connect",
		Hidden: true,
		Args:   cli.Args(2, 2, "an address with a port, and a rate"),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := netip.ParseAddrPort(args[0])
			if err != nil {
				return cli.Usagef("%w", err)
			}
			rate, err := strconv.Atoi(args[1])
			if err != nil || rate < 1 {
				return cli.Usagef("%q is no rate", args[1])
			}
			sent, err := flood(cmd.Context(), to, rate)
			fmt.Fprintf(cmd.OutOrStdout(), "%.0f\n", sent)
			return err
		},
	}
}

// flood sends requests from a neighbour of the address, a millisecond's at once.
func flood(ctx context.Context, to netip.AddrPort, rate int) (reached float64, err error) {
	const tick = time.Millisecond
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.Addr().Next(), 0)))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	requests := forgedREQs(c.LocalAddr().(*net.UDPAddr).AddrPort(), to)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	sent, start := 0, time.Now()
	for ctx.Err() == nil {
		<-ticker.C
		// A late sender does not make up for more than a few ticks.
		due := int(time.Since(start).Seconds() * float64(rate))
		for burst := 4 * max(rate/int(time.Second/tick), 1); sent < due && burst > 0; burst-- {
			_, err := c.WriteToUDPAddrPort(requests[sent%len(requests)], to)
			if err != nil && !strings.Contains(err.Error(), "refused") {
				return 0, err
			}
			sent++
		}
	}
	return float64(sent) / time.Since(start).Seconds(), nil
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
