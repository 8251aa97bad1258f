// SPDX-License-Identifier: BSD-2-Clause

package lockorder

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// state has the locks that a function may hold at a place.
type state struct {
	unreachable bool
	held        locks // taken by the function, and not released
	released    locks // of its caller: on each path to here
	deferred    []*ast.CallExpr
	choice      *choice // of the last statement
}

// choice has the two states after a call whose last result was assigned to a variable.
type choice struct {
	v            *types.Var
	isNil, isNot state
}

func join(a, b state) state {
	switch {
	case a.unreachable:
		return b
	case b.unreachable:
		return a
	}
	a.held, a.released, a.choice = a.held.or(b.held), a.released.and(b.released), nil
	if len(b.deferred) > len(a.deferred) {
		a.deferred = b.deferred
	}
	return a
}

// walker walks the body of one function.
type walker struct {
	p       *Program
	f       *function
	next    summary
	returns [2]state // with nil as the last result, and without
	exits   []*exit  // of the loops and switches around, innermost last
	label   string   // of the next statement
}

// exit collects the states in which break and continue leave a statement.
type exit struct {
	label             string
	loop              bool
	broken, continued state
}

// walk computes the summary of a function, and reports whether it has changed.
func (p *Program) walk(f *function) bool {
	w := &walker{p: p, f: f, next: summary{takes: map[int]*call{}}}
	w.returns[0].unreachable, w.returns[1].unreachable = true, true
	w.ret(w.block(f.body.List, state{}), 1)
	w.next.failed, w.next.done = effectOf(w.returns[0]), effectOf(w.returns[1])
	old := f.summary
	changed := old.failed != w.next.failed || old.done != w.next.done ||
		len(old.takes) != len(w.next.takes)
	for lock, c := range w.next.takes {
		if o := old.takes[lock]; o != nil {
			changed = changed || o.released != c.released
			// A path keeps its first step, so that it ends.
			c.pos, c.callee, c.in = o.pos, o.callee, o.in
		}
	}
	f.summary = w.next
	return changed
}

func effectOf(s state) effect { return effect{!s.unreachable, s.released, s.held} }

// ret runs the deferred calls, and notes the state in which the function returns.
func (w *walker) ret(s state, kind int) {
	if s.unreachable {
		return
	}
	list := s.deferred
	s.deferred = nil
	for _, c := range slices.Backward(list) {
		s = w.call(c, s)
	}
	w.returns[kind] = join(w.returns[kind], s)
}

func (w *walker) block(list []ast.Stmt, s state) state {
	for _, st := range list {
		s = w.stmt(st, s)
	}
	return s
}

