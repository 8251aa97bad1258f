// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package guest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bootTimeout bounds a boot. UML takes 0.3 s, QEMU 4 to 7 s under emulation
// with two cores, more on a loaded machine.
const bootTimeout = 90 * time.Second

// memoryMiB is a guest's memory: programs that register 8 MiB, and slack.
const memoryMiB = 768

// readyMark is the line that init.sh writes to the console when the guest can be used.
const readyMark = "GUEST READY"

//go:embed init.sh
var initScript string

//go:embed agent.sh
var agentScript string

// Guest is a running guest. Its eth0 is on the LAN and carries rxe0.
type Guest struct {
	kind    Kind
	n       int // from 1
	lan     *LAN
	console string // file
	process *os.Process
	ended   chan struct{} // closed when its kernel has stopped
	boots   int
}

// Boot boots a guest of each kind and returns when all can be used. They are
// stopped when the test ends.
func (l *LAN) Boot(kinds ...Kind) []*Guest {
	l.t.Helper()
	start := time.Now()
	var guests []*Guest
	for _, kind := range kinds {
		l.guests++
		g := &Guest{kind: kind, n: l.guests, lan: l, boots: 1}
		g.console = filepath.Join(l.dir, g.Name()+".console")
		g.start(kind.kernel())
		guests = append(guests, g)
	}
	for _, g := range guests {
		g.awaitReady(start.Add(bootTimeout))
		if g.kind == UML {
			go g.nudge()
		}
	}
	l.t.Logf("%d guests up in %.1f s", len(guests), time.Since(start).Seconds())
	return guests
}

// Name returns the guest's host name.
func (g *Guest) Name() string { return fmt.Sprintf("guest%d", g.n) }

// IPv4 returns the guest's address on the LAN.
func (g *Guest) IPv4() netip.Addr { return ipv4(g.n) }

// IPv6 returns the guest's address on the LAN.
func (g *Guest) IPv6() netip.Addr { return ipv6(g.n) }

// Tap returns the name of our end of the guest's eth0, where a capture sees
// every packet as it is on the wire, after segmentation.
func (g *Guest) Tap() string { return fmt.Sprintf("t%d", g.n) }

func (g *Guest) start(kernel string) {
	t := g.lan.t
	t.Helper()
	control := fmt.Sprintf("c%d", g.n)
	err := ip(
		"tuntap add "+g.Tap()+" mode tap vnet_hdr",
		"tuntap add "+control+" mode tap vnet_hdr",
		fmt.Sprintf("link set %s mtu %d txqueuelen 10000 master %s up", g.Tap(), g.lan.mtu, bridge),
		"link set "+control+" up",
		fmt.Sprintf("addr add %s/30 dev %s", controlAddr(g.n, 1), control),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ip("link del "+g.Tap(), "link del "+control); err != nil {
			t.Error(err)
		}
	})
	for name, text := range map[string]string{"init": initScript, "agent": agentScript} {
		if err := os.WriteFile(filepath.Join(g.lan.dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := g.command(kernel, control)
	console, err := os.Create(g.console)
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	cmd.Stdout, cmd.Stderr = console, console
	// A UML guest is many processes: a session of its own makes them one group to kill.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g.ended = make(chan struct{})
	go func() {
		_ = cmd.Wait() // being killed is how a guest ends
		close(g.ended)
	}()
	g.process = cmd.Process
	prefer(cmd.Process.Pid)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("console of %s:\n%s", g.Name(), tail(g.consoleText(), consoleLines))
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may be dead already
		<-g.ended
	})
}

// preferredNice is a guest's niceness, where we may set it.
const preferredNice = -10

// prefer lets a guest, a process group and session of its own, run before the
// other processes of a busy machine: peers whose retries end after half a
// second take one that waited so long for a CPU for dead. An ordinary user may
// not, and has the tests on an idle machine only.
func prefer(session int) {
	_ = syscall.Setpriority(syscall.PRIO_PGRP, session, preferredNice)
	// Where the kernel schedules a session as one, its niceness counts.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", session),
		[]byte(strconv.Itoa(preferredNice)), 0)
}

// nudgeInterval bounds how long a UML guest can overlook a packet.
const nudgeInterval = time.Millisecond

// nudge makes a UML guest look for packets again and again. The host's tap driver signals a packet
// before it marks the descriptor readable. So a guest on another CPU that looks for readable
// descriptors can find none, and would sleep until the next packet: half a second, if that is a
// retransmission. Only a kernel that is up survives the signal.
func (g *Guest) nudge() {
	tick := time.NewTicker(nudgeInterval)
	defer tick.Stop()
	for {
		select {
		case <-g.ended:
			return
		case <-tick.C:
			_ = g.process.Signal(syscall.SIGIO) // it may have just ended
		}
	}
}

// consoleLines is the number of console lines that a failed test shows.
const consoleLines = 30

