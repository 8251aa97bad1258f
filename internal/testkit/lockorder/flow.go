// SPDX-License-Identifier: BSD-2-Clause

package lockorder

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// flow holds the functions, and the locks, that each variable, field and parameter may have as its
// value: those of all assignments, whichever object's field it is.
type flow struct {
	values  map[*types.Var]map[any]bool // *function, or *types.Var for a lock
	copies  []copied
	changed bool
}

// copied is an assignment, or a call whose arguments become parameters.
type copied struct {
	to   *types.Var // nil of a call
	from ast.Expr
	call *ast.CallExpr
	pkg  *parsed
}

// run collects the assignments, and carries values until no variable gets another one.
func (f *flow) run(p *Program) {
	for _, pkg := range p.packages {
		for _, file := range pkg.files {
			f.collect(p, pkg, file)
		}
	}
	for f.changed = true; f.changed; {
		f.changed = false
		for _, c := range f.copies {
			if c.call != nil {
				f.pass(p, c.pkg, c.call)
			} else {
				f.put(c.to, p.valuesOf(c.pkg, c.from))
			}
		}
	}
}

func (f *flow) put(to *types.Var, values map[any]bool) {
	for v := range values {
		if f.values[to] == nil {
			f.values[to] = map[any]bool{}
		}
		if !f.values[to][v] {
			f.values[to][v] = true
			f.changed = true
		}
	}
}

// pass copies arguments to the parameters of all functions that a call may reach.
func (f *flow) pass(p *Program, pkg *parsed, call *ast.CallExpr) {
	for _, callee := range p.callees(pkg, call) {
		params := callee.sig.Params()
		for i, arg := range call.Args {
			if at := min(i, params.Len()-1); at >= 0 && carries(pkg.info.TypeOf(arg)) {
				f.put(params.At(at), p.valuesOf(pkg, arg))
			}
		}
	}
}

func (f *flow) copy(pkg *parsed, to *types.Var, from ast.Expr) {
	if to != nil && carries(to.Type()) {
		f.copies = append(f.copies, copied{to: to.Origin(), from: from, pkg: pkg})
	}
}

func (f *flow) collect(p *Program, pkg *parsed, file *ast.File) {
	var around []*function // of the nodes that are entered
	var nodes []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			if fn := p.functionOf(pkg, nodes[len(nodes)-1]); fn != nil {
				around = around[:len(around)-1]
			}
			nodes = nodes[:len(nodes)-1]
			return true
		}
		nodes = append(nodes, n)
		if fn := p.functionOf(pkg, n); fn != nil {
			around = append(around, fn)
		}
		f.node(p, pkg, n, around)
		return true
	})
}

// functionOf returns the function that a node declares, nil if it is none.
func (p *Program) functionOf(pkg *parsed, n ast.Node) *function {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return p.bodies[pkg.info.Defs[n.Name]]
	case *ast.FuncLit:
		return p.bodies[n]
	}
	return nil
}

func (f *flow) node(p *Program, pkg *parsed, n ast.Node, around []*function) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			if x, ok := to.(*ast.IndexExpr); ok {
				f.copy(pkg, variable(pkg, x), x.Index) // the key of a map
			}
			if len(n.Lhs) == len(n.Rhs) {
				f.copy(pkg, variable(pkg, to), n.Rhs[i])
			} else {
				result := &ast.IndexListExpr{X: n.Rhs[0], Lbrack: token.Pos(i)}
				f.copy(pkg, variable(pkg, to), result)
			}
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if v, ok := pkg.info.Defs[name].(*types.Var); ok && i < len(n.Values) {
				f.copy(pkg, v, n.Values[i])
			}
		}
	case *ast.CompositeLit:
		f.literal(pkg, n)
	case *ast.RangeStmt:
		for _, to := range []ast.Expr{n.Key, n.Value} {
			if to != nil {
				f.copy(pkg, variable(pkg, to), n.X)
			}
		}
	case *ast.SendStmt:
		f.copy(pkg, variable(pkg, n.Chan), n.Value)
	case *ast.ReturnStmt:
		if fn := around[len(around)-1]; len(n.Results) == len(fn.results) {
			for i, from := range n.Results {
				f.copy(pkg, fn.results[i], from)
			}
		}
	case *ast.CallExpr:
		if sel, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) == 1 && isAtomic(pkg, sel) {
			f.copy(pkg, variable(pkg, sel.X), n.Args[0]) // Store
		}
		for _, arg := range n.Args {
			if carries(pkg.info.TypeOf(arg)) {
				f.copies = append(f.copies, copied{call: n, pkg: pkg})
				break
			}
		}
	}
}

