// SPDX-License-Identifier: BSD-2-Clause

package packet

import (
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
	"verbena/internal/sys/udp"
)

// bufferBytes is the memory that the kernel has for frames which no thread has read.
const bufferBytes = 4 << 20

// Receiver receives the frames of an interface. One goroutine at a time reads it; the other methods
// may be called concurrently.
type Receiver struct {
	// immutable after OpenReceiver
	fd    int
	index int

	message // of the goroutine that reads
}

// OpenReceiver opens a socket that gets all frames of an interface from now on.
//
// Errors: those of OpenSender.
func OpenReceiver(index int) (*Receiver, error) {
	fd, err := open(index, unix.ETH_P_ALL)
	if err != nil {
		return nil, err
	}
	r := &Receiver{fd: fd, index: index}
	r.init()
	return r, nil
}

// prepare sets the options of a socket that has no protocol yet.
func prepare(fd int, loopback bool) error {
	if err := udp.AttachFilter(fd, incoming(loopback)); err != nil {
		return err
	}
	for _, o := range []int{unix.PACKET_AUXDATA, unix.PACKET_VNET_HDR} {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, o, 1); err != nil {
			return os.NewSyscallError("setsockopt of a packet socket", err)
		}
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bufferBytes) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferBytes) // less will do
	}
	return nil
}

// incoming takes frames that arrive, and those of Senders. The frames of loopback all arrive.
func incoming(loopback bool) []bpf.Instruction {
	const all = 1 << 18
	own := []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtMark},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: mark, SkipFalse: 1},
		bpf.RetConstant{Val: all},
	}
	if loopback {
		own = nil
	}
	return append(append([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 1},
		bpf.RetConstant{Val: all},
	}, own...), bpf.RetConstant{Val: 0})
}

// Admit makes the interface pass frames that it would drop, until Refuse is called with the same
// Address.
func (r *Receiver) Admit(a Address) error { return r.membership(unix.PACKET_ADD_MEMBERSHIP, a) }

// Refuse ends Admit.
func (r *Receiver) Refuse(a Address) error { return r.membership(unix.PACKET_DROP_MEMBERSHIP, a) }

func (r *Receiver) membership(option int, a Address) error {
	m := unix.PacketMreq{Ifindex: int32(r.index)}
	switch {
	case a == Any:
		m.Type = unix.PACKET_MR_PROMISC
	case a == AnyGroup:
		m.Type = unix.PACKET_MR_ALLMULTI
	default:
		m.Type, m.Alen = unix.PACKET_MR_UNICAST, uint16(len(a.MAC))
		if a.MAC[0]&1 != 0 {
			m.Type = unix.PACKET_MR_MULTICAST
		}
		copy(m.Address[:], a.MAC[:])
	}
	return os.NewSyscallError("setsockopt membership of a packet socket",
		unix.SetsockoptPacketMreq(r.fd, unix.SOL_PACKET, option, &m))
}

// TakeDropped returns how many frames the kernel has dropped since the last call, because no thread
// read them.
func (r *Receiver) TakeDropped() uint64 {
	s, err := unix.GetsockoptTpacketStats(r.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0
	}
	return uint64(s.Drops)
}

// FD returns the descriptor, for pollers.
func (r *Receiver) FD() int { return r.fd }

// Close closes the socket.
func (r *Receiver) Close() error { return fdtrack.Close(r.fd) }
