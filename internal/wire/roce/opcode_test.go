// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
)

// opcodeRows is the table of the specification written once more, by another
// hand: opcode, extended headers in order, header bytes, place, payload,
// receive consumed, direction, name.
const opcodeRows = `
00 -                  12 first  payload recv req  OpSend               RC Send First
01 -                  12 middle payload recv req  OpSend               RC Send Middle
02 -                  12 last   payload recv req  OpSend               RC Send Last
03 ImmDt              16 last   payload recv req  OpSend               RC Send Last Immediate
04 -                  12 only   payload recv req  OpSend               RC Send Only
05 ImmDt              16 only   payload recv req  OpSend               RC Send Only Immediate
06 RETH               28 first  payload -    req  OpRDMAWrite          RC RDMA Write First
07 -                  12 middle payload -    req  OpRDMAWrite          RC RDMA Write Middle
08 -                  12 last   payload -    req  OpRDMAWrite          RC RDMA Write Last
09 ImmDt              16 last   payload recv req  OpRDMAWrite          RC RDMA Write Last Immediate
0a RETH               28 only   payload -    req  OpRDMAWrite          RC RDMA Write Only
0b RETH+ImmDt         32 only   payload recv req  OpRDMAWrite          RC RDMA Write Only Immediate
0c RETH               28 only   -       -    req  OpRDMARead           RC RDMA Read Request
0d AETH               16 first  payload -    resp OpReadResponse       RC RDMA Read Response First
0e -                  12 middle payload -    resp OpReadResponse       RC RDMA Read Response Middle
0f AETH               16 last   payload -    resp OpReadResponse       RC RDMA Read Response Last
10 AETH               16 only   payload -    resp OpReadResponse       RC RDMA Read Response Only
11 AETH               16 only   -       -    resp OpAcknowledge        RC Acknowledge
12 AETH+AtomicAckETH  24 only   -       -    resp OpAtomicAcknowledge  RC Atomic Acknowledge
13 AtomicETH          40 only   -       -    req  OpCompareSwap        RC Compare Swap
14 AtomicETH          40 only   -       -    req  OpFetchAdd           RC Fetch Add
16 IETH               16 last   payload recv req  OpSend               RC Send Last Invalidate
17 IETH               16 only   payload recv req  OpSend               RC Send Only Invalidate
1c FETH+RETH          32 only   -       -    req  OpFlush              RC Flush
1d RETH               28 only   payload -    req  OpAtomicWrite        RC Atomic Write
20 -                  12 first  payload recv req  OpSend               UC Send First
21 -                  12 middle payload recv req  OpSend               UC Send Middle
22 -                  12 last   payload recv req  OpSend               UC Send Last
23 ImmDt              16 last   payload recv req  OpSend               UC Send Last Immediate
24 -                  12 only   payload recv req  OpSend               UC Send Only
25 ImmDt              16 only   payload recv req  OpSend               UC Send Only Immediate
26 RETH               28 first  payload -    req  OpRDMAWrite          UC RDMA Write First
27 -                  12 middle payload -    req  OpRDMAWrite          UC RDMA Write Middle
28 -                  12 last   payload -    req  OpRDMAWrite          UC RDMA Write Last
29 ImmDt              16 last   payload recv req  OpRDMAWrite          UC RDMA Write Last Immediate
2a RETH               28 only   payload -    req  OpRDMAWrite          UC RDMA Write Only
2b RETH+ImmDt         32 only   payload recv req  OpRDMAWrite          UC RDMA Write Only Immediate
64 DETH               20 only   payload recv req  OpSend               UD Send Only
65 DETH+ImmDt         24 only   payload recv req  OpSend               UD Send Only Immediate
81 -                  12 only   payload -    -    OpCongestion         CNP
a0 XRCETH             16 first  payload recv req  OpSend               XRC Send First
a1 XRCETH             16 middle payload recv req  OpSend               XRC Send Middle
a2 XRCETH             16 last   payload recv req  OpSend               XRC Send Last
a3 XRCETH+ImmDt       20 last   payload recv req  OpSend               XRC Send Last Immediate
a4 XRCETH             16 only   payload recv req  OpSend               XRC Send Only
a5 XRCETH+ImmDt       20 only   payload recv req  OpSend               XRC Send Only Immediate
a6 XRCETH+RETH        32 first  payload -    req  OpRDMAWrite          XRC RDMA Write First
a7 XRCETH             16 middle payload -    req  OpRDMAWrite          XRC RDMA Write Middle
a8 XRCETH             16 last   payload -    req  OpRDMAWrite          XRC RDMA Write Last
a9 XRCETH+ImmDt       20 last   payload recv req  OpRDMAWrite          XRC RDMA Write Last Immediate
aa XRCETH+RETH        32 only   payload -    req  OpRDMAWrite          XRC RDMA Write Only
ab XRCETH+RETH+ImmDt  36 only   payload recv req  OpRDMAWrite          XRC RDMA Write Only Immediate
ac XRCETH+RETH        32 only   -       -    req  OpRDMARead           XRC RDMA Read Request
ad AETH               16 first  payload -    resp OpReadResponse       XRC RDMA Read Response First
ae -                  12 middle payload -    resp OpReadResponse       XRC RDMA Read Response Middle
af AETH               16 last   payload -    resp OpReadResponse       XRC RDMA Read Response Last
b0 AETH               16 only   payload -    resp OpReadResponse       XRC RDMA Read Response Only
b1 AETH               16 only   -       -    resp OpAcknowledge        XRC Acknowledge
b2 AETH+AtomicAckETH  24 only   -       -    resp OpAtomicAcknowledge  XRC Atomic Acknowledge
b3 XRCETH+AtomicETH   44 only   -       -    req  OpCompareSwap        XRC Compare Swap
b4 XRCETH+AtomicETH   44 only   -       -    req  OpFetchAdd           XRC Fetch Add
b6 XRCETH+IETH        20 last   payload recv req  OpSend               XRC Send Last Invalidate
b7 XRCETH+IETH        20 only   payload recv req  OpSend               XRC Send Only Invalidate
bc XRCETH+FETH+RETH   36 only   -       -    req  OpFlush              XRC Flush
bd XRCETH+RETH        32 only   payload -    req  OpAtomicWrite        XRC Atomic Write
e0 -                  12 only   payload -    resp OpSelectiveAck       Selective Acknowledge
`

