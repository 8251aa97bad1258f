// SPDX-License-Identifier: BSD-2-Clause

package chart

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"verbena/internal/version"
)

// Machine says where, when and with which versions something was measured.
type Machine struct {
	Date      string `json:"date"`
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	System    string `json:"system"`
	Verbena   string `json:"verbena"`
	Go        string `json:"go"`
}

// ThisMachine describes this machine now.
func ThisMachine() Machine {
	return Machine{Date: time.Now().Format(time.DateOnly), Processor: processor(),
		Cores: runtime.NumCPU(), System: system(), Verbena: version.String(), Go: runtime.Version()}
}

func (m Machine) String() string {
	return fmt.Sprintf("%s: %s, %d cores, %s, Verbena %s, %s", m.Date, m.Processor, m.Cores,
		m.System, m.Verbena, m.Go)
}

// system is the kernel's name and version, where /proc has them.
func system() string {
	var words []string
	for _, file := range []string{"ostype", "osrelease"} {
		b, err := os.ReadFile("/proc/sys/kernel/" + file)
		if err != nil {
			return "an unnamed system"
		}
		version, _, _ := strings.Cut(strings.TrimSpace(string(b)), "-") // not who built it
		words = append(words, version)
	}
	return strings.Join(words, " ")
}

// processor returns the name of the processor, or its architecture.
func processor() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
