// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// mpiWay is a transport of Open MPI's.
type mpiWay struct {
	name       string
	ours, peer []string // arguments of mpirun
	on         way      // where the ranks run: libfabric passes over loopback
	env        []string // of both; DEVICE and NET stand for the device and its interface
}

var mpiWays = []mpiWay{
	{"UCX rc", ucxArgs("self,rc_verbs,ud_verbs:aux", "DEVICE:1"), ucxArgs("self,tcp", "NET"),
		sameHost, nil},
	{"UCX ud", ucxArgs("self,ud_verbs", "DEVICE:1"), ucxArgs("self,tcp", "NET"), sameHost, nil},
	{"libfabric", ofiArgs("verbs;ofi_rxm"), ofiArgs("tcp;ofi_rxm"), vethRoCE,
		[]string{"FI_VERBS_IFACE=NET", "FI_TCP_IFACE=NET"}},
}

func ucxArgs(transports, devices string) []string {
	return []string{"--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "pml_ucx_tls", "any",
		"--mca", "pml_ucx_devices", "any",
		"-x", "UCX_TLS=" + transports, "-x", "UCX_NET_DEVICES=" + devices}
}

func ofiArgs(provider string) []string {
	return []string{"--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca",
		"mtl_ofi_provider_include", provider}
}

// rankGroups are the collective operations of c/ranks.c.
var rankGroups = func() (all []group) {
	for _, w := range mpiWays {
		for _, n := range []int{2, 4, 8, 16} {
			all = append(all, w.group(n))
		}
	}
	return all
}()

func (w mpiWay) group(ranks int) group {
	most := 1.2
	if ranks == 2 {
		most = 1
	}
	of := func(ours bool) func(context.Context, *run) ([]float64, error) {
		return func(ctx context.Context, r *run) ([]float64, error) {
			return w.measured(ctx, r, ranks, ours)
		}
	}
	g := group{ours: of(true), peer: of(false)}
	operations := []string{"allreduce 8 B", "allreduce 1 KiB", "barrier", "alltoall 64 B"}
	for _, operation := range operations {
		name := fmt.Sprintf("%s, %d ranks: %s", w.name, ranks, operation)
		g.rows = append(g.rows, row{name, "µs", "tcp", goal{bound: most, ratio: true}})
	}
	return g
}

// measured runs the ranks once.
func (w mpiWay) measured(ctx context.Context, r *run, ranks int, ours bool) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	path, err := r.compiled(ctx, "mpicc", "ranks")
	if err != nil {
		return nil, err
	}
	ends, err := w.on.ends(ctx, r)
	if err != nil {
		return nil, err
	}
	device, args := r.device, w.ours
	if w.on != sameHost {
		device = "roce_" + vethDevice
	}
	argv := append([]string{}, ends.server...)
	if ours {
		argv = append(argv, r.verbena, "run", "--device", ends.kind, "--")
	} else {
		args = w.peer
	}
	_, net, _ := strings.Cut(device, "_")
	fill := strings.NewReplacer("DEVICE", device, "NET", net)
	argv = append(argv, "mpirun", "-n", strconv.Itoa(ranks), "--oversubscribe")
	for _, a := range args {
		// UCX's variables have NET in their names.
		name, value, ok := strings.Cut(a, "=")
		if ok {
			a = name + "=" + fill.Replace(value)
		}
		argv = append(argv, a)
	}
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], path)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // mpirun ends its ranks
	cmd.WaitDelay = stopGrace
	dir := filepath.Dir(path)
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_plm=isolated", "OMPI_MCA_btl=self", "OMPI_MCA_orte_tmpdir_base="+dir,
		"PRTE_MCA_plm=isolated", "PRTE_MCA_prte_tmpdir_base="+dir, "UCX_LOG_LEVEL=warn")
	for _, e := range w.env {
		name, value, _ := strings.Cut(e, "=")
		cmd.Env = append(cmd.Env, name+"="+fill.Replace(value))
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	for line := range strings.Lines(out.String()) {
		v := make([]float64, 4)
		n, _ := fmt.Sscanf(line, "us %g %g %g %g", &v[0], &v[1], &v[2], &v[3])
		if n == len(v) && err == nil {
			return v, nil
		}
	}
	return nil, fmt.Errorf("mpirun: %w\n%s", errors.Join(err, errors.New("no figures")),
		tail(out.String()))
}
