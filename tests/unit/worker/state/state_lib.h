/* Makes random boxes, tensors whose elements tell their place, and segments in a folder, for the
 * tests of worker/state. */
#ifndef HSP_STATE_LIB_H
#define HSP_STATE_LIB_H
#include "tests/lib/testlib.h"
#include "worker/state/region.h"
#include "worker/state/segment.h"

/* Cuts @box at random into at most @max disjoint boxes that cover it; returns their number. */
size_t random_cuts(const struct hsp_box *box, size_t max, const char *name, uint64_t seed,
                   struct hsp_box *ret);
/* A random box inside @box, perhaps empty. */
struct hsp_box random_inside(const struct hsp_box *box, const char *name, uint64_t seed);

/* Value of element @index (flat, in the whole tensor) of (tensor, kind) at @version. */
double element(uint32_t tensor, uint8_t kind, uint64_t version, int64_t index);
/* Fills a dense array that holds @box of a tensor of extents @full. */
void fill_box(enum hsp_dtype t, uint32_t tensor, uint8_t kind, uint64_t version,
              const int64_t *full, const struct hsp_box *box, void *data);
/* Number of wrong elements of @region in an array that holds @held. */
int64_t wrong_in_box(enum hsp_dtype t, uint32_t tensor, uint8_t kind, uint64_t version,
                     const int64_t *full, const struct hsp_box *region, const struct hsp_box *held,
                     const void *data);

/* Setup and teardown of a test: *state is the path of an empty folder. */
int in_folder(void **state);
int folder_gone(void **state);
/* A segment of job gpt-2.small on node-1/0. */
struct hsp_segment_key segment_key(uint64_t epoch, uint32_t slot);
/* Its file in @dir; the text is good until the next call. */
const char *segment_file(const char *dir, const struct hsp_segment_key *k);

/* Control readdir in the tests of worker/state (folder_test.c). */
extern int names_left; /* names that readdir gives before it fails with EIO; -1: it does not fail */
extern const char *hidden_name;     /* a name that readdir passes over; NULL: none */
extern void (*at_folder_end)(void); /* called at the end of a folder; NULL: nothing */

/* Control openat and fsync (ckpt_found_test.c, folder_test.c). */
extern void (*at_open)(const char *name); /* called before a name is opened; NULL: nothing */
extern int syncs_left; /* syncs of folder sync_in before one fails with EIO; -1: none fails */
extern const char *sync_in;

/* Leaves only @n descriptors to open; again as many as before. */
void starve_descriptors(unsigned n);
void feed_descriptors(void);

/* Flips bit @bit of byte @at of a file; truncates it. */
void flip_bit(const char *path, uint64_t at, int bit);
void cut_file(const char *path, uint64_t bytes);
uint64_t size_of(const char *path);

#endif