// literal copies the values of a structure's fields.
func (f *flow) literal(pkg *parsed, lit *ast.CompositeLit) {
	t := pkg.info.TypeOf(lit)
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		t = ptr.Elem()
	}
	st, ok := t.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			to, _ := pkg.info.Uses[kv.Key.(*ast.Ident)].(*types.Var)
			f.copy(pkg, to, kv.Value)
		} else {
			f.copy(pkg, st.Field(i), e)
		}
	}
}

// valuesOf returns the functions and locks that an expression may be.
func (p *Program) valuesOf(pkg *parsed, e ast.Expr) map[any]bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		return map[any]bool{p.bodies[e]: true}
	case *ast.Ident, *ast.SelectorExpr:
		if sel, ok := e.(*ast.SelectorExpr); ok && isAtomic(pkg, sel) {
			return p.valuesOf(pkg, sel.X) // Load
		}
		if fn := functionUsed(pkg, e); fn != nil {
			all := map[any]bool{}
			for _, f := range p.reached(fn) {
				all[f] = true
			}
			return all
		}
		v := variable(pkg, e)
		if v != nil && (isMutex(v.Type()) || v.IsField() && isMutexPointer(v.Type())) {
			return map[any]bool{v.Origin(): true}
		}
		return p.flow.values[v]
	case *ast.UnaryExpr:
		return p.valuesOf(pkg, e.X)
	case *ast.StarExpr:
		return p.valuesOf(pkg, e.X)
	case *ast.IndexExpr:
		return p.valuesOf(pkg, e.X)
	case *ast.IndexListExpr: // a result of a call
		return p.resultsOf(pkg, e.X, int(e.Lbrack))
	case *ast.TypeAssertExpr:
		return p.valuesOf(pkg, e.X)
	case *ast.SliceExpr:
		return p.valuesOf(pkg, e.X)
	case *ast.CompositeLit:
		return p.union(pkg, e.Elts)
	case *ast.KeyValueExpr:
		return p.valuesOf(pkg, e.Value)
	case *ast.CallExpr:
		if id, ok := e.Fun.(*ast.Ident); ok {
			if _, builtin := pkg.info.Uses[id].(*types.Builtin); builtin {
				return p.union(pkg, e.Args) // append
			}
		}
		if pkg.info.Types[e.Fun].IsType() {
			return p.valuesOf(pkg, e.Args[0])
		}
		return p.resultsOf(pkg, e, 0)
	}
	return nil
}

func (p *Program) union(pkg *parsed, list []ast.Expr) map[any]bool {
	all := map[any]bool{}
	for _, e := range list {
		for v := range p.valuesOf(pkg, e) {
			all[v] = true
		}
	}
	return all
}

func (p *Program) resultsOf(pkg *parsed, e ast.Expr, i int) map[any]bool {
	c, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return p.valuesOf(pkg, e) // v, ok := m[k]
	}
	if sel, ok := c.Fun.(*ast.SelectorExpr); ok && isAtomic(pkg, sel) {
		return p.valuesOf(pkg, sel.X)
	}
	all := map[any]bool{}
	for _, f := range p.callees(pkg, c) {
		if i < len(f.results) {
			for v := range p.flow.values[f.results[i]] {
				all[v] = true
			}
		}
	}
	return all
}

// callees returns the functions of the program that a call may reach.
func (p *Program) callees(pkg *parsed, c *ast.CallExpr) (all []*function) {
	fun := ast.Unparen(c.Fun)
	if fn := functionUsed(pkg, fun); fn != nil {
		return p.reached(fn)
	}
	for v := range p.valuesOf(pkg, fun) {
		if f, ok := v.(*function); ok && f != nil {
			all = append(all, f)
		}
	}
	return all
}

