// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import "slices"

// pingpong is an exchange of one of ibverbs-utils' pingpongs.
func pingpong(kind, label string, says ...string) exchange {
	program := "ibv_" + kind + "_pingpong"
	options := program + " -d $DEV -p $PORT -g 0 -n 200 " + label
	return exchange{
		program: program, label: label, ready: "tcp",
		server: options, client: options + " $ADDR",
		says: append([]string{`local address: +LID 0x0000, QPN`, `remote address: +LID 0x0000, QPN`}, says...),
	}
}

// bytesIn matches the last line that a pingpong reports.
const bytesIn = `\d+ bytes in [\d.]+ seconds = [\d.]+ Mbit/sec`

var ibverbsUtils = slices.Concat([]exchange{
	{program: "ibv_devices", client: "ibv_devices", says: []string{`device +\t *node GUID`, `\s$DEV\s+\t?[0-9a-f]{16}`}},
	{program: "ibv_devinfo", client: "ibv_devinfo -d $DEV", says: []string{`hca_id:\t$DEV`, `state:\t+PORT_ACTIVE \(4\)`, `link_layer:\t+Ethernet`}},
	{program: "ibv_devinfo", label: "-v", client: "ibv_devinfo -v -d $DEV", says: []string{
		`max_qp:\t+\d{3}`, `atomic_cap:\t+ATOMIC_HCA`, `GID\[ +0\]:\t+\S*$ADDR, RoCE v2`, `GID\[ +1\]:\t+$SIX\S*, RoCE v2|GID\[ +1\]`,
	}},
	{program: "ibv_devinfo", label: "-l", client: "ibv_devinfo -l", says: []string{`HCAs? found:`, `\t$DEV`}},
	// It waits for events for ever: only its first lines can be seen.
	{program: "ibv_asyncwatch", server: "ibv_asyncwatch -d $DEV", ready: "async event FD", stays: true, either: true, client: "true",
		answers: []string{`$DEV: async event FD \d+`}},
},
	pingpongs("rc", []string{"", "-e", "-c", "-N", "-s 100000", "-e -c -N", "-o -c", "-o -e", "-o -P -c", "-O -c", "-O -P", "-j", "-j -e", "-t", "-t -c"}),
	pingpongs("uc", []string{"", "-e", "-c"}),
	pingpongs("ud", []string{"-s 1000", "-s 1000 -e", "-s 1000 -c"}),
	pingpongs("srq", []string{"", "-e", "-c", "-q 4", "-o -c"}),
	[]exchange{
		{program: "ibv_xsrq_pingpong", ready: "tcp", server: "ibv_xsrq_pingpong -d $DEV -p $PORT -g 0 -m 1024", client: "ibv_xsrq_pingpong -d $DEV -p $PORT -g 0 -m 1024 $ADDR"},
		{program: "ibv_xsrq_pingpong", label: "-o", ready: "tcp", server: "ibv_xsrq_pingpong -d $DEV -p $PORT -g 0 -m 1024 -o", client: "ibv_xsrq_pingpong -d $DEV -p $PORT -g 0 -m 1024 -o $ADDR"},
		{program: "ibv_xsrq_pingpong", label: "-e", ready: "tcp", server: "ibv_xsrq_pingpong -d $DEV -p $PORT -g 0 -m 1024 -e", client: "ibv_xsrq_pingpong -d $DEV -p $PORT -g 0 -m 1024 -e $ADDR"},
	},
)

func pingpongs(kind string, labels []string) (all []exchange) {
	for _, label := range labels {
		all = append(all, pingpong(kind, label, bytesIn))
	}
	return all
}
