// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"bytes"
	"os"
	"testing"
)

func TestGeneratedFilesAreFresh(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is stale (%v): go generate ./cabi/gen", path, err)
		}
	}
}

func header(entries string) string {
	return "typedef int x;\nstruct vb_engine {\n\tuint32_t version; /* of it */\n" + entries + "\n};\n"
}

// An entry that the generator cannot read is an error, not an entry less.
func TestEntriesThatAreRefused(t *testing.T) {
	for _, entry := range []string{
		"\tlong (*qp_count)(vb_handle qp); /* ibv_query_qp */",
		"\tint (*qp_count)(vb_handle qp); /* ibv_query_qp: how many */",
		"\tint (*qp_count)(vb_handle); /* ibv_query_qp */",
		"\tint (*qp_free)(vb_handle qp); /* ibv_destroy_qp, ends cq */",
		"\tint (*make)(int fd, vb_handle *qp); /* ibv_create_qp, ends qp */",
		"\tint count;",
	} {
		if list, _, err := functions(header(entry)); err == nil {
			t.Errorf("%q is read as %+v", entry, list)
		}
	}
	if _, _, err := functions("struct vb_other {\n};\n"); err == nil {
		t.Error("a header without the table is read")
	}
}

// A comment or a line break does not make another version; a declaration does.
func TestVersionIsTheDeclarations(t *testing.T) {
	one := numberOf(header("\tint (*a)(int fd);"))
	for entry, same := range map[string]bool{
		"\t/* Does a. */\n\tint (*a)(int fd);":     true,
		"\tint (*a)(int\n\t\tfd);":                 true,
		"\tint (*a)(int fd);\n\tint (*b)(int fd);": false,
		"\tint (*a)(long fd);":                     false,
	} {
		if got := numberOf(header(entry)); (got == one) != same {
			t.Errorf("%q: %#x, without it %#x", entry, got, one)
		}
	}
}
