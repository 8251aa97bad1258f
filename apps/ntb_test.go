// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"slices"
	"strings"
)

// ntbSuites runs the operations of an NTB link: reliable connections, by the connection manager or
// by an exchange of the program's own, for any number of processes.
var ntbSuites = []suite{
	{"ibverbs-utils", slices.Concat([]exchange{
		{program: "ibv_devices", client: "ibv_devices", says: []string{`\s$DEV\s+\t?[0-9a-f]{16}`}},
		{program: "ibv_devinfo", label: "-v", client: "ibv_devinfo -v -d $DEV", says: []string{`state:\t+PORT_ACTIVE \(4\)`, `atomic_cap:\t+ATOMIC_HCA`, `GID\[ +1\]:\t+\S*:ffff:`}},
		picked(ibverbsUtils, "ibv_asyncwatch", "")[0],
	},
		pingpongs("rc", []string{"", "-e", "-c", "-N", "-s 100000"}),
		pingpongs("srq", []string{"", "-e", "-c"}),
		[]exchange{refusedByNTB("uc"), refusedByNTB("ud")},
	)},
	{"infiniband-diags", []exchange{ibstatus, ibstat}},
	{"perftest", perftestNTB()},
	{"rdmacm-utils", slices.Concat(
		picked(rdmacmUtils, "rping", "-V -C 1000", "-v -V -C 10 -S 4000", "-q -V -C 100", "-P"),
		picked(rdmacmUtils, "ucmatose", "", "-c 8 -C 50 -S 3000", "-m", "-P ib"),
		picked(rdmacmUtils, "cmtime", "-c 50"),
		picked(rdmacmUtils, "rdma_server, rdma_client", ""),
		picked(rdmacmUtils, "rdma_xserver, rdma_xclient", ""),
		picked(rdmacmUtils, "rstream", "-S 4096 -C 1000 -I 10 -T v", "-S 65536 -C 100 -I 2 -T v -T a", "-S 1000000 -C 10 -I 2 -T v -T b"),
		picked(rdmacmUtils, "riostream", "-S 1000000 -C 1 -I 10", "-S 65536 -C 100 -I 2 -T v -T a"),
		picked(rdmacmUtils, "rcopy", ""),
	)},
	{"librdmacm1", rsocketPreload},
	{"qperf", picked(qperf, "qperf", "rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_write_lat", "rc_rdma_write_bw", "rc_rdma_read_bw", "rc_rdma_read_lat", "ver_rc_compare_swap", "ver_rc_fetch_add")},
	{"fio", picked(fio, "fio", "verb=write", "verb=read", "verb=send", "4 jobs, verb=write", "4 jobs, verb=send", "verb=send verify=crc32c", "verb=write thread=1")},
	{"libfabric-bin", []exchange{
		besideLoopback(exchange{program: "fi_info", label: "verbs", client: "fi_info -p verbs", says: []string{`domain: $DEV`, `type: FI_EP_MSG`}}),
		besideLoopback(fabric("verbs", "msg", "64")), besideLoopback(fabric("verbs", "msg", "1048576")), besideLoopback(fabric("verbs;ofi_rxm", "rdm", "65536")),
	}},
	{"ucx-utils", slices.Concat(
		picked(ucx, "ucx_perftest", "uct rc_verbs am_lat", "uct rc_verbs am_bw", "uct rc_verbs put_lat", "uct rc_verbs put_bw", "uct rc_verbs get -D bcopy", "uct rc_verbs get -D zcopy -s 65536", "uct rc_verbs put_bw -D zcopy -s 65536", "uct rc_verbs fadd"),
		[]exchange{wiredUpByUD(ucp("tag_lat", "rc_verbs", ""))},
	)},
	{"openmpi-bin", []exchange{
		besideLoopback(mpi("libfabric verbs;ofi_rxm", overRxM, "")),
	}},
}

// overTCP lists the programs that run over a link whose two ends a TCP connection joins, one
// process at each end.
var overTCP = []suite{
	{"ibverbs-utils", byTCP(pingpongs("rc", []string{"-e"})...)},
	{"perftest", byTCP(perf("write", "bw", ""), perf("read", "bw", "-R"), perf("send", "lat", ""), perf("atomic", "bw", ""))},
	{"rdmacm-utils", byTCP(slices.Concat(
		picked(rdmacmUtils, "rping", "-V -C 1000"),
		picked(rdmacmUtils, "rstream", "-S 65536 -C 100 -I 2 -T v -T a"),
	)...)},
}

func byTCP(list ...exchange) []exchange {
	for i := range list {
		list[i].label = strings.TrimSpace(list[i].label + " by TCP")
	}
	return list
}

// wiredUpByUD is the exchange of a program that UCX's upper layer refuses on NTB: it needs
// datagrams.
func wiredUpByUD(x exchange) exchange {
	x.server, x.ready = "", ""
	x.client, x.label = "ucx_perftest -t tag_lat -l -n 500 -w 50 -f", "rc_verbs tag_lat on NTB"
	x.env, x.fails, x.says = "UCX_NET_DEVICES=$DEV:1 UCX_LOG_LEVEL=error UCX_TLS=rc_verbs", 255, []string{`no auxiliary transport`}
	x.cannot = "UCX's upper layer wires connections up by datagrams, which NTB lacks"
	return x
}

// besideLoopback is an exchange of a program that binds itself to 127.0.0.1 first,
// to see whether there is anything: fi_pingpong.
func besideLoopback(x exchange) exchange {
	x = elsewhere(x)
	x.env += " VERBENA_DEVICES=ntb,roce_lo"
	return x
}

// refusedByNTB is a pingpong of another service, which says so before it needs a
// peer.
func refusedByNTB(kind string) exchange {
	return exchange{
		program: "ibv_" + kind + "_pingpong", label: "on NTB", client: "ibv_" + kind + "_pingpong -d $DEV -p $PORT -g 0", fails: 1, says: []string{"Couldn't create QP"},
		cannot: "NTB has reliable connections only",
	}
}

func perftestNTB() (all []exchange) {
	for _, verb := range []string{"write", "read", "send", "atomic"} {
		for _, measure := range []string{"bw", "lat"} {
			all = append(all, perf(verb, measure, ""), perf(verb, measure, "-R"))
		}
		all = append(all, perf(verb, "bw", "-b"), perf(verb, "bw", "-q 8"))
	}
	for _, verb := range []string{"write", "read", "send"} {
		all = append(all, perf(verb, "bw", "-a"))
	}
	for _, verb := range []string{"write", "send"} {
		all = append(all, twice(perf(verb, "bw", "")))
	}
	return append(all, perf("write", "lat", "-I 64 -s 64"), perf("send", "bw", "-e"), perf("send", "lat", "-e"), perf("send", "bw", "-r 1024 --use-srq"))
}

// twice is an exchange of perftest's by two servers and two clients at the same
// time.
func twice(x exchange) exchange {
	both := func(line string) string {
		return "sh -c '" + strings.Replace(line, "$PORT", "$PORT2", 1) + " & one=$!; " + line + " && wait $one'"
	}
	x.server, x.client, x.label = both(x.server), both(x.client), "two at once"
	x.ready, x.times = "Waiting for client", 2
	return x
}
