// SPDX-License-Identifier: BSD-2-Clause

package verbena

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// otherWords are the tables whose names are not those of the constants: the words of a
// specification, of C's libraries, of the kernel's counters, or of messages.
var otherWords = []string{
	"ib.eventNames", "ib.vendorNames", "ib.wcStatusNames", "rdmacm.eventNames", "rdmacm.stateNames", "internal/roce.counterNames",
	"internal/iwarp/mpa.reasonNames", "internal/ntb/channel.counterNames", "internal/wire/cm.sidrNames", "internal/wire/ntb.statusNames",
}

// otherIndexes are the tables that are not indexed by the constants of the type alone.
var otherIndexes = []string{
	"internal/cm/iwcm.counterNames", "internal/wire/roce.nakNames", "internal/wire/roce.serviceNames", "internal/wire/ntb.wqeOpNames",
}

// TestNameTablesFollowTheirConstants holds each table of names behind a String method to
// the constants that it names: in their order, as many, and with their words, however those
// are written: BadSource is bad_source.
func TestNameTablesFollowTheirConstants(t *testing.T) {
	all := map[string]*nameTables{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		dir := s.dir
		if all[dir] == nil {
			all[dir] = &nameTables{consts: map[string]map[int]string{}, tables: map[string][]string{}, types: map[string]string{}}
		}
		all[dir].collect(s.file)
	}
	checked := 0
	for dir, p := range all {
		for table, typ := range p.types {
			names, ok := p.tables[table]
			if !ok || slices.Contains(otherIndexes, dir+"."+table) {
				continue
			}
			checked++
			p.check(t, dir, table, names, p.consts[typ])
		}
	}
	if checked < 20 {
		t.Errorf("only %d tables were found", checked)
	}
}

type nameTables struct {
	consts map[string]map[int]string // of a type, by value
	tables map[string][]string       // of a variable
	types  map[string]string         // whose String method reads a variable
}

func (p *nameTables) check(t *testing.T, dir, table string, names []string, consts map[int]string) {
	where := dir + "." + table
	for i, name := range names {
		c := consts[i]
		switch {
		case c == "" && name != "":
			t.Errorf("%s has %q for %d, which no constant is", where, name, i)
		case name != "" && !slices.Contains(otherWords, where) && !strings.HasSuffix(letters(c), letters(name)):
			t.Errorf("%s has %q for %s", where, name, c)
		}
	}
	for i, c := range consts {
		if i >= len(names) && !strings.HasPrefix(strings.ToLower(c), "num") {
			t.Errorf("%s has no name for %s", where, c)
		}
	}
}

// letters returns a name in the form that all its spellings share.
func letters(name string) string {
	return strings.NewReplacer("_", "", " ", "", "-", "").Replace(strings.ToLower(name))
}

func (p *nameTables) collect(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.collectString(d)
		case *ast.GenDecl:
			if d.Tok == token.CONST {
				p.collectConsts(d)
			} else if d.Tok == token.VAR {
				p.collectTables(d)
			}
		}
	}
}

// collectString notes which variable a String method reads.
func (p *nameTables) collectString(d *ast.FuncDecl) {
	if d.Name.Name != "String" || d.Recv == nil {
		return
	}
	typ, ok := d.Recv.List[0].Type.(*ast.Ident)
	if !ok {
		return
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		if x, ok := n.(*ast.IndexExpr); ok {
			if table, ok := x.X.(*ast.Ident); ok {
				p.types[table.Name] = typ.Name
			}
		}
		return true
	})
}

// collectConsts notes the constants of enumerations: literals, iota, and iota + n.
func (p *nameTables) collectConsts(d *ast.GenDecl) {
	typ, base, enum := "", 0, false
	for i, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		if len(v.Values) > 0 {
			typ, enum = "", false
			if id, ok := v.Type.(*ast.Ident); ok {
				typ = id.Name
			}
			base, enum = enumBase(v.Values[0], i)
		}
		if typ == "" || !enum || len(v.Names) != 1 || v.Names[0].Name == "_" {
			continue
		}
		if p.consts[typ] == nil {
			p.consts[typ] = map[int]string{}
		}
		if p.consts[typ][base+i] == "" {
			p.consts[typ][base+i] = v.Names[0].Name
		}
	}
}

// enumBase returns the number added to iota, at the i-th constant of a group.
func enumBase(e ast.Expr, i int) (base int, ok bool) {
	switch e := e.(type) {
	case *ast.Ident:
		return 0, e.Name == "iota"
	case *ast.BasicLit:
		n, err := strconv.ParseInt(e.Value, 0, 32)
		return int(n) - i, err == nil
	case *ast.BinaryExpr:
		x, isIota := e.X.(*ast.Ident)
		y, isLit := e.Y.(*ast.BasicLit)
		if isIota && isLit && x.Name == "iota" && e.Op == token.ADD {
			n, err := strconv.Atoi(y.Value)
			return n, err == nil
		}
	}
	return 0, false
}

// collectTables notes variables that are lists of strings.
func (p *nameTables) collectTables(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		if len(v.Values) != 1 {
			continue
		}
		lit, ok := v.Values[0].(*ast.CompositeLit)
		if !ok {
			continue
		}
		var names []string
		for _, e := range lit.Elts {
			s, ok := e.(*ast.BasicLit)
			if !ok || s.Kind != token.STRING {
				names = nil
				break
			}
			name, _ := strconv.Unquote(s.Value)
			names = append(names, name)
		}
		if len(names) > 0 {
			p.tables[v.Names[0].Name] = names
		}
	}
}