// command is the guest as a program of the host's.
func (g *Guest) command(kernel, control string) *exec.Cmd {
	// Both kernels hand NAME=VALUE that they do not know to init as environment.
	environment := fmt.Sprintf("GUEST_INIT=%s/init GUEST_DIR=%s GUEST_KIND=%s GUEST_NAME=%s "+
		"GUEST_MTU=%d GUEST_IPV4=%s GUEST_IPV6=%s GUEST_CONTROL=%s",
		g.lan.dir, g.lan.dir, g.kind, g.Name(), g.lan.mtu, g.IPv4(), g.IPv6(), controlAddr(g.n, 2))
	mac := func(net byte) string { return fmt.Sprintf("52:54:00:%02x:00:%02x", net, g.n) }
	if g.kind == UML {
		args := []string{
			fmt.Sprintf("mem=%dM", memoryMiB), "root=/dev/root", "rootfstype=hostfs", "rootflags=/",
			"ro", "quiet", "init=" + g.lan.dir + "/init", "con=null", "con0=null,fd:1", "ssl=null",
			"uml_dir=" + g.lan.dir, "umid=" + g.Name(),
			fmt.Sprintf("vec0:transport=tap,ifname=%s,depth=128,gro=1,mtu=%d,mac=%s", g.Tap(),
				g.lan.mtu, mac(0x77)),
			fmt.Sprintf("vec1:transport=tap,ifname=%s,gro=1,mac=%s", control, mac(0x78)),
		}
		cmd := exec.Command(kernel+"/linux", append(args, strings.Fields(environment)...)...)
		cmd.Env = append(os.Environ(), "TMPDIR=/dev/shm") // the guest's memory
		return cmd
	}
	// On a busy machine the kernel may find that its timer does not tick, and panic:
	// no_timer_check, and no remapped interrupts.
	args := []string{
		"-M", "q35", "-accel", accelerator(), "-cpu", "max", "-smp", "2", "-m",
		fmt.Sprint(memoryMiB), "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-qmp", "unix:" + g.monitor() + ",server=on,wait=off", "-kernel", kernel + "/vmlinux",
		"-initrd", kernel + "/initrd", "-append",
		"console=ttyS0 quiet nokaslr mitigations=off intel_iommu=on no_timer_check panic=-1 " +
			environment, "-netdev", "tap,id=lan,ifname=" + g.Tap() + ",script=no,downscript=no",
		"-device", "virtio-net-pci,netdev=lan,romfile=,mac=" + mac(0x77),
		"-netdev", "tap,id=control,ifname=" + control + ",script=no,downscript=no",
		"-device", "virtio-net-pci,netdev=control,romfile=,mac=" + mac(0x78),
		"-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap",
	}
	switch n := g.lan.sharedBytes; {
	case g.lan.doorbell:
		args = append(args, "-device", "intel-iommu,intremap=off", "-chardev",
			"socket,id=doorbell,path="+g.lan.doorbellSocket(),
			"-device", "ivshmem-doorbell,chardev=doorbell,vectors=1")
	case n > 0:
		args = append(args, "-object",
			fmt.Sprintf("memory-backend-file,id=shared,share=on,mem-path=%s/shared,size=%d",
				g.lan.dir, n),
			"-device", "ivshmem-plain,memdev=shared")
	}
	for i := range g.lan.nodes {
		args = append(args, "-object",
			fmt.Sprintf("memory-backend-ram,id=node%d,size=%dM", i, memoryMiB/g.lan.nodes),
			"-numa", fmt.Sprintf("node,nodeid=%d,cpus=%d,memdev=node%d", i, i, i))
	}
	return exec.Command("qemu-system-x86_64", args...)
}

func (g *Guest) monitor() string { return filepath.Join(g.lan.dir, g.Name()+".monitor") }

// Reset resets a Debian guest as its button does, and returns when it can be used again. Commands
// started in it never end.
func (g *Guest) Reset() {
	t := g.lan.t
	t.Helper()
	conn, err := net.Dial("unix", g.monitor())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := json.NewDecoder(conn)
	// A panic ends QEMU, which else takes a reset for one.
	for _, command := range []string{
		`{"execute": "qmp_capabilities"}`,
		`{"execute": "set-action", "arguments": {"reboot": "reset"}}`,
		`{"execute": "system_reset"}`,
	} {
		if _, err := conn.Write([]byte(command)); err != nil {
			t.Fatal(err)
		}
		for answered := false; !answered; { // others are a greeting and events
			var answer struct{ Return, Error json.RawMessage }
			if err := answers.Decode(&answer); err != nil || answer.Error != nil {
				t.Fatalf("%s: %v %s", command, err, answer.Error)
			}
			answered = answer.Return != nil
		}
	}
	g.boots++
	g.awaitReady(time.Now().Add(bootTimeout))
}

// Kill stops the guest as a power cut does.
func (g *Guest) Kill() {
	_ = syscall.Kill(-g.process.Pid, syscall.SIGKILL) // it may be dead already
	<-g.ended
}

// accelerator names QEMU's way to run a CPU. A writable /dev/kvm alone proves
// little: where it is neither VMX nor SVM an ordinary kernel runs far slower
// than under emulation.
func accelerator() string {
	kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "tcg,thread=multi"
	}
	kvm.Close()
	for _, module := range []string{"kvm_intel", "kvm_amd"} {
		if _, err := os.Stat("/sys/module/" + module); err == nil {
			return "kvm"
		}
	}
	return "tcg,thread=multi"
}

func (g *Guest) awaitReady(deadline time.Time) {
	g.lan.t.Helper()
	for strings.Count(g.consoleText(), readyMark) < g.boots {
		select {
		case <-g.ended:
			g.lan.t.Fatalf("%s of kind %s ended instead of coming up", g.Name(), g.kind)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			g.lan.t.Fatalf("%s of kind %s did not come up within %v", g.Name(), g.kind, bootTimeout)
		}
	}
}

func (g *Guest) consoleText() string {
	text, err := os.ReadFile(g.console)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
