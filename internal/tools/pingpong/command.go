// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"

	"verbena/internal/tools/cli"
)

// Command returns "verbena pingpong" with a subcommand for each service.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pingpong",
		Short: "Send a message back and forth, as ibv_rc_pingpong does",
		Long: `Send a message back and forth between two machines or processes. The server runs
without HOST; the client names the server. Either side may also be the program of
rdma-core: ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong, ibv_srq_pingpong,
started with -g and the index of a RoCE v2 GID. Those programs cannot connect
iWARP devices; there both sides are "verbena pingpong rc" or "srq".`,
		Example: `  verbena pingpong rc                  on the server
  verbena pingpong rc 192.0.2.1        on the client
  ibv_rc_pingpong -g 1 192.0.2.1       or a client of rdma-core`,
		RunE: cli.Group,
	}
	for _, k := range kinds {
		cmd.AddCommand(subcommand(k))
	}
	return cmd
}

func subcommand(k kind) *cobra.Command {
	o := &options{kind: k}
	cmd := &cobra.Command{
		Use:   k.name + " [HOST]",
		Short: "Ping-pong " + k.about,
		Long: fmt.Sprintf(`Send a message back and forth %s. Without HOST wait for a
client, else connect to the server there. It interoperates with rdma-core's
%s.`, k.about, k.program),
		Args: cli.Args(0, 1, "at most one HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.host = args[0]
			}
			if err := o.validate(); err != nil {
				return err
			}
			return pingpong(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

// pingpong is one whole run.
func pingpong(ctx context.Context, o *options, out, errOut io.Writer) error {
	e, err := open(o)
	if err != nil {
		return err
	}
	defer e.close()
	for _, a := range e.local[:o.qps] {
		printLocal(out, o.kind, a)
	}
	theirs, err := meet(ctx, e)
	if err != nil {
		return err
	}
	for _, a := range theirs[:o.qps] {
		printRemote(out, a)
	}
	client := o.host != ""
	message := e.mr.Bytes()[e.headroom():]
	if client && o.check {
		markPages(message)
	}
	took, err := exchange(ctx, e, client, cli.NewProgress(errOut, "ping-pong", int64(o.iters)))
	if err != nil {
		return err
	}
	if e.cm != nil {
		e.cm.part(ctx)
	}
	printResult(out, o.size, o.iters, took)
	if !client && o.check {
		printInvalid(out, invalidPages(message))
	}
	return nil
}

// meet exchanges addresses with the peer; the queue pairs are connected when
// it returns.
func meet(ctx context.Context, e *endpoint) ([]Address, error) {
	o := e.o
	if o.host == "" {
		l, err := cli.Listen(ctx, o.tcpPort)
		if err != nil {
			return nil, err
		}
		if o.listening != nil {
			o.listening(l.Addr())
		}
		conn, err := cli.Accept(ctx, l)
		l.Close()
		if err != nil {
			return nil, err
		}
		if e.cm == nil {
			defer conn.Close()
			return exchangeServer(ctx, conn, e.local, e.connect)
		}
		e.cm.keep(conn)
		theirs, err := exchangeServer(ctx, conn, e.local, e.cm.check)
		if err != nil {
			return nil, err
		}
		return theirs, e.cm.acceptAll(ctx, theirs)
	}
	conn, err := cli.Dial(ctx, o.host, o.tcpPort, "verbena pingpong "+o.kind.name)
	if err != nil {
		return nil, err
	}
	if e.cm == nil {
		defer conn.Close()
	} else {
		e.cm.keep(conn)
	}
	theirs, err := exchangeClient(ctx, conn, e.local)
	if err != nil {
		return nil, err
	}
	if e.cm != nil {
		return theirs, e.cm.dialAll(ctx,
			conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap(), theirs)
	}
	return theirs, e.connect(theirs)
}
