/* Finds the processors and the network card nearest to a GPU, as sysfs tells them.
 *
 * Role:   for nvml.c. @pci: "0000:3b:00.0". @sys: "/sys".
 * Purity: shell: reads below @sys.
 */
#ifndef HSP_GPU_LOCALITY_H
#define HSP_GPU_LOCALITY_H
#include <stddef.h>

/* The node of the processors nearest to it, -1: not known. */
int hsp_gpu_numa(const char *sys, const char *pci);
/* The processors nearest to it, as Linux lists them; "" where it does not say, or @size is too
 * small. */
void hsp_gpu_cpus(const char *sys, const char *pci, char *ret, size_t size);
/* The network card that shares most of its way through the PCI tree, of several the first by name;
 * "" where none shares a root with it, or none can be seen. */
void hsp_gpu_card(const char *sys, const char *pci, char *ret, size_t size);

#endif