var operationNames = map[string]Operation{
	"OpSend": OpSend, "OpRDMAWrite": OpRDMAWrite, "OpRDMARead": OpRDMARead, "OpCompareSwap": OpCompareSwap, "OpFetchAdd": OpFetchAdd,
	"OpFlush": OpFlush, "OpAtomicWrite": OpAtomicWrite, "OpReadResponse": OpReadResponse, "OpAcknowledge": OpAcknowledge,
	"OpAtomicAcknowledge": OpAtomicAcknowledge, "OpCongestion": OpCongestion,
	"OpSelectiveAck": OpSelectiveAck,
}

// headersOf names the extended headers of a row, in wire order.
func headersOf(i *OpInfo) string {
	var h []string
	for _, x := range []struct {
		has  bool
		name string
	}{
		{i.HasXRCETH, "XRCETH"}, {i.HasDETH, "DETH"}, {i.HasFETH, "FETH"}, {i.HasRETH, "RETH"}, {i.HasAtomicETH, "AtomicETH"},
		{i.HasAETH, "AETH"}, {i.HasAtomicAck, "AtomicAckETH"}, {i.HasImm, "ImmDt"}, {i.HasIETH, "IETH"},
	} {
		if x.has {
			h = append(h, x.name)
		}
	}
	if h == nil {
		return "-"
	}
	return strings.Join(h, "+")
}

