/* Makes a libFuzzer program also write its seeds: fuzz_NAME --seeds FOLDER. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

static const char *out_dir;

static void write_seed(const char *name, const uint8_t *data, size_t len)
{
    const char *base = strrchr(name, '/');
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", out_dir, base != NULL ? base + 1 : name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, len, f) != len || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    if (*argc == 3 && strcmp((*argv)[1], "--seeds") == 0) {
        out_dir = (*argv)[2];
        hsp_fuzz_each_seed(write_seed);
        exit(0);
    }
    return 0;
}
