// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"verbena/internal/congestion"
	"verbena/internal/core"
	"verbena/internal/device"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/recorder"
	"verbena/internal/tools/cli"
)

type options struct {
	devices string
	capture string
	ring    string
	calls   bool
	faults  string
	noLocal bool
	debug   bool
	log     string
}

// Command returns "verbena run".
func Command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "run [flags] [--] PROGRAM [ARG...]",
		Short: "Run an unmodified verbs program over these devices",
		Long: `Run an unmodified program that uses libibverbs or librdmacm over the devices that
'verbena devices' lists: those of RoCEv2 unless --device says otherwise. The command
executes the program in its own process: signals, terminal and exit status are the
program's. Programs that it starts run the same way. As process 1 of a container the
command stays instead: it passes signals on, and the program's peers are notified of
its end even if it is killed.

--device takes kinds, names of devices or both, with commas between. The program
finds them in this order, and librdmacm binds to the first that has the address
asked for.

The libraries are those in lib/verbena beside this command's directory. They
are found by LD_LIBRARY_PATH, so a program that is statically linked, linked to
musl or setuid cannot be run this way; it is refused.

In the FILE of --pcap, %p stands for the process id. A name without %p gets the
process id before its extension, because a program may be several processes:
--pcap x.pcapng writes x-1234.pcapng.

With --pcap-ring the newest packets stay in memory. They are written to FILE when a
completion fails, once for a burst of failures, when the first attempt to connect
fails, and on SIGUSR1 if the program has no handler of its own for it. Then the next
file is x-1234-2.pcapng. Without --pcap the name is verbena-PID.pcapng, in this
directory. 'verbena stat dump PID' fetches them.

It sets LD_LIBRARY_PATH, LD_PRELOAD (the first entry of each), VERBENA_ROOT
(the folder of the files that a kernel driver would show in /sys/class/infiniband and
/dev/infiniband), and with the options VERBENA_DEVICES, VERBENA_PCAP,
VERBENA_PCAP_RING, VERBENA_PCAP_CALLS, VERBENA_FAULTS, VERBENA_LOCAL, VERBENA_DEBUG,
VERBENA_LOG. VALGRIND_OPTS and TSAN_OPTIONS get an option each, so that these tools see
the program's errors and none of the libraries'. On a processor without the instruction
RDTSCP, GODEBUG gets cpu.rdtscp=off, without which valgrind ends the program.`,
		Example: `  verbena run ib_write_bw &                    # a server …
  verbena run ib_write_bw 127.0.0.1            # … and its client
  verbena run --device iwarp rping -s -a 127.0.0.1
  verbena run --pcap ping.pcapng -- rping -c -a 127.0.0.1 -C 3
  verbena run --pcap-ring 64M ./my-test
  verbena run --faults loss=1%,seed=7 -- ./my-test
  verbena run mpirun -n 4 --mca pml ucx ./my-mpi-program`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("name the program to run; see '%s --help'", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(os.Environ()); err != nil {
				return err
			}
			return start(o, args)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.SetInterspersed(false) // options behind PROGRAM are the program's
	fs.StringVar(&o.devices, "device", "",
		"show the program the devices of `KIND`s or names, such as iwarp or roce,iwarp_lo "+
			"(default roce)")
	fs.StringVar(&o.capture, "pcap", "", "write every packet sent and received to `FILE` (pcapng)")
	fs.StringVar(&o.ring, "pcap-ring", "",
		"keep the newest packets, of `SIZE` bytes such as 64M, and write them when a completion "+
			"fails, on SIGUSR1, or by 'verbena stat dump'")
	fs.BoolVar(&o.calls, "pcap-calls", false,
		"write verbs calls and completions into the capture too, for 'verbena view'")
	fs.StringVar(&o.faults, "faults", "",
		"inject faults into the packets sent: `SPEC` is "+
			"loss=1%,dup=1%,reorder=1%,corrupt=1%,delay=2ms,seed=7; "+
			"over TCP only corrupt, delay, jitter and cut=1%")
	fs.BoolVar(&o.noLocal, "no-local", false,
		"use UDP, not shared memory, between processes of this host; --pcap and --faults imply it")
	fs.BoolVar(&o.debug, "debug", false, "print on stderr why a verbs call was refused")
	fs.StringVar(&o.log, "log", "", "log on stderr from `LEVEL` on: warn (failures), "+
		"info (and objects made and changed), debug (and work requests)")
	cmd.ValidArgsFunction = completePrograms
	if err := cmd.RegisterFlagCompletionFunc("device", completeSelection); err != nil {
		panic(err) // there is no such option
	}
	return cmd
}

