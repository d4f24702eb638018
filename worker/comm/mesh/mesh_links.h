/* Frees the links of a mesh with all their messages, and counts links by kind. */
#ifndef HSP_MESH_LINKS_H
#define HSP_MESH_LINKS_H
#include "worker/comm/mesh/mesh_impl.h"

/* Closes and frees a mesh whose thread has ended or never ran. */
void hsp_mesh_free(struct hsp_mesh *m);
/* Counts links by kind; @c is a mesh. */
struct hsp_mesh_links hsp_mesh_count_links(const struct hsp_comm *c);

#endif
