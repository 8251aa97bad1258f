// SPDX-License-Identifier: BSD-2-Clause

package policy

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../../../"

// spanned are the directories and files whose constants of time and number the page names: those
// that poll, wait, take turns or share, and congestion control. The protocols' machines and the
// objects of verbs are not among them.
var spanned = []string{
	"internal/engine/*.go", "internal/congestion/*.go",
	"internal/sys/cputime/*.go", "internal/sys/futex/*.go", "internal/sys/portshare/*.go",
	"internal/sys/shmring/*.go", "internal/sys/tcp/*.go", "internal/sys/udp/*.go",
	"internal/transport/*/*.go", "internal/ntb/backend/*.go",
	"cabi/engine/*.go", "cabi/engine/*.[ch]", "cabi/include/giveway.h",
	"cabi/libibverbs/poll.c", "cabi/libibverbs/channel.[ch]", "cabi/libibverbs/sleep.[ch]",
	"cabi/rsocket/poll.c", "cabi/rsocket/progress.c", "cabi/rsocket/send.c", "cabi/rsocket/ud.c",
	"cabi/rsocket/udp.c", "cabi/rsocket/wait.c", "cabi/rsocket/watch.[ch]",
}

// noPolicy has the constants of spanned that are no policy, by directory.
var noPolicy = []struct{ why, dir, names string }{
	{"marks, which stand for no amount", "internal/engine",
		"arrivalID flushing timerIdle timerEnded Busy AllLanes"},
	{"the space of queue pair numbers", "internal/engine",
		"slotQPNs partQPNs connChunk firstQPN restQPNs qpnBits partBits placeBits qpnRounds qpnHalf " +
			"qpnMask Parts"},
	{"the layout of a ring and its greeting", "internal/sys/shmring",
		"helloVersion helloBytes headAt answeredAt armedAt dataAt dataBytes totalBytes lineBytes " +
			"headerBytes skipLength questionBit prefixedBit PrefixBytes MaxBytes maxEntry restartBytes " +
			"MaxPackets MaxEntries"},
	{"formats: packets, messages of the keeper, files", "internal/sys/portshare",
		"Port udpHeaderBytes destQPWord maxFrameBytes maxForwardBytes maxKeys MaxKeyBytes " +
			"MaxWillBytes willRecordBytes willHeaderBytes keeperByte firstByte"},
	{"of other constants, or marks", "internal/sys/portshare",
		"Parts partShift keepAll keepNothing noSlot keeperIndex"},
	{"limits and structures of the system", "internal/sys/udp",
		"MaxSegments MaxBurstBytes rxBufferBytes maxIovecs maxRetriesEINTR minTrueSize rxControlWords " +
			"txControlWords sockExtendedErr"},
	{"of the protocol", "internal/sys/udp",
		"defaultTTL SourcePortMin SourcePortMax"},
	{"limits of the system", "internal/sys/tcp", "maxVectors maxRetriesEINTR"},
	{"numbers of the system", "internal/sys/futex", "futexWait futexWake futexPrivate"},
	{"sizes and layouts of windows, files and devices", "internal/ntb/backend",
		"MinWindowBytes MaxWindowBytes nonceBytes minSecretBytes maxSecretBytes Slots ones " +
			"ivPositionAt doorbellAt doorByte recordsAt recordBytes claimSpace serviceBits none"},
	{"numbers of the system", "internal/ntb/backend",
		"vfioType1v2 vfioBAR0 vfioBAR2 vfioConfigSpace vfioMSIX vfioSetIOMMU vfioGroupGetStatus " +
			"vfioGroupSetContainer vfioGroupGetDeviceFD vfioGetRegionInfo vfioGetIRQInfo vfioSetIRQs"},
	{"sizes of frames and messages", "internal/transport/iwarp", "headerRoom setupBytes"},
	{"sizes of frames and messages", "internal/transport/trp",
		"jumboMTU jumboPayload leastMTU udpBytes"},
	{"sizes of messages", "internal/transport/roce", "madBytes domainMessageBytes"},
	{"numbers of the system and of verbs", "cabi/engine",
		"futexWakeOp futexPrivateFlag futexOpAdd futexOpShift flowLabelMask maxRdAtomic gidTableLen " +
			"FEW_DESCRIPTORS KERNEL_SIGSET_BYTES MONITOR"},
	{"the layout of handles, and stacks", "cabi/engine",
		"placeBits generationBits chunkPlaces maxPlaces handlerRoom STACK_BYTES"},
	{"a mark", "cabi/rsocket", "RECEIVE"},
}

// declared are the constants of a file that have a value of time or number, with that value if the
// declaration alone shows it.
type declared map[string]string

