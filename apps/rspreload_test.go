//go:build linux && apps

package apps

import "path/filepath"

// rspreload is Debian's library that turns a program's sockets into rsockets.
var rspreload = func() string {
	all, err := filepath.Glob("/usr/lib/*/rsocket/librspreload.so")
	if err != nil || len(all) == 0 {
		return "librspreload.so"
	}
	return all[0]
}()

// preloads is what is loaded first: that and our path shim.
var preloads = rspreload + ":" + filepath.Join(filepath.Dir(verbena), "../lib/verbena/libverbena-preload.so")

// A program that knows only sockets, run over rsockets.
var rsocketPreload = []exchange{
	{
		program: "librspreload.so", label: "python3", ready: "listening",
		server: "env LD_PRELOAD=" + preloads + " python3 " + file("socket.py") + " server $ADDR $PORT",
		client: "env LD_PRELOAD=" + preloads + " python3 " + file("socket.py") + " client $ADDR $PORT",
		says:   []string{`echoed 1000000 bytes`}, answers: []string{`done`},
	},
}
