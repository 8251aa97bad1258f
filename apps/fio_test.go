// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import "strings"

// job is a run of fio's rdma engine, which sends no more than 8 blocks at once;
// ports are those of the jobs of one process. Its side that listens is the one
// that "reads", whatever the verb.
func job(label, verb, more string, ports ...string) exchange {
	side := func(options string) string {
		line := "fio --ioengine=rdma --bs=64k --size=8m " + options + " " + more
		for _, port := range ports {
			line += " --name=" + strings.ToLower(port[1:]) + " --port=" + port
		}
		return line
	}
	client := "--hostname=$ADDR --rw=write --iodepth=8 --verb=" + verb
	server := "--rw=read --iodepth=8"
	if verb == "send" {
		// The sender does not retry when there is no receive: there are enough for all.
		server = "--rw=read --iodepth=128"
	}
	if strings.Contains(more, "verify") {
		client += " --do_verify=0" // the receiver verifies
	}
	return exchange{
		program: "fio", label: label, server: side(server), client: side(client),
		ready: "waiting for connection", times: len(ports),
		says: []string{`err= 0`, `WRITE: bw=`}, answers: []string{`err= 0`},
	}
}

var fio = []exchange{
	job("verb=write", "write", "", "$PORT"),
	job("verb=read", "read", "", "$PORT"),
	job("verb=send", "send", "", "$PORT"),
	job("4 jobs, verb=write", "write", "", "$PORT", "$PORT2", "$PORT3", "$PORT4"),
	job("4 jobs, verb=send", "send", "", "$PORT", "$PORT2", "$PORT3", "$PORT4"),
	job("verb=send verify=crc32c", "send", "--verify=crc32c", "$PORT"),
	job("verb=write thread=1", "write", "--thread=1", "$PORT"),
}
