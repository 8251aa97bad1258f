// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"slices"
	"strings"
)

// iWARP's own operations, over devices of iWARP over TCP and over UDP: connections of the
// connection manager's, and reliable ones. The other cases are refused, because no iWARP device has
// them.
var iwarpSuites = []suite{
	{"ibverbs-utils", []exchange{
		{program: "ibv_devices", client: "ibv_devices", says: []string{`\s$DEV\s+\t?[0-9a-f]{16}`}},
		{program: "ibv_devinfo", label: "-v", client: "ibv_devinfo -v -d $DEV", says: []string{`transport:\t+iWARP \(1\)`, `state:\t+PORT_ACTIVE \(4\)`, `link_layer:\t+Ethernet`}},
		picked(ibverbsUtils, "ibv_asyncwatch", "")[0],
		refusedByIWARP("rc", "Failed to modify QP to RTR|read/write"),
		refusedByIWARP("uc", "Couldn't create QP"),
		refusedByIWARP("ud", "Couldn't create QP"),
		{program: "ibv_xsrq_pingpong", label: "on iWARP", client: "ibv_xsrq_pingpong -d $DEV -p $PORT -g 0", fails: 1, says: []string{"Couldn't Open the XRC Domain"},
			cannot: "XRC is InfiniBand's and RoCE's"},
	}},
	{"infiniband-diags", []exchange{ibstatus}},
	{"perftest", perftestIWARP()},
	{"rdmacm-utils", slices.Concat(
		picked(rdmacmUtils, "rping", "-V -C 1000", "-V -C 50 -d", "-P"),
		picked(rdmacmUtils, "ucmatose", "", "-c 8 -C 50 -S 3000", "-m"),
		picked(rdmacmUtils, "cmtime", "-c 50"),
		picked(rdmacmUtils, "rdma_server, rdma_client", ""),
		picked(rdmacmUtils, "rdma_xserver, rdma_xclient", ""),
		picked(rdmacmUtils, "rstream", "-S 65536 -C 100 -I 2 -T v -T a", "-S 1000000 -C 10 -I 2 -T v -T b"),
		picked(rdmacmUtils, "riostream", "-S 65536 -C 100 -I 2 -T v -T a"),
		picked(rdmacmUtils, "rcopy", ""),
	)},
	{"librdmacm1", onlyIWARP(rsocketPreload)},
	{"qperf", picked(qperf, "qperf", "rc_lat", "rc_bw", "rc_rdma_write_lat", "rc_rdma_read_bw", "ver_rc_compare_swap", "ver_rc_fetch_add")},
	{"fio", picked(fio, "fio", "verb=write", "verb=read", "verb=send verify=crc32c", "4 jobs, verb=write")},
	{"libfabric-bin", []exchange{
		{program: "fi_info", label: "verbs", client: "fi_info -p verbs", says: []string{`fabric: Ethernet-iWARP`, `domain: $DEV`, `type: FI_EP_MSG`}},
		elsewhere(fabric("verbs", "msg", "65536")), elsewhere(fabric("verbs;ofi_rxm", "rdm", "65536")),
	}},
	{"openmpi-bin", []exchange{elsewhere(picked(openMPI, "Open MPI", "libfabric verbs;ofi_rxm")[0])}},
}

// elsewhere is an exchange without its device: that of Ethernet otherwise.
func elsewhere(x exchange) exchange {
	x.only = ""
	return x
}

// onlyIWARP are exchanges whose server ends without a word, which TCP tells its
// peer of and TRP does not.
func onlyIWARP(from []exchange) []exchange {
	all := slices.Clone(from)
	for i := range all {
		all[i].only = "iWARP"
	}
	return all
}

// picked are exchanges of a program by their labels. A label that there is not is
// a mistake here.
func picked(from []exchange, program string, labels ...string) (all []exchange) {
	for _, label := range labels {
		i := slices.IndexFunc(from, func(x exchange) bool {
			return x.program == program && (strings.TrimSpace(x.label) == label || x.label == "" && label == "")
		})
		if i < 0 {
			panic("no exchange of " + program + " is called " + label)
		}
		all = append(all, from[i])
	}
	return all
}

// refusedByIWARP is a pingpong that connects queue pairs by itself.
func refusedByIWARP(kind, says string) exchange {
	program := "ibv_" + kind + "_pingpong"
	x := exchange{
		program: program, label: "on iWARP", ready: "tcp", either: true, fails: 1, says: []string{says},
		server: program + " -d $DEV -p $PORT -g 0", client: program + " -d $DEV -p $PORT -g 0 $ADDR",
		cannot: "iWARP has reliable connections only, which the connection manager sets up",
	}
	if kind != "rc" { // alone it says the same
		x.server, x.client, x.ready = "", x.server, ""
	}
	return x
}

func perftestIWARP() (all []exchange) {
	for _, verb := range []string{"write", "read", "send"} {
		for _, measure := range []string{"bw", "lat"} {
			all = append(all, perf(verb, measure, "-R"))
		}
		all = append(all, perf(verb, "bw", "-R -b"))
	}
	return append(all, perf("atomic", "bw", "-R"), perf("atomic", "lat", "-R"), perf("write", "bw", "-R -q 8"), perf("send", "bw", "-R -e"), perf("send", "lat", "-R -e"))
}
