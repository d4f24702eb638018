/* Prints the counts of a stand-in when the program ends and HSPMD_FIGURES asks for them, as
 * lines "# figure NAME N" of stderr. tests/claims/cuda-host-logic adds them up.
 *
 * Each file that includes this counts for itself, under a lock of its own. */
#ifndef HSP_FIGURES_H
#define HSP_FIGURES_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HSP_FIGURES 64 /* names of one file */

static struct {
    const char *name; /* borrowed, for ever */
    unsigned long long n;
} hsp_figures[HSP_FIGURES];

static void hsp_figure(const char *name, unsigned long long n)
{
    for (int k = 0; k < HSP_FIGURES; k++) {
        if (hsp_figures[k].name == NULL) {
            hsp_figures[k].name = name;
        }
        if (hsp_figures[k].name == name || strcmp(hsp_figures[k].name, name) == 0) {
            hsp_figures[k].n += n;
            return;
        }
    }
}

__attribute__((destructor)) static void hsp_figures_tell(void)
{
    for (int k = 0; k < HSP_FIGURES && getenv("HSPMD_FIGURES") != NULL; k++) {
        if (hsp_figures[k].name != NULL) {
            (void)fprintf(stderr, "# figure %s %llu\n", hsp_figures[k].name, hsp_figures[k].n);
        }
    }
}

#endif
