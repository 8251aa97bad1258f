// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"verbena/internal/stats"
	"verbena/internal/sys/recorder"
	"verbena/internal/tools/cli"
)

// mostNames bounds the search for a file's name that is not taken.
const mostNames = 1000

// dumpCommand returns "verbena stat dump".
func dumpCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "dump PID",
		Short: "Write the newest packets of a process to a file",
		Long: `Write the newest packets of process PID, which runs with --pcap-ring, to a pcapng
file. Without -o it is verbena-PID.pcapng, or verbena-PID-2.pcapng and so on if that is
there. No file is overwritten. The process must be of this user; it goes on, and its
ring keeps the packets.`,
		Example: `  verbena run --pcap-ring 64M PROGRAM &
  verbena stat dump $!
  verbena stat dump -o - $! | verbena dump -`,
		Args:              cli.Args(1, 1, "one PID"),
		ValidArgsFunction: completePIDs(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			pid, err := strconv.Atoi(args[0])
			if err != nil || pid <= 0 {
				return cli.Usagef("PID %s: must be the number of a process", args[0])
			}
			err = dump(cmd.Context(), cmd.OutOrStdout(), cli.RuntimeDir(), pid, output)
			if err != nil && cmd.Context().Err() == nil {
				err = fmt.Errorf("process %d: %w", pid, err)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"write to `FILE`, which must not be there yet; - is standard output")
	return cmd
}

// dump writes the packets of a process to a file, and prints its name.
func dump(ctx context.Context, stdout io.Writer, dir string, pid int, output string) error {
	return stats.Dump(ctx, dir, pid, func(p stats.Packets, packets *io.LimitedReader) error {
		if output == "-" {
			return pass(stdout, packets)
		}
		f, err := create(pid, output)
		if err != nil {
			return err
		}
		err = whole(f, packets)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			os.Remove(f.Name())
			return err
		}
		_, err = fmt.Fprintf(stdout, "%s: %d packets of %v\n", f.Name(), p.Count,
			recorder.Round(p.Span))
		return err
	})
}

// whole copies the packets to a file. It is an error if the process ends before the last one.
func whole(f *os.File, packets *io.LimitedReader) error {
	if _, err := io.Copy(f, packets); err != nil {
		return err
	}
	if packets.N > 0 {
		return fmt.Errorf("%w: %d bytes are missing", io.ErrUnexpectedEOF, packets.N)
	}
	return nil
}

// pass writes the packets to standard output, once all are here: its reader may be slow, and the
// process must not wait for it.
func pass(stdout io.Writer, packets *io.LimitedReader) error {
	f, err := os.CreateTemp("", "verbena-*.pcapng")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // for systems that keep the name of an open file
	defer f.Close()
	os.Remove(f.Name())
	if err := whole(f, packets); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(stdout, f)
	return err
}

// create makes the file of a name, or one with a name that is not taken.
func create(pid int, name string) (f *os.File, err error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if name != "" {
		if f, err = os.OpenFile(name, flags, 0o666); errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("--output %s: the file is there already; name another one", name)
		}
		return f, err
	}
	for n := 1; n <= mostNames; n++ {
		name = recorder.Name(fmt.Sprintf("verbena-%d.pcapng", pid), n)
		if f, err = os.OpenFile(name, flags, 0o666); !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, err
}
