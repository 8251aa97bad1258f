// SPDX-License-Identifier: BSD-2-Clause

// Command gen writes the files of cabi that follow from another description, so that Go
// and C cannot disagree. Run it by `go generate ./cabi/gen`; a test fails while a file is
// stale.
//
//	internal/device ─────────────► libibverbs/device_limits.h   (limits.go)
//	struct vb_engine of engine.h ─► engine/exports.go, engine/table.c   (functions.go)
//	engine.h ─────────────────────► include/engine_version.h   (functions.go)
//	views, in layouts.go ─────────► engine/table.c's static assertions
//
// To add a function to the boundary:
//  1. declare it in struct vb_engine of cabi/include/engine.h, with its call behind it;
//  2. run go generate ./cabi/gen;
//  3. write the Go method that the compiler misses, in cabi/engine.
package main

import (
	"fmt"
	"os"
)

//go:generate go run .

func main() {
	files, err := generate()
	for path, text := range files {
		if err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate returns the files, by their paths from this folder.
func generate() (map[string][]byte, error) {
	header, err := os.ReadFile("../include/engine.h")
	if err != nil {
		return nil, err
	}
	list, constants, err := functions(string(header))
	if err != nil {
		return nil, err
	}
	exported, err := exports(list, constants, false)
	if err != nil {
		return nil, err
	}
	cmExported, err := exports(list, constants, true)
	if err != nil {
		return nil, err
	}
	asserts, err := layouts()
	return map[string][]byte{
		"../libibverbs/device_limits.h": limits(),
		"../include/engine_version.h":   version(numberOf(string(header))),
		"../engine/exports.go":          exported,
		"../engine/cmexports.go":        cmExported,
		"../engine/table.c":             table(list, asserts, numberOf(string(header))),
	}, err
}