func TestOpcodeTable(t *testing.T) {
	want := map[Opcode][]string{}
	for s := bufio.NewScanner(strings.NewReader(strings.TrimSpace(opcodeRows))); s.Scan(); {
		f := strings.Fields(s.Text())
		var o uint8
		if _, err := fmt.Sscanf(f[0], "%x", &o); err != nil {
			t.Fatal(err)
		}
		want[Opcode(o)] = f[1:]
	}
	for o := range 256 {
		o := Opcode(o)
		i := o.Info()
		if i.Service != Service(o>>5) {
			t.Errorf("%#02x: service %v", uint8(o), i.Service)
		}
		w, valid := want[o]
		if i.Valid != valid {
			t.Errorf("%#02x: Valid = %v", uint8(o), i.Valid)
		}
		if !valid {
			reserved := OpInfo{Name: fmt.Sprintf("Unknown OpCode (0x%02x)", uint8(o)), Service: i.Service, HeaderBytes: BTHBytes}
			if *i != reserved {
				t.Errorf("%#02x: %+v, want a reserved row", uint8(o), *i)
			}
			continue
		}
		place := map[[3]bool]string{{true, false, false}: "first", {false, true, false}: "middle", {false, false, true}: "last", {true, false, true}: "only"}
		word := func(is bool, s string) string {
			if is {
				return s
			}
			return "-"
		}
		got := []string{
			headersOf(i), fmt.Sprint(i.HeaderBytes), place[[3]bool{i.First, i.Middle, i.Last}],
			word(i.HasPayload, "payload"), word(i.ConsumesRecv, "recv"), word(i.Request, "req"),
		}
		if i.Response {
			got[5] = "resp"
		}
		if strings.Join(got, " ") != strings.Join(w[:6], " ") || i.Name != strings.Join(w[7:], " ") || o.String() != i.Name {
			t.Errorf("%#02x: %v %q\nwant  %v", uint8(o), got, i.Name, w)
		}
		if i.Operation != operationNames[w[6]] {
			t.Errorf("%#02x: operation %d, want %s", uint8(o), i.Operation, w[6])
		}
		if i.Request && i.Response || i.Only() != (w[2] == "only") {
			t.Errorf("%#02x: %+v", uint8(o), *i)
		}
		if i.HeaderBytes > MaxHeaderBytes {
			t.Errorf("%#02x: longer than MaxHeaderBytes", uint8(o))
		}
	}
}

func TestServiceString(t *testing.T) {
	for s, want := range map[Service]string{ServiceRC: "RC", ServiceUC: "UC", ServiceUD: "UD", ServiceCNP: "CNP", ServiceXRC: "XRC", 99: "invalid service"} {
		if s.String() != want {
			t.Errorf("%d = %q, want %q", s, s, want)
		}
	}
}

// TestXRCMirrorsRC holds the names of XRC's opcodes to their numbers: each
// operation has the place that RC gives it.
func TestXRCMirrorsRC(t *testing.T) {
	for xrc, rc := range map[Opcode]Opcode{
		XRCSendFirst: RCSendFirst, XRCSendMiddle: RCSendMiddle, XRCSendLast: RCSendLast, XRCSendLastImm: RCSendLastImm, XRCSendOnly: RCSendOnly,
		XRCSendOnlyImm: RCSendOnlyImm, XRCRDMAWriteFirst: RCRDMAWriteFirst, XRCRDMAWriteMiddle: RCRDMAWriteMiddle, XRCRDMAWriteLast: RCRDMAWriteLast,
		XRCRDMAWriteLastImm: RCRDMAWriteLastImm, XRCRDMAWriteOnly: RCRDMAWriteOnly, XRCRDMAWriteOnlyImm: RCRDMAWriteOnlyImm,
		XRCRDMAReadRequest: RCRDMAReadRequest, XRCRDMAReadResponseFirst: RCRDMAReadResponseFirst, XRCRDMAReadResponseMiddle: RCRDMAReadResponseMiddle,
		XRCRDMAReadResponseLast: RCRDMAReadResponseLast, XRCRDMAReadResponseOnly: RCRDMAReadResponseOnly, XRCAcknowledge: RCAcknowledge,
		XRCAtomicAcknowledge: RCAtomicAcknowledge, XRCCompareSwap: RCCompareSwap, XRCFetchAdd: RCFetchAdd,
		XRCSendLastInvalidate: RCSendLastInvalidate, XRCSendOnlyInvalidate: RCSendOnlyInvalidate, XRCFlush: RCFlush, XRCAtomicWrite: RCAtomicWrite,
	} {
		if xrc != rc+XRCSendFirst {
			t.Errorf("%v is %#02x, %v is %#02x", xrc, uint8(xrc), rc, uint8(rc))
		}
	}
}
