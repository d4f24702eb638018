/* Finds libnccl.so.2 and the functions that hspmd calls; nothing is linked.
 *
 * Role:    one object for a process, or for a test's stand-in.
 * Purity:  shell (dlopen).
 * Threads: constant after open. */
#ifndef HSP_NCCL_LIB_H
#define HSP_NCCL_LIB_H
#include <stdbool.h>
#include "proto/base/err.h"
#include "proto/op/dtype.h"
#include "worker/comm/nccl/nccl_abi.h"

#define HSP_NCCL_LIBRARY "libnccl.so.2"
#define HSP_NCCL_PATH    4096

/* Functions by their names there, without "nccl". @stream: a cudaStream_t. */
struct hsp_nccl_lib {
    void *handle; /* of dlopen */
    int version;
    enum nccl_result (*GetVersion)(int *ret);
    enum nccl_result (*GetUniqueId)(struct nccl_id *ret);
    enum nccl_result (*CommInitRankConfig)(struct nccl_comm **ret, int n, struct nccl_id id, int me,
                                           struct nccl_config *config);
    enum nccl_result (*CommFinalize)(struct nccl_comm *c);
    enum nccl_result (*CommDestroy)(struct nccl_comm *c);
    enum nccl_result (*CommAbort)(struct nccl_comm *c);
    enum nccl_result (*CommGetAsyncError)(struct nccl_comm *c, enum nccl_result *ret);
    const char *(*GetErrorString)(enum nccl_result r);
    const char *(*GetLastError)(struct nccl_comm *c);
    enum nccl_result (*GroupStart)(void);
    enum nccl_result (*GroupEnd)(void);
    enum nccl_result (*Send)(const void *buf, size_t n, enum nccl_type t, int peer,
                             struct nccl_comm *c, void *stream);
    enum nccl_result (*Recv)(void *buf, size_t n, enum nccl_type t, int peer, struct nccl_comm *c,
                             void *stream);
    enum nccl_result (*AllReduce)(const void *in, void *out, size_t n, enum nccl_type t,
                                  enum nccl_op op, struct nccl_comm *c, void *stream);
    enum nccl_result (*Reduce)(const void *in, void *out, size_t n, enum nccl_type t,
                               enum nccl_op op, int root, struct nccl_comm *c, void *stream);
    enum nccl_result (*ReduceScatter)(const void *in, void *out, size_t n, enum nccl_type t,
                                      enum nccl_op op, struct nccl_comm *c, void *stream);
    enum nccl_result (*AllGather)(const void *in, void *out, size_t n, enum nccl_type t,
                                  struct nccl_comm *c, void *stream);
    enum nccl_result (*Broadcast)(const void *in, void *out, size_t n, enum nccl_type t, int root,
                                  struct nccl_comm *c, void *stream);
    /* NULL: not there. Makes a communicator of the members that give the same @color, in the order
     * of @key. All members of the old one call it, those with no color (NCCL_NO_COLOR), too. */
    enum nccl_result (*CommSplit)(struct nccl_comm *c, int color, int key, struct nccl_comm **ret,
                                  struct nccl_config *config);
};

/* Loads the library in @folder, where it is there and can be loaded; else, and with "",
 * HSP_NCCL_LIBRARY as the system finds it. HSP_EUNSUPPORTED: no such library, a version that is too
 * old or too new, or a missing function; the message says which; also with NULL, in a build without
 * NCCL. */
enum hsp_status hsp_nccl_lib_seek(const char *folder, struct hsp_nccl_lib *ret,
                                  struct hsp_err *err);
/* Loads @name as dlopen takes it. NULL: sought as configure was told (--with-nccl). Errors as
 * above. */
enum hsp_status hsp_nccl_lib_open(const char *name, struct hsp_nccl_lib *ret, struct hsp_err *err);
void hsp_nccl_lib_close(struct hsp_nccl_lib *l); /* the zeroed one is fine */

/* Turns @r into an error with the library's words: HSP_EPEER where it blames a peer or the network,
 * else HSP_EIO. Never HSP_ENOMEM: the library does not tell a lack of memory apart. @what:
 * "all-reduce of ranks 0,2". */
enum hsp_status hsp_nccl_failed(const struct hsp_nccl_lib *l, struct nccl_comm *c,
                                enum nccl_result r, const char *what, struct hsp_err *err);

/* A config for communicators whose calls do not wait; @max_ctas: blocks of their kernels, 0: the
 * library's choice. */
struct nccl_config hsp_nccl_config(int max_ctas);

/* Gets NCCL's type for sums of @t. Returns false if there is none. */
bool hsp_nccl_type(enum hsp_dtype t, enum nccl_type *ret);

#endif
