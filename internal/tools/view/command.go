// SPDX-License-Identifier: BSD-2-Clause

package view

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"verbena/internal/timeline"
	"verbena/internal/tools/cli"
	"verbena/internal/wire/pcapread"
)

type options struct {
	output  string
	listen  string
	logs    []string
	summary bool
}

// Command returns "verbena view".
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "view FILE...",
		Short: "Show captures as a timeline in the browser",
		Long: `Show what became of each connection in pcap or pcapng files of RoCEv2, iWARP or
TRP, as a page in the browser: its health, the packets between its ends, sequence numbers,
goodput, pace, round trip, window and counts of loss over time, and its operations.
Packets that were repeated, refused or marked stand out. A click on a packet shows its
header fields.

The page is one file that loads nothing. Without -o, --listen and --summary it is
written to a temporary file, which xdg-open opens where there is a desktop. Pace, round
trip, window and counts are those that the sender has put into its capture as comments
(see --pcap). In other captures the packets show all but the pace.

Verbs calls that the capture has (see --pcap-calls) stand beside the operations. --log
adds those of a log, as "verbena run --log debug" writes it. FILE - is standard input.`,
		Example: `  verbena run --pcap f.pcapng PROGRAM
  verbena view f.pcapng
  verbena view --summary f.pcapng
  verbena view -o f.html --log f.log f.pcapng`,
		Args: cli.Args(1, 1<<16, "at least one FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVarP(&o.output, "output", "o", "", "write the page to `FILE`; - is standard output")
	fs.StringVar(&o.listen, "listen", "",
		"serve the page on loopback at `ADDR:PORT`, such as 127.0.0.1:0")
	fs.BoolVar(&o.summary, "summary", false, "print connections and what went wrong as text")
	fs.StringArrayVar(&o.logs, "log", nil, "add the verbs calls of log `FILE`")
	return cmd
}

func (o *options) run(cmd *cobra.Command, names []string) error {
	n := 0
	for _, set := range []bool{o.output != "", o.listen != "", o.summary} {
		if set {
			n++
		}
	}
	if n > 1 {
		return cli.Usagef("give one of --output, --listen and --summary")
	}
	if err := checkListen(o.listen); err != nil {
		return err
	}
	t, err := o.read(cmd.Context(), cmd.InOrStdin(), names)
	if err != nil {
		return err
	}
	for _, f := range t.Files {
		if f.Err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "verbena: %s: %v\n", f.Name, f.Err)
		}
	}
	switch {
	case o.summary:
		return t.WriteSummary(cmd.OutOrStdout())
	case o.listen != "":
		return serve(cmd.Context(), cmd.OutOrStdout(), o.listen, t)
	case o.output == "-":
		return WritePage(cmd.OutOrStdout(), t)
	case o.output != "":
		return writeFile(o.output, t)
	}
	return openPage(cmd, t, names[0])
}

// read opens all files before it reads any: a name that is wrong costs no time.
func (o *options) read(ctx context.Context, stdin io.Reader,
	names []string) (*timeline.Timeline, error) {
	var sources []timeline.Source
	defer func() {
		for _, s := range sources {
			s.Reader.Close()
		}
	}()
	for _, name := range names {
		var r *pcapread.Reader
		var err error
		if name == "-" {
			r, err = pcapread.NewReader(stdin)
		} else {
			r, err = pcapread.Open(name)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the capture: %w", err)
		}
		sources = append(sources, timeline.Source{Name: name, Reader: r})
	}
	t, err := timeline.Read(ctx, sources...)
	if err != nil {
		return nil, err
	}
	for _, name := range o.logs {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--log: %w", err)
		}
		n, err := t.AddCalls(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("--log %s: %w", name, err)
		}
		if n == 0 {
			return nil, fmt.Errorf(`--log %s: no verbs calls are in it; write it by "verbena run `+
				`--log debug PROGRAM 2>%s"`, name, filepath.Base(name))
		}
	}
	return t, nil
}

func writeFile(name string, t *timeline.Timeline) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	err = WritePage(f, t)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		// Not a device, nor a link such as /dev/stdout.
		if i, serr := os.Lstat(name); serr == nil && i.Mode().IsRegular() {
			os.Remove(name)
		}
		return fmt.Errorf("-o %s: %w", name, err)
	}
	return nil
}
