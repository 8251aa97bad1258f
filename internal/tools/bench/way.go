// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// way is the way between two processes.
type way int

const (
	sameHost  way = iota // over loopback or through shared memory
	vethRoCE             // between two network namespaces, by RoCEv2
	vethIWARP            // the same by iWARP
)

func (w way) String() string {
	return [...]string{"same host", "RoCEv2 over veth", "iWARP over veth"}[w]
}

// ends are the places where the two processes run.
type ends struct {
	host           string   // the server's address
	kind           string   // of the devices
	server, client []string // first words of the commands of either side
}

func (w way) ends(ctx context.Context, r *run) (ends, error) {
	if w == sameHost {
		return ends{host: r.host, kind: "roce"}, nil
	}
	if r.apart == nil {
		// they outlive this round; close ends them
		apart, err := newNamespaces(context.WithoutCancel(ctx))
		if err != nil {
			return ends{}, fmt.Errorf("%w: no network namespaces: %w", errLeftOut, err)
		}
		r.apart = apart
	}
	e := ends{host: vethServer, kind: "roce", server: r.apart.enter(r.apart.server),
		client: r.apart.enter(r.apart.client)}
	if w == vethIWARP {
		e.kind = "iwarp"
	}
	return e, nil
}

// namespaces are two network namespaces with a veth pair between them. Each lives as
// long as its process.
type namespaces struct {
	server, client *exec.Cmd
	user           bool // they belong to a user namespace
}

// Addresses of the ends of the pair.
const (
	vethServer = "10.77.7.1"
	vethClient = "10.77.7.2"
	vethDevice = "rdma0" // the server's interface
	vethFar    = "rdma1" // the client's

	vethServerMAC = "02:00:0a:4d:07:01"
	vethClientMAC = "02:00:0a:4d:07:02"
)

func newNamespaces(ctx context.Context) (_ *namespaces, err error) {
	n := &namespaces{user: os.Geteuid() != 0}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	unshare := []string{"unshare", "--net"}
	if n.user {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	if n.server, err = n.hold(ctx, unshare); err != nil {
		return nil, err
	}
	if n.client, err = n.hold(ctx, append(n.enter(n.server), "unshare", "--net")); err != nil {
		return nil, err
	}
	peer := strconv.Itoa(n.client.Process.Pid)
	if err := n.shell(ctx, n.server,
		"ip link set lo up && ip link add rdma0 address "+vethServerMAC+
			" type veth peer name rdma1 address "+vethClientMAC+" netns "+peer+
			" && ip addr add "+vethServer+"/24 dev rdma0 && ip link set rdma0 up"); err != nil {
		return nil, err
	}
	return n, n.shell(ctx, n.client,
		"ip link set lo up && ip addr add "+vethClient+"/24 dev rdma1 && ip link set rdma1 up")
}

// hold starts a process that keeps a new namespace until this one ends.
func (n *namespaces) hold(ctx context.Context, unshare []string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, unshare[0],
		append(unshare[1:], "sh", "-c", "echo ready; exec cat")...)
	cmd.WaitDelay = stopGrace
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if _, err := cmd.StdinPipe(); err != nil { // cat ends with it
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := out.Read(make([]byte, len("ready\n"))); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(unshare, " "), err)
	}
	return cmd, nil
}

// enter returns the first words of a command that runs in a namespace.
func (n *namespaces) enter(of *exec.Cmd) []string {
	enter := []string{"nsenter", "--target", strconv.Itoa(of.Process.Pid), "--net"}
	if n.user {
		enter = append(enter, "--user", "--preserve-credentials")
	}
	return append(enter, "--")
}

func (n *namespaces) shell(ctx context.Context, in *exec.Cmd, command string) error {
	argv := append(n.enter(in), "sh", "-c", command)
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return nil
}

func (n *namespaces) close() {
	for _, cmd := range []*exec.Cmd{n.client, n.server} {
		if cmd != nil && cmd.Process != nil {
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			_ = cmd.Wait()                          // by the signal
		}
	}
}
