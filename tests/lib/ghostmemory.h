/* Declares the ghost's memory. The first five are functions of struct hsp_backend. */
#ifndef HSP_GHOSTMEMORY_H
#define HSP_GHOSTMEMORY_H
#include "tests/lib/ghostqueue.h"

enum hsp_status hsp_ghost_alloc(struct hsp_backend *b, enum hsp_mem mem, size_t bytes, void **ret,
                                struct hsp_err *err);
void hsp_ghost_release(struct hsp_backend *b, enum hsp_mem mem, void *p);
enum hsp_status hsp_ghost_pin(struct hsp_backend *b, void *p, size_t bytes, struct hsp_err *err);
bool hsp_ghost_unpin(struct hsp_backend *b, void *p);
bool hsp_ghost_trim(struct hsp_backend *b);
void hsp_ghost_memory_fini(struct hsp_ghost *g);

#endif
