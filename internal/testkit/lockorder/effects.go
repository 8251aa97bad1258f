// SPDX-License-Identifier: BSD-2-Clause

package lockorder

import (
	"go/ast"
	"go/token"
	"go/types"
)

// operation returns the name of the mutex's method that is called, and the locks that it may be.
func (w *walker) operation(c *ast.CallExpr) (name string, which []int) {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", nil
	}
	info := w.f.pkg.info
	fn, ok := info.Uses[sel.Sel].(*types.Func)
	if !ok || fn.Signature().Recv() == nil || !isMutexPointer(fn.Signature().Recv().Type()) {
		return "", nil
	}
	if path := info.Selections[sel].Index(); len(path) > 1 { // embedded
		t := info.TypeOf(sel.X)
		var v *types.Var
		for _, i := range path[:len(path)-1] {
			if ptr, ok := t.Underlying().(*types.Pointer); ok {
				t = ptr.Elem()
			}
			v = t.Underlying().(*types.Struct).Field(i)
			t = v.Type()
		}
		return fn.Name(), []int{w.p.lockOf(v)}
	}
	for v := range w.p.valuesOf(w.f.pkg, sel.X) {
		if v, ok := v.(*types.Var); ok {
			which = append(which, w.p.lockOf(v))
		}
	}
	return fn.Name(), which
}

// call has the effects of a call.
func (w *walker) call(c *ast.CallExpr, s state) state {
	if s.unreachable {
		return s
	}
	s.choice = nil
	switch name, which := w.operation(c); name {
	case "Lock", "RLock", "TryLock", "TryRLock":
		for _, lock := range which {
			if name == "Lock" || name == "RLock" {
				w.take(lock, &call{pos: c.Pos(), in: w.f, released: s.released}, s)
			}
			if s.released.has(lock) {
				s.released.remove(lock)
			} else {
				s.held.add(lock)
			}
		}
		return s
	case "Unlock", "RUnlock":
		for _, lock := range which {
			if s.held.has(lock) {
				s.held.remove(lock)
			} else {
				s.released.add(lock)
			}
		}
		return s
	}
	if id, ok := c.Fun.(*ast.Ident); ok && id.Name == "panic" {
		return state{unreachable: true}
	}
	s = w.reach(c.Pos(), w.p.calleesIn(w.f, c), s)
	fn := functionUsed(w.f.pkg, c.Fun)
	if fn != nil && !w.p.isOwn(fn.Pkg()) && !later[fn.FullName()] {
		for _, arg := range c.Args { // the library calls its arguments
			if _, ok := w.f.pkg.info.TypeOf(arg).Underlying().(*types.Signature); ok {
				s = w.reach(c.Pos(), w.p.values(w.f.pkg, arg), s)
			}
		}
	}
	return s
}

// later are the functions of the library that call their argument on another stack.
var later = map[string]bool{"time.AfterFunc": true, "context.AfterFunc": true,
	"runtime.AddCleanup": true, "runtime.SetFinalizer": true}

// values returns the functions that an expression may be.
func (p *Program) values(pkg *parsed, e ast.Expr) (all []*function) {
	for v := range p.valuesOf(pkg, e) {
		if f, ok := v.(*function); ok && f != nil {
			all = append(all, f)
		}
	}
	return all
}

// reach has the effects of a call that reaches one of the functions.
func (w *walker) reach(pos token.Pos, callees []*function, s state) state {
	if len(callees) == 0 {
		return s
	}
	isNil, isNot := w.outcomes(pos, callees, s)
	if isNil.unreachable || isNot.unreachable {
		return join(isNil, isNot)
	}
	both := join(isNil, isNot)
	both.held = isNil.held.and(isNot.held)
	return both
}

// outcomes returns the states after a call that returns nil as its last result, and after one that
// does not. None is reached while the callees are not known.
func (w *walker) outcomes(pos token.Pos, callees []*function, s state) (isNil, isNot state) {
	s.choice = nil
	isNil.unreachable, isNot.unreachable = true, true
	for _, f := range callees {
		f.callers[w.f] = true
		m := f.summary
		for lock, c := range m.takes {
			released := s.released.or(c.released)
			w.take(lock, &call{pos: pos, in: w.f, callee: f, released: released}, s)
		}
		isNil, isNot = join(isNil, m.failed.after(s)), join(isNot, m.done.after(s))
	}
	return isNil, isNot
}

// after returns the state after a call.
func (e effect) after(s state) state {
	if !e.returns {
		return state{unreachable: true}
	}
	before := s
	s.released = s.released.or(e.released.without(before.held)).without(e.gained)
	s.held = s.held.without(e.released).or(e.gained.without(before.released))
	return s
}

// take notes that a lock is taken, after those that are held.
func (w *walker) take(lock int, c *call, s state) {
	before := s.held
	if c.callee != nil {
		before = before.without(c.callee.summary.takes[lock].released)
	}
	before.each(func(held int) {
		if k := [2]int{held, lock}; w.p.edges[k] == nil {
			w.p.edges[k] = c
		}
	})
	if o := w.next.takes[lock]; o != nil {
		o.released = o.released.and(c.released)
	} else {
		w.next.takes[lock] = c
	}
}
