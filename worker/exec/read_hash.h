/* Hashes the state just before the update of a step reads it, where it lies; where that is asked
 * for, also as the update has written it.
 *
 * An update destroys what it has read, so damage of the state between two updates could not be
 * found behind it. The hashes are compared with the seal of that version by the user of the engine.
 *
 * Example: version 7 was sealed with hash h of the embedding. Its bit 3 flips in the device's
 *          memory. The update of step 7 reads the wrong embedding; hsp_written.read of version 8
 *          has another hash than h.
 * Threads: that of the compute queue; open and close between steps.
 */
#ifndef HSP_READ_HASH_H
#define HSP_READ_HASH_H
#include "proto/program/program.h"

struct hsp_engine;

/* HSP_ENOMEM. */
enum hsp_status hsp_read_hash_open(struct hsp_engine *e, struct hsp_err *err);
void hsp_read_hash_close(struct hsp_engine *e);
/* Before a piece of the compute queue: gives the hashes when it is the first one of the step that
 * updates. Errors of the backend. */
enum hsp_status hsp_read_hash_before(struct hsp_engine *e, const struct hsp_piece *p,
                                     struct hsp_err *err);
struct hsp_written;
/* Behind the update, on the compute queue: gives the hashes of what was written, if they are asked
 * for, and puts them into @w. Errors of the backend. */
enum hsp_status hsp_read_hash_after(struct hsp_engine *e, struct hsp_written *w,
                                    struct hsp_err *err);

#endif
