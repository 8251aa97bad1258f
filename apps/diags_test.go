// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

// ibstatus is a script that reads sysfs, so it runs over devices of every kind.
var ibstatus = exchange{
	program: "ibstatus", client: "/usr/sbin/ibstatus $DEV",
	says: []string{
		`Infiniband device '$DEV' port 1 status:`, `default gid:\s+([0-9a-f]{4}:){7}[0-9a-f]{4}\n`, `state:\s+4: ACTIVE`,
		`phys state:\s+5: LinkUp`, `rate:\s+2.5 Gb/sec \(1X SDR\)`, `link_layer:\s+Ethernet`,
	},
}

// ibstat reads sysfs through libibumad.
var ibstat = exchange{
	program: "ibstat", client: "/usr/sbin/ibstat $DEV",
	says: []string{
		`CA '$DEV'\n`, `Number of ports: 1\n`, `Node GUID: 0x[0-9a-f]{16}\n`, `State: Active\n`, `Physical state: LinkUp\n`,
		`Base lid: 0\n`, `Link layer: Ethernet\n`,
	},
}

var diags = []exchange{
	ibstatus, ibstat,
	{
		program: "perfquery", label: "before and after ibv_rc_pingpong", ready: "tcp",
		server: "ibv_rc_pingpong -d $DEV -p $PORT -g 0 -n 200", client: "sh " + file("perfquery.sh") + " $DEV $PORT $ADDR",
		says: []string{`PortRcvErrors:\.+0\n`, `PortXmitData:\.+[1-9]`, `its packets are counted`},
	},
	{program: "perfquery", label: "-R", client: "/usr/sbin/perfquery -R -C $DEV -P 1", fails: 255, says: []string{`perf reset`},
		cannot: "counters of a port cannot be reset"},
	{program: "ibstat", label: "-l", client: "/usr/sbin/ibstat -l", says: []string{`(?m)^$DEV$`}},
}