// calleesIn returns the functions that a call in f may reach. A method that calls a method of an
// interface, which its own type has too, wraps a value of another type.
func (p *Program) calleesIn(f *function, c *ast.CallExpr) []*function {
	list, known := p.called[c]
	if known {
		return list
	}
	list = p.callees(f.pkg, c)
	if fn := functionUsed(f.pkg, c.Fun); fn != nil && isOfInterface(fn) && f.sig.Recv() != nil {
		list = slices.DeleteFunc(slices.Clone(list), func(g *function) bool {
			return g.sig.Recv() != nil && types.Identical(g.sig.Recv().Type(), f.sig.Recv().Type())
		})
	}
	p.called[c] = list
	return list
}

func isOfInterface(fn *types.Func) bool {
	return fn.Signature().Recv() != nil && types.IsInterface(fn.Signature().Recv().Type())
}

// reached returns a function or, for a method of an interface of the program, those of all types.
func (p *Program) reached(fn *types.Func) []*function {
	fn = fn.Origin()
	if list, known := p.resolved[fn]; known {
		return list
	}
	var list []*function
	p.resolved[fn] = nil
	if f := p.bodies[fn]; f != nil {
		list = append(list, f)
	} else if isOfInterface(fn) && p.isOwn(fn.Pkg()) {
		iface := fn.Signature().Recv().Type().Underlying().(*types.Interface)
		for _, n := range p.named {
			if types.IsInterface(n) || !types.Implements(types.NewPointer(n), iface) {
				continue
			}
			m, _, _ := types.LookupFieldOrMethod(types.NewPointer(n), true, fn.Pkg(), fn.Name())
			if m, ok := m.(*types.Func); ok && m.Origin() != fn {
				list = append(list, p.reached(m)...)
			}
		}
	}
	p.resolved[fn] = list
	return list
}

func (p *Program) isOwn(pkg *types.Package) bool {
	for _, own := range p.packages {
		if own.types == pkg {
			return true
		}
	}
	return false
}

// functionUsed returns the function or method that an expression names, nil for a variable.
func functionUsed(pkg *parsed, e ast.Expr) *types.Func {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		fn, _ := pkg.info.Uses[e].(*types.Func)
		return fn
	case *ast.SelectorExpr:
		fn, _ := pkg.info.Uses[e.Sel].(*types.Func)
		return fn
	case *ast.IndexExpr: // of a generic function
		return functionUsed(pkg, e.X)
	case *ast.IndexListExpr:
		return functionUsed(pkg, e.X)
	}
	return nil
}

// variable returns the variable or field that an expression is, or is an element of.
func variable(pkg *parsed, e ast.Expr) *types.Var {
	var v *types.Var
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		if v, _ = pkg.info.Uses[e].(*types.Var); v == nil {
			v, _ = pkg.info.Defs[e].(*types.Var)
		}
	case *ast.SelectorExpr:
		v, _ = pkg.info.Uses[e.Sel].(*types.Var)
	case *ast.IndexExpr:
		return variable(pkg, e.X)
	case *ast.StarExpr:
		return variable(pkg, e.X)
	case *ast.UnaryExpr:
		return variable(pkg, e.X)
	}
	if v == nil {
		return nil
	}
	return v.Origin()
}

// isAtomic reports whether a method of sync/atomic is selected.
func isAtomic(pkg *parsed, sel *ast.SelectorExpr) bool {
	fn, ok := pkg.info.Uses[sel.Sel].(*types.Func)
	return ok && isIn(fn, "sync/atomic") && fn.Signature().Recv() != nil
}

func isIn(o types.Object, path string) bool { return o.Pkg() != nil && o.Pkg().Path() == path }

// carries reports whether a value of a type may be, point to or contain functions or locks.
func carries(t types.Type) bool {
	if t == nil {
		return false
	}
	if isMutexPointer(t) {
		return true
	}
	if n, ok := t.(*types.Named); ok && isIn(n.Obj(), "sync/atomic") {
		return n.TypeArgs().Len() == 1 && carries(n.TypeArgs().At(0))
	}
	switch t := t.Underlying().(type) {
	case *types.Signature:
		return true
	case *types.Pointer:
		if _, named := t.Elem().(*types.Named); named {
			if _, sig := t.Elem().Underlying().(*types.Signature); !sig {
				return false
			}
		}
		return carries(t.Elem())
	case *types.Slice:
		return carries(t.Elem())
	case *types.Array:
		return carries(t.Elem())
	case *types.Chan:
		return carries(t.Elem())
	case *types.Map:
		return carries(t.Key()) || carries(t.Elem())
	}
	return false
}
