// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"

	"verbena/ib"
)

// addressBytes is the length of an address on the TCP connection, the zero
// byte at its end included.
const addressBytes = len("0000:000000:000000:00000000000000000000000000000000\x00")

// Address has the data that a peer needs to reach a queue pair.
type Address struct {
	LID uint16 // 0 on Ethernet
	QPN ib.QPN
	PSN ib.PSN // the first that the queue pair will send
	GID ib.GID
}

// Append appends the address as it travels.
func (a Address) Append(b []byte) []byte {
	b = fmt.Appendf(b, "%04x:%06x:%06x:%x", a.LID, uint32(a.QPN), uint32(a.PSN), a.GID[:])
	return append(b, 0)
}

// ParseAddress parses an address that Append or an rdma-core program wrote.
func ParseAddress(b []byte) (a Address, ok bool) {
	if len(b) != addressBytes || b[addressBytes-1] != 0 {
		return Address{}, false
	}
	fields := bytes.Split(b[:addressBytes-1], []byte(":"))
	if len(fields) != 4 || len(fields[3]) != 2*len(a.GID) {
		return Address{}, false
	}
	lid, err1 := strconv.ParseUint(string(fields[0]), 16, 16)
	qpn, err2 := strconv.ParseUint(string(fields[1]), 16, 24)
	psn, err3 := strconv.ParseUint(string(fields[2]), 16, 24)
	_, err4 := hex.Decode(a.GID[:], fields[3])
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return Address{}, false
	}
	a.LID, a.QPN, a.PSN = uint16(lid), ib.QPN(qpn), ib.NewPSN(uint32(psn))
	return a, true
}

// String is the address as the programs print it.
func (a Address) String() string {
	return fmt.Sprintf("LID 0x%04x, QPN 0x%06x, PSN 0x%06x, GID %s", a.LID, uint32(a.QPN),
		uint32(a.PSN), netip.AddrFrom16(a.GID))
}
