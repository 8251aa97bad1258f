// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"verbena/internal/monotime"
	"verbena/internal/tools/cli"
	"verbena/internal/tools/rawbench"
)

// frameGroups compare RoCEv2 past the kernel's IP stack (VERBENA_XDP) with the same by UDP sockets.
// Other rows compare it with AF_XDP sockets that carry packets of those lengths, and with DPDK.
var frameGroups = slices.Concat(framesAt(1500), framesAt(3498), framesAt(9000))

const (
	framePings  = 20000
	frameWrites = 200000
	frameWindow = 64 // outstanding WRITEs
)

// framesAt are the groups of a pair of interfaces with an MTU.
func framesAt(mtu int) []group {
	w := frameWire{mtu}
	latency := fmt.Sprintf("SEND 8 B, one way, frames, MTU %d", mtu)
	rate := fmt.Sprintf("WRITE 8 B, 64 outstanding, frames, MTU %d", mtu)
	beside := func(name, unit string, udp, plain goal,
		ours, besideUDP, besidePlain frameFigure) group {
		return group{
			rows: []row{{name, unit, "UDP", udp},
				{name + ", beside AF_XDP", unit, "AF_XDP", plain}},
			ours: func(ctx context.Context, r *run) ([]float64, error) {
				v, err := w.on(ctx, r, ours)
				return []float64{v, v}, err
			},
			peer: func(ctx context.Context, r *run) ([]float64, error) {
				u, err := w.on(ctx, r, besideUDP)
				if err != nil {
					return nil, err
				}
				p, err := w.on(ctx, r, besidePlain)
				return []float64{u, p}, err
			},
		}
	}
	besideDPDK := func(name, unit string, ours, theirs frameFigure) group {
		return measure{name: name + ", beside DPDK", unit: unit, beside: "testpmd",
			ours: func(ctx context.Context, r *run) (float64, error) {
				if _, err := exec.LookPath(testpmd); err != nil {
					return 0, fmt.Errorf("%w: %s is not installed", errLeftOut, testpmd)
				}
				if mtu > maxDPDK {
					return 0, fmt.Errorf("%w: %s takes no packets of several frames", errLeftOut,
						testpmd)
				}
				return w.on(ctx, r, ours)
			},
			raw: func(ctx context.Context, r *run) (float64, error) { return w.on(ctx, r, theirs) },
		}.group()
	}
	return []group{
		beside(latency, "µs", goal{bound: 0.7, ratio: true}, goal{bound: 1.2, ratio: true},
			frameSend(true), frameSend(false), plainFrames("ping")),
		beside(rate, "/s", goal{bound: 2, atLeast: true, ratio: true},
			goal{bound: 0.83, atLeast: true, ratio: true},
			frameRate(true), frameRate(false), plainFrames("flood")),
		besideDPDK(latency, "µs", frameSend(true), dpdkFrames("ping")),
		besideDPDK(rate, "/s", frameRate(true), dpdkFrames("echo-flood")),
	}
}

// frameFigure takes a figure between two network namespaces.
type frameFigure func(ctx context.Context, r *run, e ends) (float64, error)

// frameWire is a pair of interfaces.
type frameWire struct{ mtu int }

// on takes a figure while the interfaces have the wire's MTU.
func (w frameWire) on(ctx context.Context, r *run, f frameFigure) (v float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	e, err := vethRoCE.ends(ctx, r)
	if err != nil {
		return 0, err
	}
	if r.apart.user {
		return 0, fmt.Errorf("%w: frames of interfaces need root", errLeftOut)
	}
	if err := rawbench.FramesPossible(); err != nil {
		return 0, fmt.Errorf("%w: frames of interfaces: %w", errLeftOut, err)
	}
	defer func() {
		err = errors.Join(err, r.apart.setMTU(context.WithoutCancel(ctx), usualMTU))
	}()
	if err := r.apart.setMTU(ctx, w.mtu); err != nil {
		return 0, err
	}
	return f(ctx, r, e)
}

// usualMTU is that of the interfaces for all other rows.
const usualMTU = 1500

// setMTU sets the MTU of both ends.
func (n *namespaces) setMTU(ctx context.Context, mtu int) error {
	to := " mtu " + strconv.Itoa(mtu)
	return errors.Join(n.shell(ctx, n.server, "ip link set "+vethDevice+to),
		n.shell(ctx, n.client, "ip link set "+vethFar+to))
}

// framePeers are "verbena perf" at both ends: by frames, or by UDP.
func framePeers(r *run, e ends, frames bool) *peer {
	server, far := *r.peer, *r.peer
	server.in, server.host, server.device = e.server, vethServer, e.kind+"_"+vethDevice
	far.in, far.device = e.client, e.kind+"_"+vethFar
	if frames {
		server.flags, far.flags = []string{"--xdp", vethDevice}, []string{"--xdp", vethFar}
	}
	server.far = &far
	return &server
}

