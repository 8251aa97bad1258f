// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && apps

package apps

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// mpi is a run of 4 ranks of testdata/allreduce.c. Open MPI's own directory is named after the user
// as this namespace has it, and would be in /tmp for all. If there are several interfaces it deals
// the ranks over their devices. libfabric does not find a rank with only a link-local address, so
// one interface is named.
func mpi(label, transport, only string) exchange {
	return exchange{
		program: "Open MPI", label: label, only: only,
		env: "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 UCX_NET_DEVICES=$DEV:1 UCX_LOG_LEVEL=warn " +
			"PRTE_MCA_plm=isolated OMPI_MCA_plm=isolated OMPI_MCA_btl=self FI_VERBS_IFACE=$NET OMPI_MCA_orte_tmpdir_base=$RUN PRTE_MCA_prte_tmpdir_base=$RUN",
		client: "mpirun -n 4 --oversubscribe " + transport + " $RUN/allreduce",
		says:   []string{`4 ranks: all sums are right`},
	}
}

var openMPI = []exchange{
	mpi("UCX rc_verbs", "--mca pml ucx --mca osc ucx -x UCX_TLS="+transports["rc_verbs"], ""),
	mpi("UCX ud_verbs", "--mca pml ucx --mca osc ucx -x UCX_TLS="+transports["ud_verbs"], ""),
	mpi("libfabric verbs;ofi_rxm", overRxM, "Ethernet"),
}

const overRxM = "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxm'"

// compileAllreduce leaves testdata/allreduce.c, compiled, in a directory.
func compileAllreduce(dir string) error {
	if out, err := exec.Command("mpicc", "-O2", "-Wall", "-Werror", "-o", filepath.Join(dir, "allreduce"), "testdata/allreduce.c").CombinedOutput(); err != nil {
		return fmt.Errorf("mpicc: %w: %s", err, out)
	}
	return nil
}
