/* How often the instructions of a program read and write each tensor.
 *
 * Purity: pure. */
#ifndef HSP_USES_H
#define HSP_USES_H
#include "proto/program/program.h"

struct hsp_uses {
    uint8_t read, written; /* 255 stands for more, too */
    uint32_t reader;       /* the last instruction that reads it */
};

/* By tensor; to be freed by free(). NULL without memory. */
struct hsp_uses *hsp_uses_new(const struct hsp_template *t);
/* Whether @tensor only hands a value from one instruction to the one that reads it. */
bool hsp_is_passed_on(const struct hsp_template *t, const struct hsp_uses *u, uint32_t tensor);

#endif
