// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"

	"github.com/spf13/cobra"

	"verbena/internal/tools/cli"
	"verbena/internal/tools/rawbench"
)

// Bytes that RoCEv2 puts around the payload of a packet within UDP.
const (
	bthBytes  = 12
	icrcBytes = 4
)

// rawServer is a server of package rawbench.
type rawServer interface {
	Addr() netip.AddrPort
	Run() error
	Close() error
}

// Roles of the hidden command.
const (
	roleStream    = "stream"
	rolePing      = "ping"
	roleTCPStream = "tcp-stream"
	roleTCPPing   = "tcp-ping"
	roleEcho      = "echo"
)

// serveCommand is the other process of the sockets' figures: it prints its
// address and serves one client.
func serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "serve stream|ping|tcp-stream|tcp-ping|echo ADDR",
		Short:  "Be the server of a measure of sockets",
		Hidden: true,
		Args:   cli.Args(2, 2, "a role and an address"),
		RunE: func(cmd *cobra.Command, args []string) error {
			addr, err := netip.ParseAddr(args[1])
			if err != nil {
				return cli.Usagef("%w", err)
			}
			var s rawServer
			switch args[0] {
			case roleStream:
				s, err = rawbench.NewStreamServer(addr)
			case rolePing:
				s, err = rawbench.NewPingServer(addr)
			case roleTCPStream:
				s, err = newTCPServer(addr, takeStream)
			case roleTCPPing:
				s, err = newTCPServer(addr, answerPings)
			case roleEcho:
				s, err = newEchoServer(addr)
			default:
				return cli.Usagef("there is no role %q", args[0])
			}
			if err != nil {
				return err
			}
			defer s.Close()
			fmt.Fprintln(cmd.OutOrStdout(), s.Addr())
			return s.Run()
		},
	}
}

// raw starts a server process and runs the client's role here.
func (p *peer) raw(ctx context.Context, role string,
	client func(local netip.Addr, to netip.AddrPort) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := p.own(ctx, "serve", role, p.host)
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	to, err := readAddr(out)
	if err == nil {
		err = client(netip.MustParseAddr(p.host), to)
	}
	if err != nil {
		_ = server.Process.Kill() // it waits for a client that will not come
	}
	if e := server.Wait(); err == nil {
		err = e
	}
	return err
}

func readAddr(r io.Reader) (netip.AddrPort, error) {
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("the server process does not tell its address: %w", err)
	}
	return netip.ParseAddrPort(line[:len(line)-1])
}
