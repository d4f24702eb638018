/* A prepared epoch of one member on a device whose memory the host cannot access
 * (tests/lib/mockdev.h). Its state is one tensor of doubles. */
#ifndef HSP_DEVICE_WORLD_H
#define HSP_DEVICE_WORLD_H
#include "tests/lib/mockdev.h"
#include "tests/lib/testlib.h"
#include "worker/executor/epoch.h"

#define DW_BYTES 256  /* bytes of a version: one tensor of 8 x 4 doubles */
#define DW_PIECE 4150 /* a file has three pieces: 8192 bytes precede the area */

extern const int64_t dw_full[HSP_MAX_RANK];

struct dw_world {
    char *dir;
    char log[4300];
    int fd;
    struct hsp_exec_env env;
    struct hsp_m_prepare p;
    struct hsp_ptensor tensor;
    struct hsp_tensor_bind bind;
    struct hsp_state_bind state;
    struct hsp_ex_epoch e;
};

int dw_setup(void **state);
int dw_teardown(void **state);
void dw_open_device(struct dw_world *w, struct hsp_mockdev_opts o);
/* Pieces of segments that are pinned now. */
uint32_t dw_pinned(const struct dw_world *w);
void dw_assert_no_breach(struct dw_world *w);
/* Takes memory as PREPARE does. */
void dw_take(struct dw_world *w);
/* Gives memory back as the end of an epoch does. */
void dw_leave(struct dw_world *w);
/* Gives all memory back: the epoch has ended, and the device has no job any more. */
void dw_give_all_back(struct dw_world *w);
/* Copies a version to the device and, as the engine has written it there, back into the other
 * segment. */
void dw_there_and_back(struct dw_world *w, double first);

#endif
