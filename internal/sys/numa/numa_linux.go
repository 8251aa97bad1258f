// SPDX-License-Identifier: BSD-2-Clause

package numa

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"verbena/internal/sys/fdtrack"
)

const nodes = "/sys/devices/system/node/"

// Check reports whether memory and threads can be placed on a node.
//
// Errors: ErrNode.
func Check(node int) error {
	_, err := processors(node)
	return err
}

// processors returns those of a node that this thread may run on.
func processors(node int) (set unix.CPUSet, err error) {
	text, err := fdtrack.ReadFile(fmt.Sprintf("%snode%d/cpulist", nodes, node))
	if err != nil {
		online, _ := fdtrack.ReadFile(nodes + "online")
		return set, fmt.Errorf("%w: %d; there are %s", ErrNode, node,
			strings.TrimSpace(string(online)))
	}
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return set, os.NewSyscallError("sched_getaffinity", err)
	}
	for _, cpu := range parseList(string(text)) {
		if allowed.IsSet(cpu) {
			set.Set(cpu)
		}
	}
	if set.Count() == 0 {
		return set,
			fmt.Errorf("%w: %d: its processors are %s, and none of them is for this process",
				ErrNode, node, strings.TrimSpace(string(text)))
	}
	return set, nil
}

// parseList reads numbers as sysfs lists them: 0-3,8.
func parseList(s string) (list []int) {
	for _, part := range strings.Split(strings.TrimSpace(s), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil {
			continue
		}
		for ; from <= to; from++ {
			list = append(list, from)
		}
	}
	return list
}

// Run has the calling thread, which the goroutine must have locked, run on the
// processors of these nodes only.
//
// Errors: ErrNode.
func Run(list ...int) error {
	var all unix.CPUSet
	for _, node := range list {
		set, err := processors(node)
		if err != nil {
			return err
		}
		for i := range all {
			all[i] |= set[i]
		}
	}
	return os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(0, &all))
}
