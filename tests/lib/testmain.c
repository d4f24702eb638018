/* Runs a program of test files: picks one by the name of the program, else by the first
 * argument; where there is one only, that one. */
#include <stdio.h>

#include "tests/lib/testlib.h"

static struct hsp_test_file *files;
int hsp_test_argc;
char **hsp_test_argv;

void hsp_test_enter(struct hsp_test_file *file)
{
    struct hsp_test_file **at = &files;
    while (*at != NULL && strcmp((*at)->name, file->name) < 0) {
        at = &(*at)->next;
    }
    file->next = *at;
    *at = file;
}

static const struct hsp_test_file *find(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const struct hsp_test_file *f = files;
    while (f != NULL && strcmp(f->name, name) != 0) {
        f = f->next;
    }
    return f;
}

int hsp_test_run(const char *name)
{
    const struct hsp_test_file *f = find(name);
    return f != NULL ? f->run() : 2;
}

int main(int argc, char **argv)
{
    const struct hsp_test_file *f = NULL;
    hsp_test_argc = argc;
    hsp_test_argv = argv;
    if (argc > 0) {
        f = find(argv[0]);
    }
    if (f == NULL && argc > 1) {
        f = find(argv[1]);
        hsp_test_argc--;
        hsp_test_argv++;
    }
    if (f == NULL && files != NULL && files->next == NULL) {
        f = files;
    }
    if (f != NULL) {
        return f->run();
    }
    (void)fprintf(stderr, "usage: %s TEST, one of:\n", argc > 0 ? argv[0] : "PROGRAM");
    for (f = files; f != NULL; f = f->next) {
        (void)fprintf(stderr, "  %s\n", f->name);
    }
    return 2;
}
