// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"slices"
	"strings"
)

// figure is one that perftest prints. It is none where perftest does not trust its
// measurement of the processor's clock: "Correlation coefficient r^2 … < 0.9",
// on a busy machine.
const figure = `(?:[\d.]+|-?inf|-?nan)`

// perf is an exchange of perftest's program for an operation and a measure. Few messages show
// whether it works; the figures are not looked at.
func perf(verb, measure, label string) exchange {
	program := "ib_" + verb + "_" + measure
	options := program + " -d $DEV -p $PORT -F " + label
	switch {
	case strings.Contains(label, "-D "):
	case strings.Contains(label, "-a") && measure == "lat":
		options += " -n 10"
	case strings.Contains(label, "-a"):
		options += " -n 50"
	case measure == "lat":
		options += " -n 96"
	default:
		options += " -n 480"
	}
	x := exchange{program: program, label: label, ready: "tcp", server: options, client: options + " $ADDR", says: []string{` (Connection|Transport) type`}}
	if strings.Contains(label, "XRC") {
		x.leaves = []string{"/tmp/xrc_domain_server", "/tmp/xrc_domain_client"}
	}
	if strings.Contains(label, "-R") {
		x.ready = "Waiting for client" // by the connection manager: no TCP port
		// Its second connection may come before the server has bound the port again, which closed
		// it after the first; perftest then dies of using memory that it has freed.
		x.early = "RDMA_CM_EVENT_REJECTED|Unexpected CM event bl blka 8" // 8 is the same event
	}
	if measure == "bw" {
		x.says = append(x.says, `#bytes +#iterations +BW`, `(?m)^ \d+ +\d+ +`+figure+` +`+figure)
	} else {
		x.says = append(x.says, `#bytes +#iterations +t_`, `(?m)^ \d+ +\d+ +`+figure)
	}
	if measure == "lat" && strings.Contains(label, "-a") {
		x.only = "loopback" // all sizes go over Ethernet in -a of bandwidth
		x.limit = 3 * limit // perftest measures the processor's clock for each of 23 sizes: half a second, or some where others are busy
	}
	if strings.Contains(label, "-a") && !strings.Contains(label, "UD") && verb != "atomic" {
		x.says = append(x.says, `(?m)^ 2 +\d+`, `(?m)^ 8388608 +\d+`)
	}
	return x
}

var perftest = func() (all []exchange) {
	add := func(verb, measure string, labels ...string) {
		for _, label := range labels {
			all = append(all, perf(verb, measure, label))
		}
	}
	for _, verb := range []string{"write", "read", "send"} {
		add(verb, "bw", "", "-R", "-a", "-q 8", "-b", "-D 1", "-R -b")
		add(verb, "lat", "", "-R", "-a", "-D 1")
	}
	add("write", "bw", "-I 64 -s 64", "-c UC", "-l 8 -s 512", "-Q 16", "--use_old_post_send")
	add("write", "lat", "-I 64 -s 64", "-c UC")
	add("send", "bw", "-e", "-I 64 -s 64", "-c UC", "-c UD -s 1000", "-c XRC", "-r 1024 --use-srq", "-c UD -R -s 1000")
	add("send", "lat", "-I 64 -s 64", "-e", "-c UC", "-c UD -s 1000", "-c UD -R -s 1000")
	add("read", "lat", "-e")
	add("read", "bw", "-e", "-o 16", "--odp")
	add("write", "bw", "--odp")
	add("send", "lat", "--odp")
	add("atomic", "bw", "", "-R", "-q 8", "-e", "-b", "-D 1", "-A CMP_AND_SWAP")
	add("atomic", "lat", "", "-R", "-e", "-D 1", "-A CMP_AND_SWAP")
	return slices.Clip(all)
}()
