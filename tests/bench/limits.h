/* What a processor can do at most: the yardsticks of the benchmarks.
 *
 * Both run on @threads threads at once (at most 64) and take the best of several tries; 0 where
 * threads or memory are missing. */
#ifndef HSP_LIMITS_H
#define HSP_LIMITS_H

/* fp32 operations a second of fused multiply-adds on registers. */
double hsp_limit_flops(unsigned threads);
/* Bytes read plus written a second by memcpy between arrays beyond all caches. */
double hsp_limit_bytes(unsigned threads);

#endif