// check makes the checks that need no program: of the options, and of the variables that a command
// around this one has set. The libraries would refuse the same values, but the program does not
// pass on their messages.
func (o *options) check(env environment) error {
	by, spec := "--", o.faults
	if spec == "" {
		by, spec = faultsVariable+": ", env.get(faultsVariable)
	}
	faults, err := faultcap.ParseFaults(spec)
	if err != nil {
		return cli.Usagef("%s%w", by, err) // its errors begin "faults: "
	}
	if _, err := congestion.ParseAlgorithm(env.get(congestionVariable)); err != nil {
		return cli.Usagef("%s: %w", congestionVariable, err)
	}
	logger, level := "--log", o.log
	if level == "" {
		logger, level = logVariable, env.get(logVariable)
	}
	if _, err := core.NewLog(io.Discard, level); err != nil {
		return cli.Usagef("%s: %w", logger, err)
	}
	ringBy, size := "--pcap-ring", o.ring
	if size == "" {
		ringBy, size = ringVariable, env.get(ringVariable)
	}
	if _, err := recorder.ParseSize(size); size != "" && err != nil {
		return cli.Usagef("%s: %w", ringBy, err)
	}
	if o.calls && o.captureFile() == "" && size == "" && env.get(captureVariable) == "" {
		return cli.Usagef("--pcap-calls: there is no capture; give --pcap or --pcap-ring")
	}
	if strings.HasSuffix(o.capture, "/") {
		return cli.Usagef("--pcap: %s is a directory", o.capture)
	}
	_, list, err := o.selected(env)
	if err != nil {
		return err
	}
	if o.captureFile() != "" && !slices.ContainsFunc(list, func(d device.Info) bool {
		return d.Kind.HasPackets()
	}) {
		return cli.Usagef("%s: an NTB link has no packets to capture", o.captureOption())
	}
	for i := range list {
		if err = list[i].Kind.TakesFaults(faults); err == nil {
			return nil
		}
	}
	if err != nil {
		return cli.Usagef("%s%w", by, err)
	}
	return nil
}

// selected returns the devices to show, and the option or variable that chose them.
func (o *options) selected(env environment) (device.Selection, []device.Info, error) {
	said, by := o.devices, "--"
	if said == "" {
		said, by = env.get(devicesVariable), devicesVariable+": "
	}
	selection := device.ParseSelection(said)
	list, err := selection.List()
	if err != nil {
		return nil, nil, cli.Usagef("%w", err)
	}
	if err := selection.Check(); err != nil {
		return nil, nil, cli.Usagef("%s%w", by, err) // it begins "device "
	}
	if slices.Contains(selection, string(device.KindNTB)) &&
		!slices.ContainsFunc(list, func(d device.Info) bool {
			return d.Kind == device.KindNTB
		}) {
		return nil, nil, cli.Usagef("%sdevice %s: %s names no link; see 'verbena devices --help'",
			by, device.KindNTB, device.LinksVariable)
	}
	return selection, list, nil
}

// perProcess names the capture of each process: FILE with %p in it, as an
// absolute name, as the program may change its directory.
func perProcess(file string) (string, error) {
	if !strings.Contains(file, "%p") {
		ext := filepath.Ext(file)
		file = strings.TrimSuffix(file, ext) + "-%p" + ext
	}
	return filepath.Abs(file)
}
