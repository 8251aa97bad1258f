/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums over all ranks, of sizes from eager to rendezvous, each element checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	static const int sizes[] = {1, 7, 100, 1024, 5000, 65536, 300000};
	int rank, ranks, wrong = 0, all_wrong;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
		int n = sizes[s];
		long *mine = malloc(n * sizeof *mine), *sum = malloc(n * sizeof *sum);

		if (!mine || !sum)
			MPI_Abort(MPI_COMM_WORLD, 1);
		for (int round = 0; round < 5; round++) {
			for (int i = 0; i < n; i++)
				mine[i] = (long)(rank + 1) * (i + round);
			MPI_Allreduce(mine, sum, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
			for (int i = 0; i < n; i++)
				wrong += sum[i] != (long)ranks * (ranks + 1) / 2 * (i + round);
		}
		free(mine);
		free(sum);
	}
	MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0) {
		if (all_wrong)
			printf("%d ranks: %d sums are wrong\n", ranks, all_wrong);
		else
			printf("%d ranks: all sums are right\n", ranks);
	}
	MPI_Finalize();
	return all_wrong != 0;
}
