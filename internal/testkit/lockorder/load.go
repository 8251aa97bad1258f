// SPDX-License-Identifier: BSD-2-Clause

package lockorder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// listed is a package as go list describes it.
type listed struct {
	ImportPath string
	Dir        string
	Export     string
	GoFiles    []string
	Module     *struct {
		Path string
		Main bool
	}
}

// parsed is a package whose source is analysed.
type parsed struct {
	files []*ast.File
	types *types.Package
	info  *types.Info
}

// Load reads the packages that match the patterns, with those of the same module that they import,
// without their tests. dir is in the module.
func Load(dir string, patterns ...string) (*Program, error) {
	list, err := goList(dir, patterns)
	if err != nil {
		return nil, err
	}
	p := newProgram()
	im := &sourceImporter{own: map[string]*types.Package{}, exports: map[string]string{}}
	im.other = importer.ForCompiler(p.fset, "gc", im.open)
	for _, l := range list { // a package comes behind those that it imports
		if l.Module == nil || !l.Module.Main {
			im.exports[l.ImportPath] = l.Export
			continue
		}
		p.module = l.Module.Path
		var files []*ast.File
		for _, name := range l.GoFiles {
			name = filepath.Join(l.Dir, name)
			f, err := parser.ParseFile(p.fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
		pkg, err := p.check(l.ImportPath, files, im)
		if err != nil {
			return nil, err
		}
		im.own[l.ImportPath] = pkg
	}
	p.analyse()
	return p, nil
}

// check types a package, and adds it to the program.
func (p *Program) check(path string, files []*ast.File, im types.Importer) (*types.Package, error) {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{},
		Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}}
	c := types.Config{Importer: im}
	pkg, err := c.Check(path, p.fset, files, info)
	if err != nil {
		return nil, err
	}
	p.packages = append(p.packages, &parsed{files, pkg, info})
	return pkg, nil
}

func goList(dir string, patterns []string) (all []listed, err error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-export",
		"-json=ImportPath,Dir,Export,GoFiles,Module"}, patterns...)...)
	var failure bytes.Buffer
	cmd.Dir, cmd.Stderr, cmd.Env = dir, &failure, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%q: %w: %s", cmd.Args, err, failure.Bytes())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		switch err := d.Decode(&l); err {
		case nil:
			all = append(all, l)
		case io.EOF:
			return all, nil
		default:
			return nil, err
		}
	}
}

// sourceImporter imports packages of the module from their source, and others as compiled.
type sourceImporter struct {
	own     map[string]*types.Package
	exports map[string]string
	other   types.Importer
}

// Import implements types.Importer.
func (i *sourceImporter) Import(path string) (*types.Package, error) {
	if pkg := i.own[path]; pkg != nil {
		return pkg, nil
	}
	return i.other.Import(path)
}

func (i *sourceImporter) open(path string) (io.ReadCloser, error) {
	if i.exports[path] == "" {
		return nil, fmt.Errorf("%s is not compiled", path)
	}
	return os.Open(i.exports[path])
}

// at returns a position, with the last two parts of its path.
func (p *Program) at(pos token.Pos) string {
	where := p.fset.Position(pos)
	dir, file := filepath.Split(where.Filename)
	return fmt.Sprintf("%s/%s:%d", filepath.Base(dir), file, where.Line)
}
