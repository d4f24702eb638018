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

/* Moves @c into a pool. Returns false if the pool is full; @c then stays where it is. */
bool hsp_net_pool_join(struct net_conn *c, enum hsp_net_pool pool);
/* Puts @c, which is in no pool, among the strangers of @pool. Returns the connection whose place @c
 * takes, which the caller has to end. Returns NULL if @c takes a free place. Returns @c if there is
 * no place for it; @c is then in no pool. */
struct net_conn *hsp_net_pool_arrive(struct net_conn *c, enum hsp_net_pool pool,
                                     struct hsp_source from);
/* Notes that the peer of @c has proved that it holds a key. A second call changes nothing, nor does
 * a call for a connection that is no stranger. */
void hsp_net_pool_proved(struct net_conn *c);
/* Removes @c from its pool. A connection in no pool stays as it is. */
void hsp_net_pool_leave(struct net_conn *c);
/* Returns the stranger to end when the process needs a descriptor. NULL: there is no stranger. */
struct net_conn *hsp_net_pool_oldest(const struct hsp_net *n);

#endif
