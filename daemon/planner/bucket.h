/* Chooses how many bytes of gradients or parameters travel as one (plan.h, `bucket`).
 *
 * The least power of two at which latency is at most 5 % of the time of a bucket, over the slowest
 * link of the plan. Example: 100 us and 1 Gbit/s between two ranks. Each phase takes 125 us, as the
 * synchronisation is priced (price.c), and half of a bucket at 125 bytes each us; 594 KB would do,
 * so it is 1 MiB.
 *
 * Purity: pure. */
#ifndef HSP_BUCKET_H
#define HSP_BUCKET_H
#include "daemon/plan/plan.h"
#include "daemon/planner/links.h"

/* Among @holders of a parameter. 0: nobody else has it. At most HSP_MAX_BUCKET. */
uint64_t hsp_bucket_bytes(const struct hsp_link_cost *link, uint32_t holders);
/* The bucket of @plan, whose rank r is device[r]: 0 where a device knows none, else as stated, else
 * for the parameters that most ranks hold. */
uint64_t hsp_bucket_of_plan(const struct hsp_plan *plan, const struct hsp_cluster_desc *c,
                            const uint32_t *device);
/* Collectives for @n parameters of @bytes together. */
double hsp_bucket_count(uint64_t bucket, double n, double bytes);

#endif
