/* Measures the limits of a processor: the yardsticks of the benchmarks.
 *
 * hsp_limit_flops and hsp_limit_bytes run on @threads threads at once (at most 64) and take the
 * best of several tries; they give 0 where threads or memory are missing. */
#ifndef HSP_LIMITS_H
#define HSP_LIMITS_H
#include <stddef.h>
#include <stdint.h>

/* fp32 operations a second of fused multiply-adds on registers. */
double hsp_limit_flops(unsigned threads);
/* Bytes read plus written a second by memcpy between arrays beyond all caches. */
double hsp_limit_bytes(unsigned threads);
/* Reads @bytes on this thread with the widest vectors, as fast as memory allows: the sum of their
 * words of 64 bits, without a rest below 256 bytes. */
uint64_t hsp_limit_sum(const void *mem, size_t bytes);

#endif