func (w *walker) stmt(st ast.Stmt, s state) state {
	if s.unreachable && st != nil {
		if _, labeled := st.(*ast.LabeledStmt); !labeled {
			return s
		}
	}
	label := w.label
	w.label = ""
	switch st := st.(type) {
	case nil:
	case *ast.BlockStmt:
		if st != nil {
			return w.block(st.List, s)
		}
	case *ast.LabeledStmt:
		w.label = st.Label.Name
		return w.stmt(st.Stmt, s)
	case *ast.ReturnStmt:
		for _, e := range st.Results {
			s = w.expr(e, s)
		}
		kind := 1
		if n := len(st.Results); n > 0 && w.f.pkg.info.Types[st.Results[n-1]].IsNil() {
			kind = 0
		}
		w.ret(s, kind)
		return state{unreachable: true}
	case *ast.DeferStmt:
		for _, arg := range st.Call.Args {
			s = w.expr(arg, s)
		}
		s.deferred = append(slices.Clip(s.deferred), st.Call)
	case *ast.GoStmt: // a stack of its own
		for _, arg := range st.Call.Args {
			s = w.expr(arg, s)
		}
	case *ast.IfStmt:
		s = w.stmt(st.Init, s)
		yes, no := w.cond(st.Cond, s)
		yes, no = w.stmt(st.Body, yes), w.stmt(st.Else, no)
		if st.Else == nil && !yes.unreachable && w.isOwner(st.Cond) {
			return yes
		}
		return join(yes, no)
	case *ast.AssignStmt:
		return w.assign(st, s)
	case *ast.ForStmt:
		s = w.stmt(st.Init, s)
		return w.loop(label, s, func(s state) (state, state) {
			if st.Cond == nil {
				return s, state{unreachable: true}
			}
			return w.cond(st.Cond, s)
		}, st.Body, st.Post)
	case *ast.RangeStmt:
		s = w.expr(st.X, s)
		if _, ok := w.f.pkg.info.TypeOf(st.X).Underlying().(*types.Signature); ok {
			s = w.reach(st.Pos(), w.p.values(w.f.pkg, st.X), s)
		}
		return w.loop(label, s, func(s state) (state, state) { return s, s }, st.Body, nil)
	case *ast.SwitchStmt:
		s = w.stmt(st.Init, s)
		s = w.expr(st.Tag, s)
		return w.cases(label, st.Body, st.Tag == nil, s)
	case *ast.TypeSwitchStmt:
		s = w.stmt(st.Init, s)
		s = w.stmt(st.Assign, s)
		return w.cases(label, st.Body, false, s)
	case *ast.SelectStmt:
		return w.cases(label, st.Body, false, s)
	case *ast.BranchStmt:
		return w.branch(st, s)
	default:
		return w.inside(st, s)
	}
	return s
}

// branch ends a path at break or continue.
func (w *walker) branch(st *ast.BranchStmt, s state) state {
	for _, x := range slices.Backward(w.exits) {
		if st.Label != nil && st.Label.Name != x.label || st.Tok == token.CONTINUE && !x.loop {
			continue
		}
		if st.Tok == token.BREAK {
			x.broken = join(x.broken, s)
		} else if st.Tok == token.CONTINUE {
			x.continued = join(x.continued, s)
		}
		break
	}
	if st.Tok == token.FALLTHROUGH {
		return s
	}
	return state{unreachable: true}
}

// enter begins a statement that break leaves; leave ends it.
func (w *walker) enter(label string, loop bool) *exit {
	x := &exit{label, loop, state{unreachable: true}, state{unreachable: true}}
	w.exits = append(w.exits, x)
	return x
}

func (w *walker) leave() { w.exits = w.exits[:len(w.exits)-1] }

// loop walks a loop until one more round adds nothing.
func (w *walker) loop(label string, s state, cond func(state) (yes, no state),
	body *ast.BlockStmt, post ast.Stmt) state {
	after := state{unreachable: true}
	for round := range 4 {
		x := w.enter(label, true)
		yes, no := cond(s)
		end := join(w.stmt(body, yes), x.continued)
		end = w.stmt(post, end)
		w.leave()
		after = join(join(after, no), x.broken)
		next := join(s, end)
		next.deferred = s.deferred // once
		if round > 0 && next.held == s.held && next.released == s.released {
			break
		}
		s = next
	}
	return after
}

// cases walks the clauses of a switch or select.
func (w *walker) cases(label string, body *ast.BlockStmt, conditions bool, s state) state {
	x, after, fall := w.enter(label, false), state{unreachable: true}, state{unreachable: true}
	deflt := false
	for _, c := range body.List {
		entry := s
		var list []ast.Stmt
		switch c := c.(type) {
		case *ast.CaseClause:
			deflt = deflt || c.List == nil
			if conditions && len(c.List) == 1 {
				entry, s = w.cond(c.List[0], s)
			} else {
				for _, e := range c.List {
					s = w.expr(e, s)
				}
				entry = s
			}
			list = c.Body
		case *ast.CommClause:
			deflt = true
			entry, list = w.stmt(c.Comm, s), c.Body
		}
		end := w.block(list, join(entry, fall))
		if fall = (state{unreachable: true}); falls(list) {
			fall = end
		} else {
			after = join(after, end)
		}
	}
	if !deflt {
		after = join(after, s)
	}
	w.leave()
	return join(after, x.broken)
}

