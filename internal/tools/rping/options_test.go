// SPDX-License-Identifier: BSD-2-Clause

package rping

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func parse(line string) (*options, error) {
	o := &options{}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.flags(fs)
	if err := fs.Parse(strings.Fields(line)); err != nil {
		return o, err
	}
	return o, o.validateFlags()
}

func TestOptionsAreThoseOfRping(t *testing.T) {
	o, err := parse("-c -a 192.0.2.1 -I 192.0.2.2 -p 9999 -S 100 -C 1000 -vVd")
	if err != nil {
		t.Fatal(err)
	}
	if !o.client || o.addr != "192.0.2.1" || o.source != "192.0.2.2" || o.port != 9999 || o.size != 100 || o.count != 1000 ||
		!o.verbose || !o.validate || !o.debug {
		t.Errorf("%+v", o)
	}
	o, err = parse("-sP")
	if err != nil || !o.persistent || o.port != 7174 || o.size != 64 || o.count != 0 || o.mode() != modePing || o.mem != "plain" {
		t.Errorf("%+v, %v", o, err)
	}
	o, err = parse("-s --wlat")
	if err != nil || o.mode() != modeWriteLatency || o.count != 1000 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestWrongOptionsAreNamed(t *testing.T) {
	for line, want := range map[string]string{
		"":                              "-s for the server",
		"-s -c -a x":                    "-s for the server",
		"-c":                            "-a ADDR",
		"-s -p 0":                       "-p 0",
		"-s -p 70000":                   "-p 70000",
		"-s -S 25":                      "-S 25",
		"-s -S 65536":                   "-S 65536",
		"-s -C -1":                      "-C -1",
		"-c -a x -P":                    "-P is an option of the server only",
		"-s -I x":                       "-I is an option of the client only",
		"-s --mem dma":                  "--mem dma",
		"-s --server-inv":               "--server-inv needs",
		"-s --read-inv --mem mw":        "--read-inv needs",
		"-s --wlat --bw":                "exclude each other",
		"-s --duplex":                   "--duplex needs --bw",
		"-s --poll":                     "--poll needs --rlat",
		"-s --bw --txdepth 0":           "--txdepth 0",
		"-s --no-such-option":           "unknown flag",
		"-c -a x -C several":            "invalid argument",
		"-s --server-inv --mem fastreg": "",
		"-s --read-inv --mem fastreg":   "",
	} {
		_, err := parse(line)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q in it", line, err, want)
		}
	}
}
