// SPDX-License-Identifier: BSD-2-Clause

package rdmanl

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/stats"
)

// system is one with a RoCE device, an NTB link, and two processes that have the former open.
func system() *System {
	info := device.Info{Name: "roce_a", Kind: device.KindRoCE, NetDev: "a", GUID: ib.GUID(0x1122334455667788), Index: 3}
	open := func(n int) stats.Device {
		d := stats.Device{Name: "roce_a", Contexts: []uint32{1}, Regions: 2 * n, PDs: []stats.PD{{PDN: 1, Context: 1, Users: 3}}, CQs: []stats.CQ{{CQN: 2, Context: 1, Depth: 64, Users: 2}},
			SRQs: []stats.SRQ{{SRQN: 5, PDN: 1, XRC: true}, {SRQN: 6, PDN: 1, TM: true}}}
		for i := range n {
			d.QueuePairs = append(d.QueuePairs, stats.QueuePair{QPN: uint32(1000*n + i), Type: "RC", State: "RTS", PeerQPN: 77, SQPSN: 7, RQPSN: 8, PDN: 1, SRQN: 5, Migration: "ARMED"})
			d.MRs = append(d.MRs, stats.MR{MRN: uint32(i), Context: 1, PDN: 1, Length: 4096})
		}
		return d
	}
	return &System{
		Devices: func() []Device { return []Device{{Name: "roce_a", Info: &info}, {Name: "ntb0"}} },
		Processes: func() []stats.Snapshot {
			return []stats.Snapshot{
				{PID: 7, Devices: []stats.Device{open(1)}, Identifiers: []stats.Identifier{
					{PortSpace: "TCP", State: "listening", Local: netip.MustParseAddrPort("0.0.0.0:7174")},
					{Device: "roce_a", PortSpace: "UDP", State: "established", QPN: 1000, Local: netip.MustParseAddrPort("[fe80::1]:1"), Peer: netip.MustParseAddrPort("[fe80::2]:2")},
					{Device: "other", PortSpace: "IB", State: "bound"},
				}},
				{PID: 9, Devices: []stats.Device{open(400), {Name: "iwarp_a"}}},
			}
		},
		Counters: func(device string) []stats.Counter {
			return []stats.Counter{{Name: "sent_pkts", Value: 5}, {Name: "of_" + device, Value: 1 << 40}}
		},
	}
}

// ask returns a message with u32 attributes, in pairs of number and value.
func ask(c command, flags uint16, attrs ...uint32) []byte {
	h := header{seq: 99, port: 4}
	b := begin(&h, clientNLDev<<10|uint16(c), flagRequest|flags)
	for i := 0; i < len(attrs); i += 2 {
		b.u32(attribute(attrs[i]), attrs[i+1])
	}
	return b.end()
}

// tables of attributes that hold others.
var nested = map[attribute]bool{summary: true, summaryEntry: true, hwCounters: true, hwCounter: true}

func init() {
	for _, t := range tables {
		nested[t.nest], nested[t.nest+1] = true, true
	}
}

