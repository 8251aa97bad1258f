// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"errors"
	"fmt"

	"verbena/ib"
	"verbena/internal/flows"
	"verbena/internal/monotime"
)

// lossTopic has flows across an emulated link: each run of it has the same figures.
const lossTopic = "By loss, in virtual time"

// lossPath is the link, but for its loss.
var lossPath = flows.Scenario{Rate: 1e9, RTT: 10 * monotime.Millisecond, MTU: ib.MTU4096}

// lossGroups has a flow at each loss of a million, beside models of TCP.
func lossGroups() (all []group) {
	for _, loss := range []int{0, 1000, 10_000, 50_000} {
		for _, flow := range []struct {
			name    string
			kind    flows.Kind
			goBackN bool
			beside  flows.Kind
		}{
			{"WRITE", flows.Write, false, flows.Cubic}, {"WRITE", flows.Write, false, flows.BBR},
			{"WRITE to a peer that goes back N", flows.Write, true, flows.BBR},
			{"TRP WRITE", flows.TRP, false, flows.BBR},
		} {
			all = append(all, group{
				rows: []row{{fmt.Sprintf("%s, 1 Gbit, 10 ms, %g %% lost", flow.name,
					float64(loss)/1e4), "MB/s", "TCP with " + flow.beside.String(), goal{}}},
				rounds: 1,
				ours:   played(flow.kind, loss, flow.goBackN),
				peer:   played(flow.beside, loss, false),
			})
		}
	}
	return all
}

// played is the goodput of one flow.
func played(kind flows.Kind, loss int, goBackN bool) func(context.Context, *run) ([]float64,
	error) {
	return func(context.Context, *run) ([]float64, error) {
		s := lossPath
		s.Kind, s.Loss, s.GoBackN = kind, loss, goBackN
		r := flows.Run(s)
		if r.Dead > 0 {
			return nil, errors.New(r.Why)
		}
		return []float64{r.Goodput / 1e6}, nil
	}
}