func falls(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	b, ok := list[len(list)-1].(*ast.BranchStmt)
	return ok && b.Tok == token.FALLTHROUGH
}

// cond walks a condition, and returns the states in which it is true and false.
func (w *walker) cond(e ast.Expr, s state) (yes, no state) {
	switch e := ast.Unparen(e).(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			no, yes = w.cond(e.X, s)
			return yes, no
		}
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND:
			yes, no = w.cond(e.X, s)
			y, n := w.cond(e.Y, yes)
			return y, join(no, n)
		case token.LOR:
			yes, no = w.cond(e.X, s)
			y, n := w.cond(e.Y, no)
			return join(yes, y), n
		case token.EQL, token.NEQ:
			if !w.f.pkg.info.Types[e.Y].IsNil() {
				break
			}
			if yes, no, ok := w.compared(e.X, s); ok && e.Op == token.EQL {
				return yes, no
			} else if ok {
				return no, yes
			}
		}
	case *ast.CallExpr:
		if name, _ := w.operation(e); name == "TryLock" || name == "TryRLock" {
			return w.call(e, s), s
		}
	}
	s = w.expr(e, s)
	return s, s
}

// compared returns the states in which a variable is nil and is not, if they differ.
func (w *walker) compared(e ast.Expr, s state) (isNil, isNot state, ok bool) {
	v := variable(w.f.pkg, e)
	switch r := w.f.sig.Recv(); {
	case v == nil:
		return s, s, false
	case s.choice != nil && s.choice.v == v:
		return s.choice.isNil, s.choice.isNot, true
	case r != nil && r.Origin() == v: // a nil receiver has no lock
		return state{unreachable: true}, s, true
	}
	return s, s, false
}

// isOwner reports whether a condition says that there is an object: without it there is no lock of
// its own that a branch could take or release.
func (w *walker) isOwner(cond ast.Expr) bool {
	e, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	return ok && e.Op == token.NEQ && w.f.pkg.info.Types[e.Y].IsNil() &&
		!types.Identical(w.f.pkg.info.TypeOf(e.X), types.Universe.Lookup("error").Type())
}

// assign walks an assignment. It keeps both states of a call whose last result is nil, or not.
func (w *walker) assign(st *ast.AssignStmt, s state) state {
	c, ok := ast.Unparen(st.Rhs[0]).(*ast.CallExpr)
	v := variable(w.f.pkg, st.Lhs[len(st.Lhs)-1])
	if !ok || len(st.Rhs) != 1 || v == nil {
		return w.inside(st, s)
	}
	for _, e := range st.Lhs {
		s = w.expr(e, s)
	}
	for _, e := range append([]ast.Expr{c.Fun}, c.Args...) {
		if _, lit := e.(*ast.FuncLit); !lit {
			s = w.expr(e, s)
		}
	}
	var isNil, isNot state
	if name, _ := w.operation(c); name == "" && !s.unreachable {
		isNil, isNot = w.outcomes(c.Pos(), w.p.calleesIn(w.f, c), s)
	}
	s = w.call(c, s)
	if effectOf(isNil) != effectOf(isNot) {
		s.choice = &choice{v, isNil, isNot}
	}
	return s
}

// expr walks the calls of an expression in their order.
func (w *walker) expr(e ast.Expr, s state) state {
	if e == nil || s.unreachable {
		return s
	}
	return w.inside(e, s)
}

func (w *walker) inside(n ast.Node, s state) state {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				yes, no := w.cond(n, s)
				s = join(yes, no)
				return false
			}
		case *ast.CallExpr:
			if _, lit := n.Fun.(*ast.FuncLit); !lit {
				s = w.expr(n.Fun, s)
			}
			for _, arg := range n.Args {
				s = w.expr(arg, s)
			}
			s = w.call(n, s)
			return false
		}
		return true
	})
	return s
}
