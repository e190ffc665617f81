/* SPDX-License-Identifier: Apache-2.0 */
/* Bandwidth of MPI from rank 0 to rank 1: a window of sends over a cold working set. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SET_BYTES ((size_t)256 << 20)
#define WINDOW 8

/* Sends, or receives, so many messages, WINDOW at a time; an empty answer ends the run. */
static void run(char *memory, size_t size, size_t count, int rank)
{
	MPI_Request requests[WINDOW];
	size_t slots = SET_BYTES / size, at = 0;

	for (size_t done = 0; done < count;) {
		int n = 0;

		for (; n < WINDOW && done < count; n++, done++, at = (at + 1) % slots) {
			char *place = memory + at * size;

			if (rank == 0)
				MPI_Isend(place, (int)size, MPI_BYTE, 1, 0, MPI_COMM_WORLD,
					  &requests[n]);
			else
				MPI_Irecv(place, (int)size, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
					  &requests[n]);
		}
		MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
	}
	if (rank == 0)
		MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

/* Arguments: bytes of a run, then message sizes. One JSON line for each size. */
int main(int argc, char **argv)
{
	char *memory = malloc(SET_BYTES);
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (!memory || argc < 3)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(memory, rank, SET_BYTES);
	for (int i = 2; i < argc; i++) {
		size_t size = strtoull(argv[i], NULL, 10);
		size_t count = strtoull(argv[1], NULL, 10) / size;
		double begin;

		run(memory, size, SET_BYTES / size, rank);
		begin = MPI_Wtime();
		run(memory, size, count, rank);
		if (rank == 0)
			printf("{\"size\": %zu, \"bytes_per_second\": %.0f}\n", size,
			       (double)(size * count) / (MPI_Wtime() - begin));
	}
	MPI_Finalize();
	free(memory);
	return 0;
}
