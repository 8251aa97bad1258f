// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// both is an exchange whose two sides take the same options.
func both(program, label, server, client string, says ...string) exchange {
	return exchange{
		program: program, label: label, says: says,
		server: program + " " + server + " " + label, client: program + " " + client + " " + label,
	}
}

// listening is both where the server waits for events once it listens. Clients of
// several connections cannot be started again: the server counts those that came.
func listening(program, label, server, client string, says ...string) exchange {
	x := both(program, label, server, client, says...)
	x.ready = "event"
	return x
}

var rdmacmUtils = slices.Concat([]exchange{
	both("rping", "-V -C 1000", "-s -a $ADDR -p $PORT", "-c -a $ADDR -p $PORT"),
	both("rping", "-v -V -C 10 -S 4000", "-s -a $ADDR -p $PORT", "-c -a $ADDR -p $PORT", `ping data: rdma-ping-9: `),
	both("rping", "-q -V -C 100", "-s -a $ADDR -p $PORT", "-c -a $ADDR -p $PORT"),
	both("rping", "-V -C 50 -d", "-s -a $SIX -p $PORT", "-c -a $SIX -p $PORT", `rdma_connect successful`),
	{program: "rping", label: "-P", server: "rping -s -P -a $ADDR -p $PORT", stays: true, either: true, client: "rping -c -a $ADDR -p $PORT -V -C 100"},

	listening("ucmatose", "", "-b $ADDR -p $PORT", "-s $ADDR -p $PORT", `test complete`, `return status 0`),
	listening("ucmatose", "-c 8 -C 50 -S 3000", "-b $ADDR -p $PORT", "-s $ADDR -p $PORT", `test complete`, `return status 0`),
	listening("ucmatose", "-m", "-b $ADDR -p $PORT", "-s $ADDR -p $PORT", `return status 0`),
	listening("ucmatose", "-P ib", "-b $ADDR -p $PORT", "-s $ADDR -p $PORT", `return status 0`),
	listening("udaddy", "", "-b $ADDR", "-s $ADDR", `test complete`, `return status 0`),
	listening("udaddy", "-c 4 -C 50 -S 1000", "-b $ADDR", "-s $ADDR", `return status 0`),
	{program: "cmtime", label: "-c 50", stays: true, either: true, server: "cmtime -b $ADDR -p $PORT -c 50", client: "cmtime -s $ADDR -p $PORT -c 50",
		says: []string{`connect +: `, `disconnect +: `}},
	{program: "mckey", ready: "joined dgid", server: "mckey -m 239.1.2.3 -b $ADDR", client: "mckey -m 239.1.2.3 -b $ADDR -s", says: []string{`return status 0`}, answers: []string{`return status 0`}},
	{program: "rdma_server, rdma_client", ready: "event", server: "rdma_server -s $ADDR -p $PORT", client: "rdma_client -s $ADDR -p $PORT",
		says: []string{`rdma_client: end 0`}, answers: []string{`rdma_server: end 0`}},
	{program: "rdma_xserver, rdma_xclient", ready: "event", server: "rdma_xserver -p $PORT", client: "rdma_xclient -s $ADDR -p $PORT", says: []string{`: end 0`}, answers: []string{`: end 0`}},
	{program: "rdma_xserver, rdma_xclient", label: "-c x", ready: "event", server: "rdma_xserver -p $PORT -c x", client: "rdma_xclient -s $ADDR -p $PORT -c x",
		says: []string{`: end 0`}, answers: []string{`: end 0`}},
},
	streams("rstream", "", "-S 4096 -C 1000 -I 10 -T v", "-S 65536 -C 100 -I 2 -T v -T a", "-S 64 -C 1000 -I 2 -T v -T n", "-S 1000000 -C 10 -I 2 -T v -T b", "-S 4096 -C 100 -I 2 -T r"),
	// Without options riostream sends 100,000 messages of 64 bytes in turns, and both
	// ends spin on memory: most of a minute on two cores. Fewer show the same.
	streams("riostream", "-S 64 -C 1 -I 2000", "-S 1000000 -C 1 -I 10", "-S 4096 -C 1000 -I 10 -T v", "-S 65536 -C 100 -I 2 -T v -T a", "-S 64 -C 1000 -I 2 -T v -T n", "-S 1000000 -C 10 -I 2 -T v -T b"),
	[]exchange{
		{program: "rcopy", ready: "waiting for connection", stays: true, either: true,
			server: "rcopy -p $PORT", client: "rcopy " + verbena + " $ADDR:$DIR/copy -p $PORT", says: []string{`\d+ bytes in [\d.]+ seconds`}, check: sameFile},
		{program: "udpong", stays: true, either: true, server: "udpong -b $ADDR -p $PORT", client: "udpong -s $ADDR -p $PORT -C 200 -S 1000", says: []string{`usec/xfer`}},
		{program: "udpong", label: "-T e", stays: true, either: true, server: "udpong -b $ADDR -p $PORT -T e", client: "udpong -s $ADDR -p $PORT -C 200 -S 500 -T e", says: []string{`usec/xfer`}},
	},
)

func streams(program string, labels ...string) (all []exchange) {
	for _, label := range labels {
		x := both(program, label, "-b $ADDR -p $PORT", "-s $ADDR -p $PORT", `usec/xfer`)
		if program == "riostream" { // it prints its maps after it listens: early clients get none
			x.early = "riomap: Cannot allocate memory"
		}
		all = append(all, x)
	}
	return all
}

// sameFile compares the copy that rcopy made.
func sameFile(t *testing.T, dir, _ string) {
	source, err := os.ReadFile(verbena)
	if err != nil {
		t.Fatal(err)
	}
	if copied, err := os.ReadFile(filepath.Join(dir, "copy")); err != nil || !bytes.Equal(source, copied) {
		t.Errorf("the copy has %d bytes of %d, or others (%v)", len(copied), len(source), err)
	}
}