func frameSend(frames bool) frameFigure {
	return func(ctx context.Context, r *run, e ends) (float64, error) {
		row, err := framePeers(r, e, frames).perf(ctx, nil, []string{"send", "lat"}, "-s", "8",
			"-n", strconv.Itoa(framePings))
		return row.Typical, err
	}
}

func frameRate(frames bool) frameFigure {
	return func(ctx context.Context, r *run, e ends) (float64, error) {
		row, err := framePeers(r, e, frames).perf(ctx, nil, []string{"write", "bw"}, "-s", "8",
			"-t", strconv.Itoa(frameWindow), "-n", strconv.Itoa(frameWrites))
		return row.MsgRate * 1e6, err
	}
}

// plainFrames has rawbench.Frames at both ends.
func plainFrames(role string) frameFigure {
	return func(ctx context.Context, r *run, e ends) (float64, error) {
		server, err := startPartner(ctx, slices.Concat(e.server,
			frameRole(r, role+"-server", vethServer, vethClient, vethClientMAC)))
		if err != nil {
			return 0, err
		}
		if _, err = server.stdout.ReadString('\n'); err != nil {
			return 0, server.stop(err)
		}
		v, err := frameClient(ctx, r, e, role)
		return v, server.end(err)
	}
}

// frameRole returns the command of one end.
func frameRole(r *run, role, local, remote, mac string) []string {
	return []string{r.self, "frames", role, local, remote, mac}
}

// frameClient runs the client and returns its figure.
func frameClient(ctx context.Context, r *run, e ends, role string) (v float64, err error) {
	client, err := startPartner(ctx, slices.Concat(e.client,
		frameRole(r, role, vethClient, vethServer, vethServerMAC)))
	if err != nil {
		return 0, err
	}
	line, err := client.stdout.ReadString('\n')
	if err == nil {
		v, err = strconv.ParseFloat(strings.TrimSpace(line), 64)
	}
	return v, client.end(err)
}

// testpmd is DPDK's program that forwards frames.
const testpmd = "dpdk-testpmd"

// maxDPDK is the largest MTU of a veth pair at which its program can be attached: DPDK 22.11 does
// not say that it takes packets of several frames.
const maxDPDK = 3498

// dpdkFrames has testpmd return each frame of rawbench.Frames, by DPDK's driver of AF_XDP. It needs
// no huge pages. DPDK has no program that measures latency, so the other end is not DPDK's.
func dpdkFrames(role string) frameFigure {
	return func(ctx context.Context, r *run, e ends) (float64, error) {
		// it writes a pipe by blocks, and so would not say when it has started
		server, err := startPartner(ctx, append(slices.Clone(e.server), "stdbuf", "-oL", testpmd,
			"-l", "0,1",
			"--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry",
			"--vdev", "net_af_xdp0,iface="+vethDevice, "--", "--forward-mode=5tswap",
			"--nb-cores=1", "--total-num-mbufs=8192", "--no-mlockall", "--burst=32"))
		if err != nil {
			return 0, err
		}
		for said := ""; !strings.Contains(said, "Press enter"); {
			if said, err = server.stdout.ReadString('\n'); err != nil {
				return 0, server.stop(fmt.Errorf("%s does not start: %w", testpmd, err))
			}
		}
		v, err := frameClient(ctx, r, e, role)
		return v, server.stop(err)
	}
}

// framesCommand is one end of plain frames.
func framesCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "frames ping|flood|echo-flood|ping-server|flood-server LOCAL REMOTE MAC",
		Short:  "Be one end of a measure of frames",
		Hidden: true,
		Args:   cli.Args(4, 4, "a role, two addresses and a hardware address"),
		RunE: func(cmd *cobra.Command, args []string) error {
			local, err := netip.ParseAddr(args[1])
			if err != nil {
				return cli.Usagef("%w", err)
			}
			remote, err := netip.ParseAddr(args[2])
			if err != nil {
				return cli.Usagef("%w", err)
			}
			mac, err := net.ParseMAC(args[3])
			if err != nil {
				return cli.Usagef("%w", err)
			}
			f, err := rawbench.OpenFrames(local, remote, mac)
			if err != nil {
				return err
			}
			defer f.Close()
			var v float64
			switch role := args[0]; role {
			case "ping-server", "flood-server":
				fmt.Fprintln(cmd.OutOrStdout(), "ready")
				if role == "ping-server" {
					return f.Echo(rawbench.FramePing)
				}
				return f.Count()
			case "ping":
				res, e := f.Ping(rawbench.FramePing, framePings)
				v, err = float64(res.Percentile(50))/float64(monotime.Microsecond), e
			case "flood", "echo-flood":
				took, e := f.Flood(rawbench.FrameWrite, frameWrites, frameWindow, role != "flood")
				v, err = frameWrites*float64(monotime.Second)/float64(max(took, 1)), e
			default:
				return cli.Usagef("there is no role %q", role)
			}
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), v)
			}
			return err
		},
	}
}
