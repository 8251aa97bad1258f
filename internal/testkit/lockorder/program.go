// SPDX-License-Identifier: BSD-2-Clause

package lockorder

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
)

// A Program is analysed source.
type Program struct {
	fset     *token.FileSet
	module   string // its path
	packages []*parsed

	functions []*function       // in the order of the source
	bodies    map[any]*function // by *types.Func or *ast.FuncLit
	named     []*types.Named    // the types of the program that have methods

	locks map[*types.Var]int // their numbers
	names []string           // of locks, by number

	flow     flow
	edges    map[[2]int]*call // the first place of each edge
	resolved map[*types.Func][]*function
	called   map[*ast.CallExpr][]*function
}

// A function is one with a body, or a literal.
type function struct {
	name string
	pkg  *parsed
	sig  *types.Signature
	body *ast.BlockStmt

	results []*types.Var // stand for its results
	callers map[*function]bool
	summary summary
}

// summary has the effects of a call on locks.
type summary struct {
	takes map[int]*call // the locks that it waits for
	// Effects of a call that returns nil as its last result, and of one that does not: a function
	// that fails often returns without the lock that it takes.
	failed, done effect
}

// effect is the difference that a call makes.
type effect struct {
	returns  bool  // there is such a return
	released locks // of the caller
	gained   locks
}

// call is a place where a lock is taken, there or in the function that is called there.
type call struct {
	pos      token.Pos
	in       *function
	callee   *function // nil where it is taken here
	released locks     // those of the caller that are released before
}

// An Edge says that a function may take a lock while it holds another one.
type Edge struct {
	Held, Taken string   // package below the module, type and field: internal/engine.Conn.mu
	Path        []string // the functions, from where Held is held to where Taken is taken
}

func newProgram() *Program {
	return &Program{fset: token.NewFileSet(), bodies: map[any]*function{},
		locks: map[*types.Var]int{}, edges: map[[2]int]*call{},
		resolved: map[*types.Func][]*function{}, called: map[*ast.CallExpr][]*function{},
		flow: flow{values: map[*types.Var]map[any]bool{}}}
}

// Locks returns the names of all locks.
func (p *Program) Locks() []string { return slices.Sorted(slices.Values(p.names)) }

// Edges returns the orders in which locks are taken, sorted.
func (p *Program) Edges() (all []Edge) {
	for k, c := range p.edges {
		all = append(all, Edge{p.names[k[0]], p.names[k[1]], p.path(c, k[1])})
	}
	slices.SortFunc(all, func(a, b Edge) int {
		return strings.Compare(a.Held+" "+a.Taken, b.Held+" "+b.Taken)
	})
	return all
}

// path follows a call to where the lock is taken.
func (p *Program) path(c *call, lock int) (steps []string) {
	for len(steps) < 20 {
		steps = append(steps, fmt.Sprintf("%s (%s)", c.in.name, p.at(c.pos)))
		if c.callee == nil {
			break
		}
		c = c.callee.summary.takes[lock]
	}
	return steps
}

// analyse finds the edges. The summaries of functions that call each other need several rounds.
func (p *Program) analyse() {
	for _, pkg := range p.packages {
		p.collect(pkg)
	}
	p.flow.run(p)
	due := p.functions
	for len(due) > 0 {
		again := map[*function]bool{}
		for _, f := range due {
			if p.walk(f) {
				for caller := range f.callers {
					again[caller] = true
				}
			}
		}
		due = nil
		for _, f := range p.functions { // in their order
			if again[f] {
				due = append(due, f)
			}
		}
	}
	clear(p.edges) // those of summaries that were not complete
	for _, f := range p.functions {
		p.walk(f)
	}
}

