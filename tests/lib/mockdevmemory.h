/* Declares the mockdev's memory. The first five are functions of struct hsp_backend. */
#ifndef HSP_MOCKDEVMEMORY_H
#define HSP_MOCKDEVMEMORY_H
#include "tests/lib/mockdevqueue.h"

enum hsp_status hsp_mockdev_alloc(struct hsp_backend *b, enum hsp_mem mem, size_t bytes, void **ret,
                                  struct hsp_err *err);
void hsp_mockdev_release(struct hsp_backend *b, enum hsp_mem mem, void *p);
enum hsp_status hsp_mockdev_pin(struct hsp_backend *b, void *p, size_t bytes, struct hsp_err *err);
bool hsp_mockdev_unpin(struct hsp_backend *b, void *p);
bool hsp_mockdev_trim(struct hsp_backend *b);
void hsp_mockdev_memory_fini(struct hsp_mockdev *g);

#endif
