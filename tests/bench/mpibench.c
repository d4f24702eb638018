/* Times the all-reduces of meshbench by MPI: mpibench BYTES CALLS BATCHES, under mpirun. Output as
 * meshbench's. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int work(int rank, int ranks, size_t bytes, int calls, int batches)
{
    int n = (int)(bytes / sizeof(float));
    float *v = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (v == NULL) {
        return 1;
    }
    for (int k = 0; k <= batches; k++) {
        for (int i = 0; i < n; i++) {
            v[i] = 1.0f;
        }
        (void)MPI_Barrier(MPI_COMM_WORLD);
        double t = MPI_Wtime(), worst = 0;
        float want = 1.0f;
        for (int i = 0; i < calls; i++) {
            (void)MPI_Allreduce(MPI_IN_PLACE, v, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            want *= (float)ranks;
        }
        t = (MPI_Wtime() - t) / calls;
        for (int i = 0; i < n; i++) {
            if (v[i] != want) {
                return 1;
            }
        }
        (void)MPI_Reduce(&t, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0 && k > 0) {
            (void)printf("%s%.9f", k > 1 ? ", " : "", worst);
        }
    }
    free(v);
    return 0;
}

static int count(const char *s)
{
    return (int)strtol(s, NULL, 10);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS || argc != 4) {
        (void)fprintf(stderr, "usage: mpirun -np RANKS mpibench BYTES CALLS BATCHES\n");
        return 2;
    }
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0) {
        (void)printf("{\"seconds\": [");
    }
    int bad =
        work(rank, ranks, (size_t)strtoull(argv[1], NULL, 10), count(argv[2]), count(argv[3]));
    if (rank == 0) {
        (void)printf("]}\n");
    }
    return MPI_Finalize() != MPI_SUCCESS || bad;
}
