// SPDX-License-Identifier: BSD-2-Clause

package dump

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"verbena/internal/tools/cli"
	"verbena/internal/trace"
	"verbena/internal/wire/cm"
	"verbena/internal/wire/pcap"
	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
)

// Command returns "verbena dump".
func Command() *cobra.Command {
	f := trace.Formatter{DescribeMAD: cm.Describe}
	cmd := &cobra.Command{
		Use:   "dump FILE...",
		Short: "Print the RoCEv2 and iWARP packets of captures, one line each",
		Long: `Print the RoCEv2 packets of pcap or pcapng files, one line each: frame number,
seconds since the first packet, addresses, length and the text of Wireshark's info
column, then the header fields. CE says that the network marked the packet. A wrong
ICRC and malformed packets are marked. A comment of the packet has its own line, and
so has a verbs call of a capture with --pcap-calls.
TCP connections that begin with an MPA Request are reassembled. Each FPDU has a
line, with the number of the frame in which it ends. UDP flows that begin with a TRP
Request are shown as TRP. Each packet of a frame that joins several, as a host's own
captures have them, has a line. Other packets are left out. FILE - is standard input.`,
		Example: `  verbena rping -s -C 10 --pcap rping.pcapng
  verbena dump rping.pcapng`,
		Args: cli.Args(1, 1<<20, "at least one FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := bufio.NewWriter(cmd.OutOrStdout())
			defer out.Flush()
			for _, name := range args {
				if len(args) > 1 {
					fmt.Fprintf(out, "%s:\n", name)
				}
				if err := dumpFile(cmd.Context(), out, cmd.InOrStdin(), &f, name); err != nil {
					return err
				}
			}
			return out.Flush()
		},
	}
	cmd.Flags().BoolVar(&f.InfoOnly, "info-only", false,
		"leave out the header fields, as tshark does")
	return cmd
}

func dumpFile(ctx context.Context, out io.Writer, stdin io.Reader, f *trace.Formatter,
	name string) error {
	var r *pcapread.Reader
	var err error
	if name == "-" {
		r, err = pcapread.NewReader(stdin)
	} else {
		r, err = pcapread.Open(name)
	}
	if err != nil {
		return fmt.Errorf("cannot read the capture: %w", err)
	}
	defer r.Close()
	if err := Dump(ctx, out, f, r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Dump writes a line for every packet of a capture. It knows RoCEv2 datagrams, and the MPA frames
// and FPDUs of TCP connections that begin with an MPA Request. It also knows datagrams between two
// ends after one of them has sent a TRP Request.
func Dump(ctx context.Context, out io.Writer, f *trace.Formatter, r *pcapread.Reader) error {
	var first time.Time
	var line []byte
	var streams trace.Streams
	var associations trace.Associations
	var failed error
	since := func(t time.Time) time.Duration {
		if first.IsZero() {
			first = t
		}
		return t.Sub(first)
	}
	write := func() {
		line = append(line, '\n')
		if _, err := out.Write(line); failed == nil {
			failed = err
		}
	}
	emit := func(i *trace.Item) {
		line = f.AppendItem(line[:0], since(i.Time), i)
		write()
	}
	comment := func(t time.Time, text string) {
		if text != "" && !f.InfoOnly {
			line = trace.AppendComment(line[:0], r.Frame(), since(t), text)
			write()
		}
	}
	r.OnCall = func(c pcap.Call) {
		if !f.InfoOnly {
			line = trace.AppendCall(line[:0], r.Frame(), since(c.Time), c.Text)
			write()
		}
	}
	for ctx.Err() == nil && failed == nil {
		d, s, err := r.NextPacket()
		switch {
		case errors.Is(err, io.EOF):
			streams.Flush(emit)
			return failed
		case err != nil:
			return err
		case s != nil:
			known := streams.Has(s) // a reset ends it
			streams.Segment(r.Frame(), s, emit)
			if known || streams.Has(s) {
				comment(s.Time, s.Comment)
			}
		case d.Dst.Port() == roce.Port:
			for one := range trace.RoCE(d) {
				line = f.AppendLine(line[:0], r.Frame(), since(d.Time), one)
				write()
			}
			comment(d.Time, d.Comment)
		case associations.Has(d):
			for one := range trace.TRP(d) {
				line = f.AppendTRP(line[:0], r.Frame(), since(d.Time), one)
				write()
			}
			comment(d.Time, d.Comment)
		}
	}
	return errors.Join(failed, ctx.Err())
}
