// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// page is the file whose table is to be brought up to date.
var page = flag.String("page", "", "write the table of applications to `FILE`, between its marks")

func TestMain(m *testing.M) {
	flag.Parse()
	enter()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if *page != "" { // before minutes have passed
		f, err := os.OpenFile(*page, os.O_RDWR, 0)
		if err != nil {
			fmt.Println("apps:", err)
			return 1
		}
		f.Close()
	}
	if err := ownTmp(); err != nil {
		fmt.Println("apps: no /tmp of our own:", err)
		return 1
	}
	// Captures, sockets and driver files of this run only.
	dir, err := os.MkdirTemp("", "va")
	if err != nil {
		fmt.Println("apps:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv("XDG_RUNTIME_DIR", dir)
	runDir = dir
	if theDevices, err = devices(); err != nil {
		fmt.Println("apps:", err)
		return 1
	}
	if err := compileAllreduce(dir); err != nil {
		fmt.Println("apps:", err)
		return 1
	}
	status := m.Run()
	if results.empty() {
		return status
	}
	results.print(os.Stdout)
	if *page != "" {
		if err := results.writeTo(*page); err != nil {
			fmt.Println("apps:", err)
			return 1
		}
	}
	return status
}

// runDir is a directory of the run's own.
var runDir string

// theDevices lists the devices that every program runs over.
var theDevices []device

// suite is the exchanges of programs that come in one package.
type suite struct {
	debian    string
	exchanges []exchange
}

// suites are all exchanges over devices of RoCE.
var suites = []suite{
	{"ibverbs-utils", ibverbsUtils},
	{"infiniband-diags", diags},
	{"perftest", perftest},
	{"rdmacm-utils", rdmacmUtils},
	{"librdmacm1", rsocketPreload},
	{"qperf", qperf},
	{"fio", fio},
	{"libfabric-bin", libfabric},
	{"ucx-utils", ucx},
	{"openmpi-bin", openMPI},
	{"python3-pyverbs", pyverbs},
}

func TestApplications(t *testing.T) { over(t, suites, theDevices) }

// TestIWARP is TestApplications over devices that an application finds where its
// user asks for them.
func TestIWARP(t *testing.T) { over(t, iwarpSuites, iwarpDevices(theDevices)) }

// TestNTB is TestApplications over an NTB link.
func TestNTB(t *testing.T) {
	over(t, ntbSuites, ntbDevice(theDevices, "shm:%s:$RUN/link$PORT"))
	over(t, overTCP, ntbDevice(theDevices, "%s:127.0.0.1:$PORT4"))
}

func over(t *testing.T, suites []suite, devices []device) {
	for _, s := range suites {
		for _, x := range s.exchanges {
			for _, d := range devices {
				if x.only != "" && x.only != d.what {
					continue
				}
				name := strings.Join(slices.DeleteFunc([]string{x.program, x.label, d.what}, func(s string) bool { return s == "" }), "/")
				t.Run(name, func(t *testing.T) {
					defer func() {
						if !t.Skipped() {
							results.add(s.debian, x, d, !t.Failed())
						}
					}()
					x.run(t, d)
				})
			}
		}
	}
}

// file returns the absolute name of one in testdata.
func file(name string) string {
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		panic(err) // there is no working directory
	}
	return path
}
