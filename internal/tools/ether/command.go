// SPDX-License-Identifier: BSD-2-Clause

package ether

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/spf13/cobra"

	"verbena/internal/core"
	"verbena/internal/ntb/backend"
	"verbena/internal/sys/tun"
	"verbena/internal/tools/cli"
	transportntb "verbena/internal/transport/ntb"
	"verbena/verbs"
)

type options struct {
	dev     cli.Device
	tap     string
	address string
	mtu     int

	prefix netip.Prefix // address, parsed
}

// Command returns "verbena ether".
func Command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "ether",
		Short: "Carry Ethernet frames over a device of kind ntb",
		Long: `Make a TAP interface and carry its frames over the link of a device of kind
ntb to the other end, where the same command runs, until interrupted. The
interface has a carrier while the link is up. At the end the
command prints counts of frames and bytes.

Making interfaces needs CAP_NET_ADMIN. Root can also make the interface for
this user. Without --address and --mtu the command then changes nothing of it that
only root may change.`,
		Example: `  export VERBENA_NTB=shm:/run/link
  verbena ether --address 10.0.0.1/24           in one network namespace
  verbena ether --address 10.0.0.2/24           in another; then ping 10.0.0.1
  verbena ether -d ntb1 --tap storage0 --mtu 9000`,
		Args: cli.Args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVarP(&o.dev.Name, "ib-dev", "d", "",
		"use device `DEV` (default the first of kind ntb)")
	fs.StringVar(&o.tap, "tap", "ntb%d",
		"`NAME` of the interface; %d stands for the first free number")
	fs.StringVar(&o.address, "address", "", "give the interface the address `ADDR/BITS`")
	fs.IntVar(&o.mtu, "mtu", 0,
		"longest packet in `BYTES` (default the largest that the link carries)")
	return cmd
}

// Bounds of an Ethernet interface's MTU: the minimum of IPv4, and the maximum of a TAP.
const (
	minMTU         = 68
	maxMTU         = 65521
	ethernetHeader = 14
)

func (o *options) check() error {
	if o.address != "" {
		var err error
		if o.prefix, err = netip.ParsePrefix(o.address); err != nil {
			return cli.Usagef("--address %s is not ADDR/BITS", o.address)
		}
	}
	if o.mtu != 0 && (o.mtu < minMTU || o.mtu > maxMTU) {
		return cli.Usagef("--mtu %d is not from %d to %d", o.mtu, minMTU, maxMTU)
	}
	return nil
}

// open opens the device: the first of kind ntb if it has no name.
func (o *options) open() (*verbs.Context, *transportntb.Device, error) {
	if o.dev.Name == "" {
		all, err := verbs.Devices()
		if err != nil {
			return nil, nil, err
		}
		for _, d := range all {
			if d.Kind == ntb {
				o.dev.Name = d.Name
				break
			}
		}
		if o.dev.Name == "" {
			return nil, nil, errors.New("there is no device of kind ntb: set VERBENA_NTB to a " +
				"link, such as shm:/run/link")
		}
	}
	ctx, err := o.dev.Open()
	if err != nil {
		return nil, nil, err
	}
	l := (*core.Context)(ctx).NTB()
	if l == nil {
		return nil, nil, errors.Join(fmt.Errorf("device %s is not of kind ntb: only NTB links "+
			"carry frames", o.dev.Name), ctx.Close())
	}
	return ctx, l, nil
}

const ntb = "ntb"

func (o *options) run(ctx context.Context, out io.Writer) (err error) {
	dev, link, err := o.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	tap, err := tun.Open(o.tap)
	if err != nil {
		return err
	}
	defer tap.Close()
	if err := o.configure(tap); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: on %s\n", tap.Name, o.dev.Name)

	// Events are few; the engine, which raises them, does not wait for us.
	events := make(chan struct{}, 1)
	look := func() {
		select {
		case events <- struct{}{}:
		default:
		}
	}
	stop := link.Watch(func(transportntb.LinkChange) { look() })
	defer stop()
	c := &carrier{tap: tap, link: link}
	ended, err := c.start()
	if errors.Is(err, backend.ErrInUse) {
		return fmt.Errorf("another process carries the frames of this side of %s: each "+
			"side has one such process", o.dev.Name)
	}
	if err != nil {
		return err
	}
	defer func() {
		tap.Stop()
		<-ended
		c.stop()
		fmt.Fprintf(out, "%s: %v\n", tap.Name, &c.count)
	}()
	look()
	for was := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-events:
		}
		up := link.Carries()
		if up == was {
			continue
		}
		was = up
		if err := o.linkChanged(tap, link, up, out); err != nil {
			return err
		}
	}
}

// configure sets the attributes asked for. If there are none and the interface is root's, it
// changes nothing.
func (o *options) configure(tap *tun.TAP) error {
	if o.mtu != 0 {
		if err := tap.SetMTU(o.mtu); err != nil {
			return err
		}
	}
	err := tap.Configure(o.prefix)
	if errors.Is(err, tun.ErrNotPermitted) && !o.prefix.IsValid() {
		return nil
	}
	return err
}

// linkChanged has the interface follow the link.
func (o *options) linkChanged(tap *tun.TAP, link *transportntb.Device, up bool,
	out io.Writer) error {
	if !up {
		err := tap.SetCarrier(false)
		fmt.Fprintf(out, "%s: the link is down\n", tap.Name)
		return err
	}
	if longest, err := link.MaxFrame(); err == nil && o.mtu == 0 {
		if err := tap.SetMTU(min(longest-ethernetHeader, maxMTU)); err != nil &&
			!errors.Is(err, tun.ErrNotPermitted) {
			return err
		}
	}
	fmt.Fprintf(out, "%s: the link is up\n", tap.Name)
	return tap.SetCarrier(true)
}
