// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"fmt"
	"math"
	"path"
	"slices"
)

// topic is a part of the table.
type topic struct {
	name   string
	groups []group
}

// group is rows whose figures come from the same rounds.
type group struct {
	rows   []row
	rounds int                                            // 0: as many as asked for
	ours   func(context.Context, *run) ([]float64, error) // a figure for each row
	// the same of the peer; nil where nothing compares
	peer func(context.Context, *run) ([]float64, error)
}

// row is a line of the table.
type row struct {
	name   string
	unit   string
	beside string // names the peer
	goal   goal
}

// missing is a figure that a round could not take. Its row is left out.
var missing = math.NaN()

// one makes a group of a measure.
func (m measure) group() group {
	single := func(f func(context.Context, *run) (float64, error)) func(context.Context,
		*run) ([]float64, error) {
		if f == nil {
			return nil
		}
		return func(ctx context.Context, r *run) ([]float64, error) {
			v, err := f(ctx, r)
			return []float64{v}, err
		}
	}
	return group{rows: []row{{m.name, m.unit, m.beside, m.goal}}, rounds: m.rounds,
		ours: single(m.ours), peer: single(m.raw)}
}

func groupsOf(measures ...measure) []group {
	var all []group
	for _, m := range measures {
		all = append(all, m.group())
	}
	return all
}

// wants reports whether a row is to be measured.
func (r *run) wants(t topic, w row) bool {
	ofTopic, _ := path.Match(r.only, t.name)
	ofRow, _ := path.Match(r.only, w.name)
	return r.only == "" || ofTopic || ofRow
}

// wantsAny reports whether a row of a group is to be measured.
func (r *run) wantsAny(t topic, g group) bool {
	return slices.ContainsFunc(g.rows, func(w row) bool { return r.wants(t, w) })
}

// take runs the rounds of a group, ours and the peer's in turn.
func (r *run) take(ctx context.Context, t topic, g group) ([]Result, error) {
	rounds := g.rounds
	if rounds == 0 {
		rounds = r.rounds
	}
	ours, peer := make([][]float64, len(g.rows)), make([][]float64, len(g.rows))
	for i := range rounds {
		fmt.Fprintf(r.log, "%s: round %d of %d\n", g.rows[0].name, i+1, rounds)
		if err := r.round(ctx, g.ours, ours); err != nil {
			return nil, err
		}
		if g.peer == nil {
			continue
		}
		if err := r.round(ctx, g.peer, peer); err != nil {
			return nil, fmt.Errorf("%s: %w", g.rows[0].beside, err)
		}
	}
	var results []Result
	for i, w := range g.rows {
		switch {
		case !r.wants(t, w):
		case slices.ContainsFunc(slices.Concat(ours[i], peer[i]), math.IsNaN):
			fmt.Fprintf(r.log, "%s: %v: perf cannot count here\n", w.name, errLeftOut)
		default:
			results = append(results, summarize(t.name, w, ours[i], peer[i]))
		}
	}
	return results, nil
}

// round adds a round's figures to those of the rows.
func (r *run) round(ctx context.Context, measured func(context.Context, *run) ([]float64, error),
	to [][]float64) error {
	v, err := measured(ctx, r)
	if err != nil {
		return err
	}
	if len(v) != len(to) {
		return fmt.Errorf("%d figures for %d rows", len(v), len(to))
	}
	for i := range v {
		to[i] = append(to[i], v[i])
	}
	return nil
}
