// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"slices"
	"strings"
	"testing"
)

// columns are those of the table that devices fill.
var columns = []string{"loopback", "Ethernet", "iWARP", "TRP", "NTB"}

// gap is why programs do not run over the devices of some columns.
type gap struct {
	programs []string
	columns  []string
	why      string
}

var gaps = []gap{
	{[]string{"fi_pingpong"}, []string{"loopback"}, "libfabric's verbs provider skips loopback interfaces"},
	{[]string{"ibstat"}, []string{"iWARP", "TRP"}, "libibumad lists no RNICs"},
	{[]string{"perfquery"}, []string{"iWARP", "TRP", "NTB"}, "no management datagrams"},
	{[]string{"ibv_srq_pingpong"}, []string{"iWARP", "TRP"}, "it connects queue pairs itself, as ibv_rc_pingpong does, and waits forever for a peer that cannot"},
	{[]string{"ibv_xsrq_pingpong"}, []string{"NTB"}, "XRC is InfiniBand's and RoCE's"},
	{[]string{"udaddy", "mckey", "udpong"}, []string{"iWARP", "TRP", "NTB"}, "no datagrams"},
	{[]string{"librspreload.so"}, []string{"TRP"}, "its server ends silently; TCP notifies the peer, and TRP does not"},
	{[]string{"ucx_info"}, []string{"NTB"}, "UCX's upper layer wires RC up over UD, which NTB lacks"},
	{[]string{"ucx_info", "ucx_perftest"}, []string{"iWARP", "TRP"}, "UCX connects queue pairs itself, and sets up RC over UD"},
	{[]string{"pyverbs"}, []string{"iWARP", "TRP", "NTB"}, "its tests connect queue pairs themselves, both in one process"},
}

// gaps returns the reasons of a row's empty cells.
func (r *row) gaps() (notes []string) {
	for _, g := range gaps {
		if !slices.Contains(g.programs, r.program) {
			continue
		}
		empty := slices.DeleteFunc(slices.Clone(g.columns), func(column string) bool { return r.ran[column] > 0 })
		if len(empty) > 0 {
			notes = append(notes, strings.Join(empty, ", ")+": "+g.why)
		}
	}
	return notes
}

// Each empty cell of the table has a reason, each reason an empty cell.
func TestEmptyCellsHaveReasons(t *testing.T) {
	runs := map[string][]string{} // the columns of each program
	note := func(suites []suite, columns ...string) {
		for _, s := range suites {
			for _, x := range s.exchanges {
				if x.only != "" {
					runs[x.program] = append(runs[x.program], x.only)
				} else {
					runs[x.program] = append(runs[x.program], columns...)
				}
			}
		}
	}
	note(suites, "loopback", "Ethernet")
	note(iwarpSuites, "iWARP", "TRP")
	note(ntbSuites, "NTB")
	explained := func(program, column string) bool {
		return slices.ContainsFunc(gaps, func(g gap) bool { return slices.Contains(g.programs, program) && slices.Contains(g.columns, column) })
	}
	for program, over := range runs {
		for _, column := range columns {
			if ran := slices.Contains(over, column); ran == explained(program, column) {
				t.Errorf("%s over %s: runs %v, has a reason not to %v", program, column, ran, ran)
			}
		}
	}
}