// constants returns the constants of a file.
func constants(t *testing.T, file string) declared {
	t.Helper()
	if strings.HasSuffix(file, ".go") {
		return goConstants(t, file)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	list := declared{}
	number := regexp.MustCompile(`(?m)^(?:#define ([A-Z]\w*)[ \t]+|\t([A-Z]\w*) = )\(*(?:UINT64_C\()?` +
		`(?:([0-9]+)u?\)*,?\s*(?:/\*.*)?$|[0-9])`)
	for _, m := range number.FindAllStringSubmatch(string(b), -1) {
		list[m[1]+m[2]] = m[3]
	}
	return list
}

// goConstants returns the constants of a Go file, and its variables that begin with a time.
func goConstants(t *testing.T, file string) declared {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	list := declared{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST && g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			s := s.(*ast.ValueSpec)
			for i, n := range s.Names {
				if i >= len(s.Values) { // counted by iota, or without a value
					continue
				}
				switch v, timed, ok := value(s.Values[i]); {
				case !ok || g.Tok == token.VAR && !timed || n.Name == "_":
				case v == nil:
					list[n.Name] = ""
				case timed:
					ns, _ := constant.Int64Val(v)
					list[n.Name] = spaced(time.Duration(ns))
				default:
					list[n.Name] = v.ExactString()
				}
			}
		}
	}
	return list
}

// units has those of packages time and monotime.
var units = map[string]time.Duration{"Nanosecond": 1, "Microsecond": time.Microsecond,
	"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute}

// value returns the value of an expression, nil if it depends on other constants, and whether it is
// a time. Text, truth, what iota counts, and what other packages declare are no values.
func value(e ast.Expr) (v constant.Value, timed, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0), false, e.Kind == token.INT
	case *ast.Ident:
		return nil, false, !slices.Contains([]string{"iota", "true", "false", "nil"}, e.Name)
	case *ast.ParenExpr:
		return value(e.X)
	case *ast.UnaryExpr:
		_, timed, ok = value(e.X)
		return nil, timed, ok
	case *ast.SelectorExpr:
		p, isName := e.X.(*ast.Ident)
		unit := units[e.Sel.Name]
		ok = isName && (p.Name == "time" || p.Name == "monotime") && unit != 0
		return constant.MakeInt64(int64(unit)), true, ok
	case *ast.BinaryExpr:
		x, timedX, okX := value(e.X)
		y, timedY, okY := value(e.Y)
		timed, ok = timedX || timedY, okX && okY
		switch {
		case !ok || x == nil || y == nil:
		case e.Op == token.SHL:
			n, _ := constant.Uint64Val(y)
			v = constant.Shift(x, token.SHL, uint(n))
		case e.Op == token.QUO:
			v = constant.BinaryOp(x, token.QUO_ASSIGN, y)
		default:
			v = constant.BinaryOp(x, e.Op, y)
		}
		return v, timed, ok
	}
	return nil, false, false
}

// spaced is a time as the page has it.
func spaced(d time.Duration) string {
	s := regexp.MustCompile("[a-zµ]+").FindString(d.String())
	return strings.TrimSuffix(d.String(), s) + " " + s
}

// plain is a value of the page as goConstants has it.
func plain(value string) string {
	var n int
	var unit string
	if k, _ := fmt.Sscanf(value, "%d %s", &n, &unit); k == 2 {
		switch unit {
		case "KiB":
			return fmt.Sprint(n << 10)
		case "MiB":
			return fmt.Sprint(n << 20)
		}
		return value
	}
	return strings.ReplaceAll(value, ",", "")
}

// named returns the constants that the page names for each file, and checks their values.
func named(t *testing.T) map[string][]string {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| (`\\w+`(?:, `\\w+`)*) \\| ([^|]+) \\| `([^`]+)` \\|")
	rows := row.FindAllStringSubmatch(document(t), -1)
	if len(rows) == 0 {
		t.Fatal("the page has no constants")
	}
	all := map[string][]string{}
	for _, r := range rows {
		names, values, file := strings.Split(strings.ReplaceAll(r[1], "`", ""), ", "),
			strings.Split(r[2], ", "), r[3]
		all[file] = append(all[file], names...)
		if len(names) != len(values) {
			t.Errorf("%s: %d names and %d values: %s", file, len(names), len(values), r[0])
			continue
		}
		have := constants(t, root+file)
		for i, n := range names {
			is, ok := have[n]
			if !ok {
				t.Errorf("%s has no constant %s", file, n)
			} else if is != "" && is != plain(values[i]) {
				t.Errorf("%s: %s is %s, the page has %s", file, n, is, values[i])
			}
		}
	}
	return all
}

// The page names each constant of time or number of the packages that the policy spans. Those that
// are no policy are excepted.
func TestPageNamesTheConstants(t *testing.T) {
	all := named(t)
	excepted := map[[2]string]bool{} // by directory and name: whether it is there
	for _, e := range noPolicy {
		for _, n := range strings.Fields(e.names) {
			excepted[[2]string{e.dir, n}] = false
		}
	}
	for _, pattern := range spanned {
		files, err := filepath.Glob(root + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file := filepath.ToSlash(strings.TrimPrefix(path, filepath.FromSlash(root)))
			for n := range constants(t, path) {
				key := [2]string{filepath.ToSlash(filepath.Dir(file)), n}
				if _, ok := excepted[key]; ok {
					excepted[key] = true
				} else if !slices.Contains(all[file], n) {
					t.Errorf("%s: docs/design/policy.md does not say what %s is for", file, n)
				}
			}
		}
	}
	for key, there := range excepted {
		if !there {
			t.Errorf("%s has no constant %s: take it from noPolicy", key[0], key[1])
		}
	}
}
