/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collective operations of MPI ranks that poll. Prints us for each: allreduce of 8 bytes
 * and of 1 KiB, barrier, alltoall of 64 bytes to each rank.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH 8        /* operations between looks at the clock */
#define SECONDS 0.15   /* of each operation */
#define BYTES 1024
#define EACH 64

static char in[1 << 16], out[1 << 16];

static void operate(int which)
{
	switch (which) {
	case 0:
		MPI_Allreduce(in, out, 8 / sizeof(long), MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		break;
	case 1:
		MPI_Allreduce(in, out, BYTES / sizeof(long), MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		break;
	case 2:
		MPI_Barrier(MPI_COMM_WORLD);
		break;
	case 3:
		MPI_Alltoall(in, EACH, MPI_BYTE, out, EACH, MPI_BYTE, MPI_COMM_WORLD);
		break;
	}
}

int main(int argc, char **argv)
{
	int rank, ranks;
	double took[4];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks * EACH > (int)sizeof in)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int which = 0; which < 4; which++) {
		long count = 0;
		double start;
		int more = 1;

		for (int i = 0; i < BATCH; i++)
			operate(which);
		start = MPI_Wtime();
		while (more) {
			for (int i = 0; i < BATCH; i++)
				operate(which);
			count += BATCH;
			more = MPI_Wtime() - start < SECONDS;
			MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
		}
		took[which] = (MPI_Wtime() - start) / count * 1e6;
	}
	if (rank == 0)
		printf("us %.3f %.3f %.3f %.3f\n", took[0], took[1], took[2], took[3]);
	MPI_Finalize();
	return 0;
}
