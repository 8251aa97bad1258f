// SPDX-License-Identifier: BSD-2-Clause

package ib_test

import (
	"errors"
	"fmt"
	"net/netip"

	"verbena/ib"
)

// A failed completion as an error, and back.
func ExampleWC_Err() {
	wc := ib.WC{WRID: 7, QPN: 0x12, Status: ib.WCRemAccessErr, VendorErr: ib.VendorNAKAccess}
	err := wc.Err()
	fmt.Println(err)
	var failed *ib.WCError
	if errors.As(err, &failed) {
		fmt.Println(failed.WRID, failed.Status == ib.WCRemAccessErr)
	}
	fmt.Println((&ib.WC{Status: ib.WCSuccess}).Err())
	// Output:
	// work request 7 of QP 0x000012: remote access error (NAK remote access error)
	// 7 true
	// <nil>
}

// A GID of RoCEv2 is an IP address.
func ExampleGID() {
	gid := ib.GIDFromAddr(netip.MustParseAddr("192.0.2.1"))
	fmt.Println(gid)
	fmt.Println(gid.Addr(), gid.IsMulticast())
	// Output:
	// 0000:0000:0000:0000:0000:ffff:c000:0201
	// 192.0.2.1 false
}

// Packet sequence numbers have 24 bits and wrap.
func ExamplePSN() {
	last := ib.NewPSN(0xffffff)
	next := last.Add(1)
	fmt.Println(next == 0, next.After(last), next.Diff(last))
	// Output: true true 1
}

// Rights are a set.
func ExampleAccess() {
	a := ib.AccessLocalWrite | ib.AccessRemoteWrite
	fmt.Println(a.Has(ib.AccessRemoteWrite), a.Has(ib.AccessRemoteRead), a.Valid())
	fmt.Println(ib.AccessRemoteWrite.Valid()) // a peer may write only where the owner may
	// Output:
	// true false true
	// false
}

// The path MTU that fits into a frame of Ethernet.
func ExampleMTUFor() {
	mtu := ib.MTUFor(1500 - 20 - 8 - 12 - 16 - 4) // IP, UDP, BTH, RETH, ICRC
	fmt.Println(mtu.Bytes())
	// Output: 1024
}
