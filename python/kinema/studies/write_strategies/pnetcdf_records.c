/* One configuration through PnetCDF, with the variables of Kinema's own NetCDF file: mpiexec -n N program VALUES FILE RESULT WARM.

VALUES: an int64 number of atoms, then float64 of this machine: lengths (3), coordinates, velocities and forces (atoms, 3)
in the units of the file. Each rank reads its share of them, in order, before the clock starts: nothing is sorted.
RESULT gets what the programs of the other cells write. WARM: bytes that all ranks together write before, into files that
are removed, as the other cells do. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { SECONDS, CPU, WRITE, SYNC, PEAK, BASE, SHARE, MEASURES };

static void end(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void check(int code, const char *what)
{
    if (code != NC_NOERR) end(what, ncmpi_strerror(code));
}

/* seconds of the processor, and the most bytes of memory */
static void used(double *cpu, double *peak)
{
    struct rusage found;
    getrusage(RUSAGE_SELF, &found);
    *cpu = found.ru_utime.tv_sec + found.ru_stime.tv_sec + 1e-6 * (found.ru_utime.tv_usec + found.ru_stime.tv_usec);
    *peak = 1024.0 * found.ru_maxrss;
}

static void text(int file, int variable, const char *name, const char *value)
{
    check(ncmpi_put_att_text(file, variable, name, strlen(value), value), name);
}

static int define(int file, const char *name, nc_type type, int n, const int *dimensions, const char *units)
{
    int variable;
    check(ncmpi_def_var(file, name, type, n, dimensions, &variable), name);
    text(file, variable, "units", units);
    return variable;
}

