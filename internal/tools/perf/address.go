// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"fmt"

	"verbena/ib"
	"verbena/internal/tools/cli"
	"verbena/rdmacm"
	"verbena/verbs"
)

// localAddress returns the address at which the device's queue pairs are
// reached, as a GID. Devices of iWARP have another GID, to which nothing is sent:
// there it is an address of the interface that peers on other machines reach, if
// there is one.
func localAddress(dev *verbs.Context, o *options) (ib.GIDEntry, error) {
	info := dev.Info()
	if !info.Kind.IsIWARP() {
		return cli.LocalGID(dev, o.ibPort, o.gidIndex)
	}
	addrs, err := info.Addrs()
	if err != nil {
		return ib.GIDEntry{}, err
	}
	var table []ib.GIDEntry
	for i, a := range addrs {
		table = append(table, ib.GIDEntry{GID: ib.GIDFromAddr(a.WithZone("")), Index: i})
	}
	return cli.ChooseGID(table, o.gidIndex,
		fmt.Sprintf("%s, whose indices count its addresses,", info.Name))
}

// bounded reports whether a test may send no more messages than the peer has posted receives: over
// TCP a SEND is complete when it is written, and of iWARP's SENDs one
// that finds no receive ends the connection.
func (e *endpoint) bounded() bool {
	return e.dev.Info().Kind == rdmacm.IWARP && e.o.test.op == "send" && e.o.test.bandwidth()
}

// iterations returns how many messages of a size are sent, 0 if -D says how long.
func (e *endpoint) iterations(size int) int64 {
	n := e.o.iterations(size)
	if e.bounded() && e.o.iters == 0 {
		n = min(n, int64(e.receiveDepth()))
	}
	return n
}

// outruns refuses more messages than that.
func (e *endpoint) outruns(iters int64) error {
	most := int64(e.receiveDepth())
	if !e.bounded() || iters > 0 && iters <= most {
		return nil
	}
	return fmt.Errorf("over TCP a SEND that finds no receive ends the connection: measure at "+
		"most %d, with -n %d, or more with a larger -t", most, most)
}