// collect finds the functions, types and locks of a package.
func (p *Program) collect(pkg *parsed) {
	for _, f := range pkg.files {
		var in []string // the functions around a literal
		for _, d := range f.Decls {
			if fd, ok := d.(*ast.FuncDecl); ok && fd.Body != nil {
				obj := pkg.info.Defs[fd.Name].(*types.Func)
				in = []string{functionName(obj)}
				p.add(obj, &function{name: in[0], pkg: pkg, sig: obj.Signature(), body: fd.Body})
			} else {
				in = []string{path.Base(pkg.types.Path())}
			}
			for n := range ast.Preorder(d) {
				if lit, ok := n.(*ast.FuncLit); ok {
					sig := pkg.info.TypeOf(lit).(*types.Signature)
					p.add(lit, &function{name: in[0] + ".func", pkg: pkg, sig: sig, body: lit.Body})
				}
			}
		}
	}
	scope := pkg.types.Scope()
	prefix := strings.TrimPrefix(pkg.types.Path(), p.module+"/") + "."
	for _, name := range scope.Names() {
		obj := scope.Lookup(name)
		if tn, ok := obj.(*types.TypeName); ok && !tn.IsAlias() {
			if named, ok := tn.Type().(*types.Named); ok && named.TypeParams().Len() == 0 {
				p.named = append(p.named, named)
			}
		}
		if v, ok := obj.(*types.Var); ok && isMutex(v.Type()) {
			p.addLock(v, prefix+name)
		}
		p.addFields(obj.Type(), prefix+name)
	}
}

func (p *Program) add(key any, f *function) {
	for v := range f.sig.Results().Variables() {
		f.results = append(f.results, types.NewVar(v.Pos(), f.pkg.types, "", v.Type()))
	}
	f.callers = map[*function]bool{}
	p.functions = append(p.functions, f)
	p.bodies[key] = f
}

// addFields adds the locks of a structure, and of structures without a name in it.
func (p *Program) addFields(t types.Type, name string) {
	st, ok := t.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for f := range st.Fields() {
		if isMutex(f.Type()) || isMutexPointer(f.Type()) {
			p.addLock(f, name+"."+f.Name())
		} else if _, ok := f.Type().(*types.Struct); ok {
			p.addFields(f.Type(), name+"."+f.Name())
		}
	}
}

func (p *Program) addLock(v *types.Var, name string) {
	if _, known := p.locks[v]; !known {
		p.locks[v] = len(p.names)
		p.names = append(p.names, name)
	}
}

// lockOf returns the number of a lock, which is a local variable if it is new.
func (p *Program) lockOf(v *types.Var) int {
	v = v.Origin()
	p.addLock(v, "local "+v.Name()+" at "+p.at(v.Pos()))
	return p.locks[v]
}

func functionName(f *types.Func) string {
	if r := f.Signature().Recv(); r != nil {
		t := r.Type()
		if ptr, ok := t.(*types.Pointer); ok {
			t = ptr.Elem()
		}
		if n, ok := t.(*types.Named); ok {
			return f.Pkg().Name() + "." + n.Obj().Name() + "." + f.Name()
		}
	}
	return f.Pkg().Name() + "." + f.Name()
}

func isMutex(t types.Type) bool {
	n, ok := t.(*types.Named)
	return ok && isIn(n.Obj(), "sync") &&
		(n.Obj().Name() == "Mutex" || n.Obj().Name() == "RWMutex")
}

func isMutexPointer(t types.Type) bool {
	ptr, ok := t.(*types.Pointer)
	return ok && isMutex(ptr.Elem())
}

// locks is a set of locks by number.
type locks [4]uint64

func (l locks) has(i int) bool { return l[i/64]>>(i%64)&1 != 0 }
func (l *locks) add(i int)     { l[i/64] |= 1 << (i % 64) }
func (l *locks) remove(i int)  { l[i/64] &^= 1 << (i % 64) }
func (l locks) or(m locks) locks {
	for i := range l {
		l[i] |= m[i]
	}
	return l
}
func (l locks) and(m locks) locks {
	for i := range l {
		l[i] &= m[i]
	}
	return l
}
func (l locks) without(m locks) locks {
	for i := range l {
		l[i] &^= m[i]
	}
	return l
}

func (l locks) each(f func(int)) {
	for i := range 64 * len(l) {
		if l.has(i) {
			f(i)
		}
	}
}