// text returns messages for comparison: attributes as number=value, the value in hex where it is
// long.
func text(t *testing.T, messages [][]byte) string {
	t.Helper()
	var out strings.Builder
	var attrs func(b []byte)
	attrs = func(b []byte) {
		for len(b) > 0 {
			n, a := int(native.Uint16(b)), attribute(native.Uint16(b[2:]))
			v := b[attrBytes:n]
			switch {
			case nested[a]:
				fmt.Fprintf(&out, " %d{", a)
				attrs(v)
				out.WriteString(" }")
			case a == summaryName: // three letters are as long as a number
				fmt.Fprintf(&out, " %d=%q", a, bytes.Trim(v, "\x00"))
			case len(v) == 1:
				fmt.Fprintf(&out, " %d=%d", a, v[0])
			case len(v) == 4:
				fmt.Fprintf(&out, " %d=%d", a, native.Uint32(v))
			case len(v) == 8:
				fmt.Fprintf(&out, " %d=%d", a, native.Uint64(v))
			default:
				fmt.Fprintf(&out, " %d=%q", a, bytes.Trim(v, "\x00"))
			}
			b = b[align(n):]
		}
	}
	for _, m := range messages {
		h, ok := parseHeader(m)
		if !ok || int(h.length) != len(m) || h.seq != 99 || h.port != 4 || len(m) > maxMessage {
			t.Fatalf("header %+v of %d bytes", h, len(m))
		}
		switch h.typ {
		case typeDone:
			out.WriteString(" done")
		case typeError:
			fmt.Fprintf(&out, " error %v", syscall.Errno(-int32(native.Uint32(m[headerBytes:]))))
		default:
			fmt.Fprintf(&out, " [%d:", h.command())
			attrs(m[headerBytes:])
			out.WriteString(" ]")
		}
	}
	return strings.TrimSpace(out.String())
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name    string
		request []byte
		want    string // the beginning
	}{
		{"all devices", ask(cmdGet, flagDump|flagAck), `[1: 1=0 2="roce_a" 3=1 4=`},
		{"a device", ask(cmdGet, flagAck, uint32(devIndex), 1), `[1: 1=1 2="ntb0" 3=1 ] error errno 0`},
		{"no such device", ask(cmdGet, 0, uint32(devIndex), 2), "error " + syscall.ENODEV.Error()},
		{"no device named", ask(cmdGet, 0), "error " + syscall.EINVAL.Error()},
		{"another port", ask(cmdPortGet, 0, uint32(devIndex), 0, uint32(portIndex), 2), "error " + syscall.EINVAL.Error()},
		{"ports", ask(cmdPortGet, flagDump), `[5: 1=0 2="roce_a" 3=1 4=`},
		{"system", ask(cmdSysGet, 0), `[6: 66=0 93=1 ]`},
		{"summary", ask(cmdResGet, 0, uint32(devIndex), 0), `[9: 1=0 2="roce_a" 15{ 16{ 17="pd" 18=2 } 16{ 17="cq" 18=2 } 16{ 17="qp" 18=401 } 16{ 17="cm_id" 18=2 } 16{ 17="mr" 18=802 } 16{ 17="ctx" 18=2 } 16{ 17="srq" 18=4 } } ]`},
		{"summary of a device that nothing has open", ask(cmdResGet, flagDump, uint32(devIndex), 1), `[9: 1=1 2="ntb0" 15{ 16{ 17="pd" 18=0 }`},
		{"queue pairs", ask(cmdResQPGet, flagDump, uint32(devIndex), 0), `[10: 1=0 2="roce_a" 19{ 20{ 21=1000 22=77 23=8 25=2 24=7 26=2 27=3 3=1 60=1 28=7 } 20{ 21=400000 `},
		{"a queue pair", ask(cmdResQPGet, flagAck, uint32(devIndex), 0, uint32(resLQPN), 400399), `[10: 1=0 2="roce_a" 21=400399 22=77`},
		{"no such queue pair", ask(cmdResQPGet, 0, uint32(devIndex), 0, uint32(resLQPN), 5), "error " + syscall.ENOENT.Error()},
		{"queue pairs of port 2", ask(cmdResQPGet, flagDump, uint32(devIndex), 0, uint32(portIndex), 2), "done"},
		{"protection domains", ask(cmdResPDGet, flagDump, uint32(devIndex), 0), `[14: 1=0 2="roce_a" 46{ 47{ 38=3 60=1 64=1 28=7 } 47{ 38=3 60=1 64=1 28=9 } } ] done`},
		{"completion queues", ask(cmdResCQGet, flagDump, uint32(devIndex), 0), `[12: 1=0 2="roce_a" 35{ 36{ 37=64 38=2 61=2 64=1 28=7 }`},
		{"shared receive queues", ask(cmdResSRQGet, flagDump, uint32(devIndex), 0), `[23: 1=0 2="roce_a" 88{ 89{ 90=5 26=1 60=1 19{ 20{ 21=1000 } } 28=7 } 89{ 90=6 26=2 60=1 19{ } 28=7 }`},
		{"contexts", ask(cmdResCtxGet, flagDump, uint32(devIndex), 0), `[22: 1=0 2="roce_a" 86{ 87{ 64=1 28=7 } 87{ 64=1 28=9 } } ] done`},
		{"regions", ask(cmdResMRGet, flagDump, uint32(devIndex), 0), `[13: 1=0 2="roce_a" 40{ 41{ 45=4096 62=0 60=1 28=7 }`},
		{"identifiers", ask(cmdResCMIDGet, flagDump, uint32(devIndex), 0), `[11: 1=0 2="roce_a" 30{ 31{ 63=0 32=262 26=2 27=8 33="\x02\x00\x1c\x06" 28=7 } 31{ 63=1 3=1 21=1000 32=273 26=4 27=5 33=`},
		{"objects of no device", ask(cmdResQPGet, flagDump), "error " + syscall.EINVAL.Error()},
		{"counters", ask(cmdStatGet, flagAck, uint32(devIndex), 0, uint32(portIndex), 1), `[17: 1=0 2="roce_a" 3=1 80{ 81{ 82="sent_pkts" 83=5 } 81{ 82="of_roce_a" 83=1099511627776 } } ] error errno 0`},
		{"names of counters", ask(cmdStatGetMode, 0, uint32(devIndex), 0, uint32(portIndex), 1), `[24: 1=0 2="roce_a" 3=1 80{ 81{ 82="sent_pkts" 94=0 }`},
		{"counters bound to queue pairs", ask(cmdStatGet, flagDump, uint32(statRes), uint32(resQP)), "done"},
		{"a rename", ask(2, flagAck, uint32(devIndex), 0), "error " + syscall.EOPNOTSUPP.Error()},
		{"a new link", ask(3, flagAck), "error " + syscall.EOPNOTSUPP.Error()},
		{"no command", ask(0, 0), "error " + syscall.EINVAL.Error()},
		{"an unknown command", ask(numCommands, 0), "error " + syscall.EINVAL.Error()},
	} {
		if got := text(t, Answer(c.request, system())); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n%.300s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// A list that is longer than a program's buffer comes in several messages, and is whole.
func TestLongListsAreCut(t *testing.T) {
	answers := Answer(ask(cmdResQPGet, flagDump, uint32(devIndex), 0), system())
	if n := strings.Count(text(t, answers), " 20{"); n != 401 || len(answers) < 10 {
		t.Errorf("%d queue pairs in %d messages", n, len(answers))
	}
	answers = Answer(ask(cmdResSRQGet, flagDump, uint32(devIndex), 0), system())
	var numbers []string // the first is of another process
	for _, m := range regexp.MustCompile(` 20\{ 21=(\d+)`).FindAllStringSubmatch(text(t, answers), -1) {
		numbers = append(numbers, m[1])
	}
	if n := len(strings.Join(numbers[1:], ",")); n > 255 || n < 240 {
		t.Errorf("%d letters name queue pairs of shared receive queues", n)
	}
}

// Only requests are answered, and each of several in a datagram.
func TestDatagramOfSeveral(t *testing.T) {
	two := append(ask(cmdSysGet, 0), ask(cmdSysGet, 0)...)
	if got, want := text(t, Answer(two, system())), "[6: 66=0 93=1 ] [6: 66=0 93=1 ]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	native.PutUint16(two[6:], 0)
	if got, want := text(t, Answer(two, system())), "[6: 66=0 93=1 ]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := len(Answer(bytes.Repeat(ask(cmdSysGet, 0), 1000), system())); n != maxRequests {
		t.Errorf("%d answers", n)
	}
}

func FuzzAnswer(f *testing.F) {
	for c := command(0); c <= numCommands; c++ {
		f.Add(ask(c, flagDump|flagAck, uint32(devIndex), 0))
		f.Add(ask(c, flagAck, uint32(devIndex), 0, uint32(portIndex), 1, uint32(resLQPN), 1000))
	}
	f.Add(ask(cmdGet, 0, uint32(devIndex), 0)[:22])
	f.Add([]byte{})
	s := system()
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		for _, m := range Answer(b, s) {
			if h, ok := parseHeader(m); !ok || int(h.length) != len(m) || len(m) > maxMessage {
				t.Fatalf("answer %x", m)
			}
		}
		if !bytes.Equal(b, before) {
			t.Fatal("the request was changed")
		}
	})
}
