// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

// fabric is an exchange of fi_pingpong over a provider. libfabric's verbs
// provider passes over the loopback interface, so it runs over Ethernet only.
//
// libfabric 1.17 writes a jump over the first bytes of munmap to watch memory. A thread that is in
// munmap then returns into the middle of that jump: some of 1,300 runs died so. A new thread calls
// munmap when it first frees memory, and the engine has threads. So nothing watches memory here.
func fabric(provider, endpoint, size string) exchange {
	options := "env FI_MR_CACHE_MONITOR=disabled fi_pingpong -p '" + provider + "' -e " + endpoint +
		" -c -I 100 -S " + size
	return exchange{
		program: "fi_pingpong", label: provider + " " + endpoint + " -S " + size, ready: "tcp", only: "Ethernet",
		server: options + " -B $PORT", client: options + " -P $PORT $ADDR",
		says: []string{`\d+ +=100 +`},
	}
}

var libfabric = []exchange{
	{program: "fi_info", label: "verbs", client: "fi_info -p verbs", only: "Ethernet", says: []string{`provider: verbs`, `domain: $DEV`, `type: FI_EP_MSG`}},
	{program: "fi_info", label: "verbs dgram", client: "fi_info -p verbs -t FI_EP_DGRAM", only: "Ethernet", says: []string{`domain: $DEV-dgram`}},
	{program: "fi_info", label: "verbs;ofi_rxm", client: "fi_info -p 'verbs;ofi_rxm'", only: "Ethernet", says: []string{`provider: verbs;ofi_rxm`, `domain: $DEV`}},
	{program: "fi_info", label: "verbs, loopback", client: "fi_info -p verbs -d $DEV", only: "loopback", fails: 61, says: []string{`fi_getinfo: -61`},
		cannot: "libfabric's verbs provider skips loopback interfaces"},
	fabric("verbs", "msg", "64"), fabric("verbs", "msg", "65536"), fabric("verbs", "msg", "1048576"),
	fabric("verbs", "dgram", "64"),
	fabric("verbs;ofi_rxm", "rdm", "64"), fabric("verbs;ofi_rxm", "rdm", "65536"), fabric("verbs;ofi_rxm", "rdm", "1048576"),
	fabric("verbs;ofi_rxm", "rdm -m tagged", "4096"),
}
