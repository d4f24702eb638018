/* Decides whether an agent is the node whose name it says.
 *
 * An incarnation is 128 random bits, known to the agent and here. Nobody else can connect again
 * under it. A new agent process proves by the incarnation before, which stands in its state folder,
 * that it is the same node; only then does it take the place of a node that is not dead yet.
 * Without that proof it is a new node of the name: its incarnations begin anew (same_since), and
 * its state and its words about earlier epochs are not believed (may_say.h). The agent before it is
 * remembered: when it comes back and shows its incarnation, it is that node again.
 *
 * Example: a is 5 and dies. Somebody mistypes its state folder, and a joins as 6, without the
 * state. With the right folder it shows 5 and becomes 7: 5 and 7 are one node, 6 is another. If the
 * other folder comes back after that, it shows 6, and the state of 6 is believed again. Should a
 * job have begun an epoch with 7 meanwhile, 7 counts when the right folder comes as 9, and 5 does
 * not any more. Two agents are remembered, those first that hold state of a job: an agent that
 * begins with an empty folder each time, like a container without a volume, has none forgotten.
 *
 * Example: a shows 5 and gets 6, but WELCOME is lost with the connection. a shows 5 again and gets
 * 7, and that WELCOME is lost too. As often as it comes, 5 proves that it is a: an incarnation that
 * it was given since and never showed, it never had.
 *
 * After a restore the store may know an older incarnation than the agent has. So an agent that has
 * obeyed an older generation takes the name of its node without proof, once: until the node has
 * said hello in this generation. Such an agent is a new node of the name as well, but the state
 * that it keeps is evidence (behind.h). WELCOME never tells it an incarnation that it has not
 * shown.
 *
 * Example: the backup knows a's incarnation 5; a joined again as 9 and ran epoch 30 of mist; the
 * backup is put back. The agent shows 9: mist is behind, and a goes on as incarnation 10. Later
 * somebody shows a made-up incarnation, and is refused. */
#ifndef HSP_SAME_NODE_H
#define HSP_SAME_NODE_H
#include "daemon/cluster/cluster_state.h"

struct hsp_m_hello;

/* The incarnation that an agent holds, 0: none that counts here. */
struct hsp_digest hsp_ci_incarnation_shown(const struct hsp_cluster *c,
                                           const struct hsp_m_hello *m);
/* True when an older store was put back and node @n has not said hello since, while the agent has
 * obeyed the store that was replaced. The store may not know the incarnation of this agent. So the
 * agent may take the name, as a new incarnation without a proof. */
bool hsp_ci_from_before(const struct hsp_cluster *c, const struct hsp_cluster_node *n,
                        const struct hsp_m_hello *m);
/* True when the agent shows the present incarnation of @n, or the one that it showed last. */
bool hsp_ci_proves(const struct hsp_cluster_node *n, const struct hsp_m_hello *m);
/* The line of which the agent shows the newest incarnation, while the name has passed to another
 * since. NULL: none. */
struct hsp_node_line *hsp_ci_comes_back(struct hsp_cluster_node *n, const struct hsp_m_hello *m);
/* Why the agent that says @m is not node @n; NULL: it is. */
const char *hsp_ci_not_it(struct hsp_cluster *c, uint32_t conn, const struct hsp_cluster_node *n,
                          const struct hsp_m_hello *m);
/* Its agent holds the incarnation of @n, which may be NULL, alive or dead here. */
bool hsp_ci_was_it(const struct hsp_cluster *c, const struct hsp_cluster_node *n,
                   const struct hsp_m_hello *m);
/* Another agent takes the name, or the one of @back takes it again, in whose place the present line
 * is kept. A line has one gap: where @back has a gap, its incarnations before that gap are
 * forgotten, or those behind it, if unused. */
void hsp_ci_change_line(struct hsp_cluster *c, struct hsp_cluster_node *n,
                        struct hsp_node_line *back);

#endif
