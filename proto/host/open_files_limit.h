/* Raises the number of files and connections that this process may have open.
 *
 * Purity: shell (one limit of the process).
 */
#ifndef HSP_OPEN_FILES_LIMIT_H
#define HSP_OPEN_FILES_LIMIT_H
#include <stdint.h>

/* Raises the soft limit to @want, or to the hard one where that is less; never lowers it. Returns
 * the limit that holds then, UINT64_MAX: there is none. */
uint64_t hsp_nofile_raise(uint64_t want);

#endif
