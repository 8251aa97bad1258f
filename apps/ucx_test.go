// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"slices"
	"strings"
)

// transports maps each of them to the transports that UCX must be allowed: UCX connects RC
// endpoints over UD.
var transports = map[string]string{"rc_verbs": "self,rc_verbs,ud_verbs:aux", "ud_verbs": "self,ud_verbs"}

// ucp is an exchange of ucx_perftest in UCX's upper layer.
func ucp(test, transport, label string) exchange {
	options := "ucx_perftest -t " + test + " -p $PORT -n 500 -w 50 -f " + label
	return exchange{
		program: "ucx_perftest", label: strings.TrimSpace(transport + " " + test + " " + label), ready: "tcp",
		env:    "UCX_NET_DEVICES=$DEV:1 UCX_LOG_LEVEL=warn UCX_TLS=" + transports[transport],
		server: options, client: options + " $ADDR",
		says: []string{`(?m)^ *500 `},
	}
}

// uct is one in the lower layer, which is one transport and nothing else.
func uct(test, transport, label string) exchange {
	options := "ucx_perftest -t " + test + " -p $PORT -n 500 -w 50 -f -d $DEV:1 -x " + transport + " " + label
	return exchange{
		program: "ucx_perftest", label: strings.TrimSpace("uct " + transport + " " + test + " " + label), ready: "tcp", env: "UCX_LOG_LEVEL=warn",
		server: options, client: options + " $ADDR",
		says: []string{`(?m)^ *500 `},
	}
}

var ucx = func() []exchange {
	all := []exchange{{program: "ucx_info", label: "-d", client: "ucx_info -d", env: "UCX_NET_DEVICES=$DEV:1",
		says: []string{`Transport: rc_verbs`, `Transport: ud_verbs`, `Device: $DEV:1`}}}
	for _, transport := range []string{"rc_verbs", "ud_verbs"} {
		for _, test := range []string{"tag_lat", "tag_bw", "ucp_am_lat", "ucp_am_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get", "ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap", "stream_bw"} {
			all = append(all, ucp(test, transport, ""))
		}
		all = append(all, ucp("tag_bw", transport, "-s 1000000"))
	}
	all = append(all, ucp("tag_lat", "rc_verbs", "-E sleep"), ucp("ucp_put_bw", "rc_verbs", "-s 1000000"), ucp("ucp_get", "rc_verbs", "-s 1000000"))
	for _, test := range []string{"am_lat", "am_bw", "put_lat", "put_bw", "fadd", "cswap"} {
		all = append(all, uct(test, "rc_verbs", ""))
	}
	return slices.Concat(all, []exchange{
		uct("get", "rc_verbs", "-D bcopy"), uct("get", "rc_verbs", "-D zcopy -s 65536"), uct("put_bw", "rc_verbs", "-D zcopy -s 65536"),
		uct("am_lat", "ud_verbs", ""), uct("am_bw", "ud_verbs", "-D zcopy -s 1000"),
	})
}()
