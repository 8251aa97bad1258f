// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import "path/filepath"

// debianRspreload is the library of Debian's librdmacm1 that turns a program's
// sockets into rsockets, ourRspreload is ours.
var (
	debianRspreload = func() string {
		all, err := filepath.Glob("/usr/lib/*/rsocket/librspreload.so")
		if err != nil || len(all) == 0 {
			return "librspreload.so"
		}
		return all[0]
	}()
	ourRspreload = filepath.Join(filepath.Dir(verbena), "../lib/verbena/librspreload.so.1")
)

// socketProgram runs a program that knows only sockets over rsockets. Its server
// has an input that does not end: nc would tell its client to go.
func socketProgram(label, library string) exchange {
	with := "env LD_PRELOAD=" + library + " "
	return exchange{
		program: "librspreload.so", label: label, stays: true, either: true,
		server:  "sh -c 'tail -f /dev/null | " + with + "busybox nc -l -p $PORT'",
		client:  "sh -c 'seq 20000 | " + with + "busybox nc $ADDR $PORT'",
		answers: []string{`(?s)\n1\n2\n3\n.*\n19999\n20000\n|^1\n.*\n20000\n`},
	}
}

var rsocketPreload = []exchange{
	socketProgram("Debian's, busybox nc", debianRspreload),
	socketProgram("ours, busybox nc", ourRspreload),
}
