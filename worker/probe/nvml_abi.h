/* Declares the part of libnvidia-ml.so.1 that hspmd uses, as its binary interface has it since
 * driver 450: no header of it is needed to build.
 *
 * Role:   types and numbers for nvml.c and the library's stand-in (tests/lib/fakenvml).
 * Source: NVML API reference; structures of versioned functions do not change.
 */
#ifndef HSP_NVML_ABI_H
#define HSP_NVML_ABI_H

enum nvml_result {
    NVML_SUCCESS = 0,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_TIMEOUT = 10,
    NVML_GPU_IS_LOST = 15,
    NVML_RESET_REQUIRED = 16
};

struct nvml_device; /* the library's */
struct nvml_set;

struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_pci {
    char legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char bus_id[32]; /* "00000000:3B:00.0" */
};
struct nvml_event {
    struct nvml_device *device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct nvml_memory) == 24, "as the library has it");
_Static_assert(sizeof(struct nvml_pci) == 68, "as the library has it");
_Static_assert(sizeof(struct nvml_event) == 32, "as the library has it");

#define NVML_EVENT_DOUBLE_BIT 2ULL
#define NVML_EVENT_XID        8ULL

/* why clocks are down: power brake and heat, by hardware or software. A power cap is how most GPUs
 * work all day. */
#define NVML_SLOW_REASONS (0x08ULL | 0x20ULL | 0x40ULL | 0x80ULL)

enum nvml_ecc { NVML_CORRECTED, NVML_UNCORRECTED };
enum nvml_counter { NVML_VOLATILE };
enum nvml_ancestor { /* of two GPUs, in the PCI tree */
                     NVML_SAME_BOARD = 0,
                     NVML_ONE_SWITCH = 10,
                     NVML_SWITCHES = 20,
                     NVML_HOST_BRIDGE = 30,
                     NVML_NODE = 40,
                     NVML_SYSTEM = 50
};
enum nvml_remote { NVML_REMOTE_GPU = 0, NVML_REMOTE_SWITCH = 2 };
#define NVML_MAX_LINKS 36 /* of any GPU; one with 18 says that it has no more */

#endif
