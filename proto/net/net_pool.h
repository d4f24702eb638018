/* Counts connections by pool, and keeps the list of the strangers in a pool.
 *
 * A connection leaves its pool when its handle begins to close, for the descriptor is free then.
 * Its slot in the table is free when the handle has closed: the table has NET_ENDING slots more.
 *
 * Role:   below net_table. Not included outside this folder.
 * Purity: shell (memory). */
#ifndef HSP_NET_POOL_H
#define HSP_NET_POOL_H
#include "proto/net/net_impl.h"

/* Memory for the lists. HSP_ENOMEM: hsp_net_pools_fini is due all the same. */
enum hsp_status hsp_net_pools_init(struct hsp_net *n, struct hsp_err *err);
void hsp_net_pools_fini(struct hsp_net *n);

/* Moves @c into a pool. False: it is full, and @c stays where it is. */
bool hsp_net_pool_join(struct net_conn *c, enum hsp_net_pool pool);
/* Puts @c, which is in no pool, among the strangers of @pool. Returns whose place it takes, which
 * the caller has to end; NULL: nobody's; @c: it finds none, and is in no pool. */
struct net_conn *hsp_net_pool_arrive(struct net_conn *c, enum hsp_net_pool pool,
                                     struct hsp_source from);
/* @c holds a key. Harmless when repeated, and for a connection that is no stranger. */
void hsp_net_pool_proved(struct net_conn *c);
/* Harmless for a connection in no pool. */
void hsp_net_pool_leave(struct net_conn *c);
/* The stranger to end where a descriptor is needed. NULL: there is none. */
struct net_conn *hsp_net_pool_oldest(const struct hsp_net *n);

#endif