/* pages of memory that were just in use */
static void warm_up(const char *path, int rank, double bytes)
{
    static const char block[1 << 20];
    char *name = malloc(strlen(path) + 32);
    if (!name) end(path, "no memory");
    sprintf(name, "%s.warm-%06d", path, rank);
    FILE *file = fopen(name, "wbx");
    if (!file || setvbuf(file, NULL, _IONBF, 0) || remove(name)) end(name, "cannot be written");
    for (double done = 0; done < bytes; done += sizeof block)
        if (fwrite(block, 1, sizeof block, file) != sizeof block) end(name, "cannot be written");
    fclose(file);
    free(name);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 1) { /* whether this launcher and this library are of one MPI */
        if (rank == 0) printf("ranks: %d\n", size);
        return MPI_Finalize();
    }
    if (argc != 5) end("usage", "program VALUES FILE RESULT WARM");

    double mine[MEASURES] = {0}, lengths[3], unused;
    int64_t atoms;
    FILE *values = fopen(argv[1], "rb");
    if (!values || fread(&atoms, 8, 1, values) != 1 || fread(lengths, 8, 3, values) != 3) end(argv[1], "cannot be read");
    used(&unused, &mine[BASE]);
    MPI_Offset first = atoms * rank / size, n = atoms * (rank + 1) / size - first;
    double *vectors[3];
    for (int i = 0; i < 3; i++) {
        vectors[i] = malloc(24 * n + 1);
        if (!vectors[i]) end(argv[1], "no memory");
        if (fseeko(values, 32 + 24 * (atoms * i + first), SEEK_SET) || (MPI_Offset)fread(vectors[i], 24, n, values) != n)
            end(argv[1], "is too short");
    }
    fclose(values);
    mine[SHARE] = 72.0 * n;
    warm_up(argv[2], rank, atof(argv[4]) / size);

    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime(), cpu_before, cpu_after;
    used(&cpu_before, &unused);
    int file, frame, atom, spatial, cell;
    check(ncmpi_create(MPI_COMM_WORLD, argv[2], NC_NOCLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file), argv[2]);
    text(file, NC_GLOBAL, "Conventions", "AMBER");
    text(file, NC_GLOBAL, "ConventionVersion", "1.0");
    text(file, NC_GLOBAL, "application", "AMBER");
    text(file, NC_GLOBAL, "program", "kinema bench-write");
    text(file, NC_GLOBAL, "programVersion", "1");
    check(ncmpi_def_dim(file, "frame", NC_UNLIMITED, &frame), "frame");
    check(ncmpi_def_dim(file, "spatial", 3, &spatial), "spatial");
    check(ncmpi_def_dim(file, "atom", atoms, &atom), "atom");
    check(ncmpi_def_dim(file, "cell_spatial", 3, &cell), "cell_spatial");
    int angular;
    check(ncmpi_def_dim(file, "cell_angular", 3, &angular), "cell_angular");
    int of_atoms[] = {frame, atom, spatial}, of_lengths[] = {frame, cell}, of_angles[] = {frame, angular};
    int time = define(file, "time", NC_FLOAT, 1, &frame, "picosecond");
    int variables[] = {
        define(file, "coordinates", NC_FLOAT, 3, of_atoms, "angstrom"),
        define(file, "velocities", NC_FLOAT, 3, of_atoms, "angstrom/picosecond"),
        define(file, "forces", NC_FLOAT, 3, of_atoms, "kilocalorie/mole/angstrom"),
    };
    double factor = 20.455;
    check(ncmpi_put_att_double(file, variables[1], "scale_factor", NC_DOUBLE, 1, &factor), "scale_factor");
    int cell_lengths = define(file, "cell_lengths", NC_DOUBLE, 2, of_lengths, "angstrom");
    int cell_angles = define(file, "cell_angles", NC_DOUBLE, 2, of_angles, "degree");
    check(ncmpi_enddef(file), "enddef");
    for (int i = 0; i < 3; i++) {
        MPI_Offset start[] = {0, first, 0}, count[] = {1, n, 3};
        check(ncmpi_put_vara_double_all(file, variables[i], start, count, vectors[i]), "values");
    }
    /* one rank gives what belongs to no atom */
    MPI_Offset start[] = {0, 0}, none[] = {0, 0}, three[] = {1, 3}, one[] = {1};
    float moment = 0.49f;
    double angles[] = {90, 90, 90};
    check(ncmpi_put_vara_float_all(file, time, start, rank ? none : one, &moment), "time");
    check(ncmpi_put_vara_double_all(file, cell_lengths, start, rank ? none : three, lengths), "cell_lengths");
    check(ncmpi_put_vara_double_all(file, cell_angles, start, rank ? none : three, angles), "cell_angles");
    mine[WRITE] = MPI_Wtime() - began;
    check(ncmpi_sync(file), "sync");
    check(ncmpi_close(file), "close");
    mine[SECONDS] = MPI_Wtime() - began;
    mine[SYNC] = mine[SECONDS] - mine[WRITE];
    used(&cpu_after, &mine[PEAK]);
    mine[CPU] = cpu_after - cpu_before;

    double *all = malloc(sizeof mine * size);
    MPI_Gather(mine, MEASURES, MPI_DOUBLE, all, MEASURES, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        FILE *written = fopen(argv[2], "rb"), *result = fopen(argv[3], "w");
        if (!written || !result || fseeko(written, 0, SEEK_END)) end(argv[3], "cannot be written");
        const char *library = ncmpi_inq_libvers();
        char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
        int length;
        MPI_Get_library_version(mpi, &length);
        fprintf(result, "{\"mpi\": \"PnetCDF %.*s on %.*s\", \"bytes\": %lld, \"ranks\": [",
                (int)strcspn(library, " "), library, (int)strcspn(mpi, ",\n\"\\\t"), mpi, (long long)ftello(written));
        for (int i = 0; i < size; i++) {
            double *its = all + i * MEASURES;
            fprintf(result, "%s{\"seconds\": %.6f, \"cpu\": %.6f, \"phases\": {\"write\": %.6f, \"sync\": %.6f}, "
                    "\"peak\": %.0f, \"base\": %.0f, \"share\": %.0f}", i ? ", " : "", its[SECONDS], its[CPU],
                    its[WRITE], its[SYNC], its[PEAK], its[BASE], its[SHARE]);
        }
        fprintf(result, "]}\n");
        if (fclose(result)) end(argv[3], "cannot be written");
    }
    return MPI_Finalize();
}
