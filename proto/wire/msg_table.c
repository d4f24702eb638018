#include "proto/wire/msg_table.h"

#include <stddef.h>

#include "proto/base/size.h"

#define OFF(S, m) ((uint32_t)offsetof(struct hsp_m_##S, m))
#define U32(S, m)                                          \
    {                                                      \
        .name = #m, .type = HSP_F_U32, .offset = OFF(S, m) \
    }
#define U32MAX(S, m, max)                                                  \
    {                                                                      \
        .name = #m, .type = HSP_F_U32, .offset = OFF(S, m), .limit = (max) \
    }
#define U64(S, m)                                          \
    {                                                      \
        .name = #m, .type = HSP_F_U64, .offset = OFF(S, m) \
    }
#define F64(S, m)                                          \
    {                                                      \
        .name = #m, .type = HSP_F_F64, .offset = OFF(S, m) \
    }
#define BOOL(S, m)                                          \
    {                                                       \
        .name = #m, .type = HSP_F_BOOL, .offset = OFF(S, m) \
    }
#define STR(S, m, max)                                                     \
    {                                                                      \
        .name = #m, .type = HSP_F_STR, .offset = OFF(S, m), .limit = (max) \
    }
#define ENUM(S, m, list)                                                                   \
    {                                                                                      \
        .name = #m, .type = HSP_F_ENUM, .offset = OFF(S, m), .limit = HSP_ARRAY_LEN(list), \
        .names = (list)                                                                    \
    }
#define DIGEST(S, m)                                          \
    {                                                         \
        .name = #m, .type = HSP_F_DIGEST, .offset = OFF(S, m) \
    }
#define KEY(S, m)                                          \
    {                                                      \
        .name = #m, .type = HSP_F_KEY, .offset = OFF(S, m) \
    }
#define F64S(S, m, n, max)                                                              \
    {                                                                                   \
        .name = #m, .type = HSP_F_F64S, .offset = OFF(S, m), .count_offset = OFF(S, n), \
        .limit = (max)                                                                  \
    }
#define LIST(S, m, n, item, max)                                                        \
    {                                                                                   \
        .name = #m, .type = HSP_F_LIST, .offset = OFF(S, m), .count_offset = OFF(S, n), \
        .limit = (max), .sub = f_##item, .n_sub = HSP_ARRAY_LEN(f_##item),              \
        .sub_size = sizeof(struct hsp_m_##item)                                         \
    }

static const char *const mode_names[] = {"fresh", "switch", "recover", "restore"};
static const char *const fact_names[] = {
    "out-of-memory", "cannot-connect", "no-data",      "data-differs", "bad-program",
    "no-state",      "timeout",        "state-folder", "state-shape",  "other"};
_Static_assert(sizeof(fact_names) / sizeof(fact_names[0]) == HSP_FACT_OTHER + 1, "a name for each");

const char *hsp_fact_name(uint32_t kind)
{
    return kind <= HSP_FACT_OTHER ? fact_names[kind] : NULL;
}

static const char *const what_names[] = {"open", "compute", "link", "stop", "end"};

static const char *const doing_names[] = {"prepare", "move",       "compute", "receive", "send",
                                          "copy",    "checkpoint", "finish",  "nothing"};
static const char *const papers_names[] = {"keep", "ask", "told", "none", "discard"};
static const char *const health_names[] = {"fine", "warn", "cordon", "lost"};
static const char *const path_names[] = {"nvlink",      "nvswitch", "pci-switch",
                                         "host-bridge", "numa",     "system"};

static const struct hsp_wire_field f_card[] = {STR(card, name, HSP_CARD_NAME),
                                               F64(card, gbit_per_s)};
static const struct hsp_wire_field f_device[] = {
    U32MAX(device, index, HSP_NODE_DEVICES - 1),
    U32MAX(device, card, HSP_NODE_CARDS - 1),
    STR(device, kind, 15),
    F64(device, speed),
    U64(device, mem_bytes),
    F64(device, gemm_fp32_flops),
    F64(device, gemm_fp64_flops),
    F64(device, gemm_tf32_flops),
    F64(device, gemm_bf16_flops),
    F64S(device, gemm_parts, n_gemm_parts, HSP_GEMM_PARTS),
    F64(device, mem_bytes_per_s),
    F64(device, op_us),
    F64(device, gemm_us),
    F64(device, host_bytes_per_s),
    F64(device, bf16_part),
    BOOL(device, up),
    STR(device, address, HSP_ADDRESS_MAX),
    STR(device, model, HSP_MODEL_MAX),
    STR(device, uuid, HSP_UUID_MAX),
    U32MAX(device, sm, 999),
    STR(device, cpus, HSP_CPUS_MAX),
    ENUM(device, health, health_names),
    STR(device, why, HSP_WHY_MAX)};
static const struct hsp_wire_field f_path[] = {U32MAX(path, a, HSP_NODE_DEVICES - 1),
                                               U32MAX(path, b, HSP_NODE_DEVICES - 1),
                                               ENUM(path, kind, path_names),
                                               U32MAX(path, links, 255),
                                               F64(path, bytes_per_s),
                                               F64(path, latency_us)};
static const struct hsp_wire_field f_health[] = {U32MAX(health, device, HSP_NODE_DEVICES - 1),
                                                 ENUM(health, health, health_names),
                                                 STR(health, reason, HSP_WHY_MAX)};
static const struct hsp_wire_field f_holding[] = {U32(holding, job),
                                                  U32MAX(holding, device, HSP_NODE_DEVICES - 1),
                                                  U64(holding, plan),
                                                  U32MAX(holding, rank, HSP_MSG_RANKS),
                                                  U32MAX(holding, owner, HSP_MSG_RANKS),
                                                  U64(holding, version)};
static const struct hsp_wire_field f_run[] = {
    U32(run, job),       U32MAX(run, device, HSP_NODE_DEVICES - 1),
    U64(run, running),   U64(run, prepared),
    U64(run, armed),     BOOL(run, broken),
    BOOL(run, finished), U64(run, version)};
static const struct hsp_wire_field f_kept[] = {U32(kept, job),
                                               STR(kept, name, HSP_NAME_MAX),
                                               DIGEST(kept, cluster),
                                               U64(kept, generation),
                                               U64(kept, epoch),
                                               U64(kept, plan),
                                               {.name = "papers_damaged",
                                                .type = HSP_F_BOOL,
                                                .offset = OFF(kept, papers_damaged),
                                                .since = 15}};
static const struct hsp_wire_field f_hello[] = {
    U32(hello, protocol),
    {.name = "protocol_oldest",
     .type = HSP_F_U32,
     .offset = OFF(hello, protocol_oldest),
     .since = 14},
    STR(hello, node, HSP_NAME_MAX),
    STR(hello, address, HSP_ADDRESS_MAX),
    DIGEST(hello, incarnation),
    DIGEST(hello, was),
    DIGEST(hello, cluster),
    U64(hello, generation),
    U64(hello, term),
    F64(hello, same_latency_us),
    F64(hello, same_us_per_byte),
    F64(hello, cross_latency_us),
    F64(hello, cross_us_per_byte),
    {.name = "folder_free", .type = HSP_F_U64, .offset = OFF(hello, folder_free), .since = 17},
    LIST(hello, cards, n_cards, card, HSP_NODE_CARDS),
    LIST(hello, devices, n_devices, device, HSP_NODE_DEVICES),
    LIST(hello, paths, n_paths, path, HSP_NODE_PATHS),
    LIST(hello, kept, n_kept, kept, HSP_MSG_KEPT),
    LIST(hello, holdings, n_holdings, holding, HSP_MSG_HOLDINGS),
    LIST(hello, runs, n_runs, run, HSP_MSG_RUNS)};
static const struct hsp_wire_field f_welcome[] = {
    U32(welcome, protocol),       DIGEST(welcome, cluster),
    U64(welcome, generation),     U64(welcome, term),
    DIGEST(welcome, incarnation), U32(welcome, heartbeat_ms),
    U32(welcome, dead_ms),        STR(welcome, address, HSP_ADDRESS_MAX)};
static const struct hsp_wire_field f_fenced[] = {DIGEST(fenced, cluster),
                                                 STR(fenced, reason, HSP_TEXT_MAX)};
static const struct hsp_wire_field f_parked[] = {
    DIGEST(parked, cluster),
    U64(parked, generation),
    U32(parked, heartbeat_ms),
    U32(parked, dead_ms),
    STR(parked, reason, HSP_TEXT_MAX),
    {.name = "again_ms", .type = HSP_F_U32, .offset = OFF(parked, again_ms), .since = 15}};
static const struct hsp_wire_field f_papers[] = {
    U32(papers, job),     ENUM(papers, what, papers_names), DIGEST(papers, cluster),
    DIGEST(papers, from), U64(papers, generation),          STR(papers, reason, HSP_TEXT_MAX)};
static const struct hsp_wire_field f_text[] = {STR(text, reason, HSP_TEXT_MAX)};
static const struct hsp_wire_field f_beat[] = {
    U64(beat, seq),
    U64(beat, clock_us),
    {.name = "folder_free", .type = HSP_F_U64, .offset = OFF(beat, folder_free), .since = 17}};
static const struct hsp_wire_field f_measure[] = {U32MAX(measure, echoes, 64)};
static const struct hsp_wire_field f_echo[] = {U32(echo, seq), U32MAX(echo, back, HSP_ECHO_MAX),
                                               BOOL(echo, more)};
static const struct hsp_wire_field f_uplink[] = {F64(uplink, latency_s), F64(uplink, bytes_per_s)};
static const struct hsp_wire_field f_check[] = {U32(check, check),
                                                U32(check, seq),
                                                ENUM(check, what, what_names),
                                                U32MAX(check, rank, 1),
                                                STR(check, peer, HSP_NAME_MAX),
                                                STR(check, peer_address, HSP_ADDRESS_MAX),
                                                U32(check, within_ms),
                                                BOOL(check, tls),
                                                KEY(check, key)};
static const struct hsp_wire_field f_figures[] = {U32MAX(figures, device, HSP_NODE_DEVICES - 1),
                                                  F64(figures, gemm_fp32_flops),
                                                  F64(figures, gemm_fp64_flops),
                                                  F64(figures, mem_bytes_per_s),
                                                  F64(figures, op_us),
                                                  F64(figures, share)};
static const struct hsp_wire_field f_checked[] = {
    U32(checked, check),
    U32(checked, seq),
    STR(checked, fault, HSP_TEXT_MAX),
    STR(checked, address, HSP_ADDRESS_MAX),
    STR(checked, transport, 15),
    F64(checked, latency_s),
    F64(checked, bytes_per_s),
    LIST(checked, devices, n_devices, figures, HSP_NODE_DEVICES)};
static const struct hsp_wire_field f_cut[] = {U64(cut, from), U64(cut, epoch), U64(cut, step)};
static const struct hsp_wire_field f_prepare[] = {
    U32(prepare, job),
    STR(prepare, job_name, HSP_NAME_MAX),
    DIGEST(prepare, cluster),
    U64(prepare, generation),
    U32MAX(prepare, device, HSP_NODE_DEVICES - 1),
    U32MAX(prepare, rank, HSP_MSG_RANKS),
    U32MAX(prepare, n_ranks, HSP_MSG_RANKS),
    U32MAX(prepare, n_keepers, HSP_MSG_RANKS),
    U32MAX(prepare, n_peers, HSP_MSG_RANKS),
    ENUM(prepare, mode, mode_names),
    U64(prepare, plan),
    U64(prepare, from_plan),
    U64(prepare, step),
    U64(prepare, void_from),
    U64(prepare, base_epoch),
    U64(prepare, steps),
    U64(prepare, checkpoint_every),
    KEY(prepare, key),
    STR(prepare, data_path, HSP_PATH_MAX),
    STR(prepare, checkpoint_path, HSP_PATH_MAX),
    BOOL(prepare, checkpoint_shared),
    U64(prepare, ckpt_term),
    U64(prepare, ckpt_epoch),
    U64(prepare, ckpt_content),
    {.name = "ckpt_cluster",
     .type = HSP_F_DIGEST,
     .offset = OFF(prepare, ckpt_cluster),
     .since = 15},
    {.name = "cuts",
     .type = HSP_F_LIST,
     .offset = OFF(prepare, cuts),
     .count_offset = OFF(prepare, n_cuts),
     .limit = HSP_MSG_CUTS,
     .sub = f_cut,
     .n_sub = HSP_ARRAY_LEN(f_cut),
     .sub_size = sizeof(struct hsp_m_cut),
     .since = 16},
    {.name = "ckpt_old_name",
     .type = HSP_F_BOOL,
     .offset = OFF(prepare, ckpt_old_name),
     .since = 16},
    BOOL(prepare, data_tls),
    STR(prepare, trusted_network, HSP_NETWORKS_MAX),
    U32(prepare, silent_ms),
    {.name = "share_notes", .type = HSP_F_BOOL, .offset = OFF(prepare, share_notes), .since = 16},
    {.name = "due_every", .type = HSP_F_U32, .offset = OFF(prepare, due_every), .since = 17},
    {.name = "due_overhead", .type = HSP_F_F64, .offset = OFF(prepare, due_overhead), .since = 17},
    {.name = "due_recompute_s",
     .type = HSP_F_F64,
     .offset = OFF(prepare, due_recompute_s),
     .since = 17},
    {.name = "live", .type = HSP_F_BOOL, .offset = OFF(prepare, live), .since = 18},
    {.name = "keeps", .type = HSP_F_BOOL, .offset = OFF(prepare, keeps), .since = 18},
    {.name = "keep", .type = HSP_F_U64, .offset = OFF(prepare, keep), .since = 18}};
static const struct hsp_wire_field f_ready[] = {U32(ready, job),
                                                U32MAX(ready, device, HSP_NODE_DEVICES - 1),
                                                U64(ready, mem_bytes),
                                                U64(ready, data_bytes),
                                                U64(ready, data_tokens),
                                                DIGEST(ready, data_digest),
                                                F64(ready, connect_ms),
                                                F64(ready, build_ms),
                                                U32MAX(ready, links_shm, HSP_MSG_LINKS),
                                                U32MAX(ready, links_unix, HSP_MSG_LINKS),
                                                U32MAX(ready, links_tls, HSP_MSG_LINKS),
                                                U32MAX(ready, links_tcp, HSP_MSG_LINKS)};
static const struct hsp_wire_field f_failed[] = {U32(failed, job),
                                                 U32MAX(failed, device, HSP_NODE_DEVICES - 1),
                                                 ENUM(failed, fact, fact_names),
                                                 U64(failed, amount),
                                                 U32MAX(failed, peer, HSP_MSG_RANKS),
                                                 U32MAX(failed, by, HSP_MSG_RANKS),
                                                 BOOL(failed, silent),
                                                 STR(failed, reason, HSP_TEXT_MAX)};
static const struct hsp_wire_field f_jobref[] = {U32(jobref, job),
                                                 {.name = "more_ms",
                                                  .type = HSP_F_U32,
                                                  .offset = OFF(jobref, more_ms),
                                                  .limit = HSP_SEAL_MORE_MS,
                                                  .since = 18}};
static const struct hsp_wire_field f_start[] = {
    U32(start, job), U32MAX(start, device, HSP_NODE_DEVICES - 1), U64(start, step)};
static const struct hsp_wire_field f_started[] = {U32(started, job),
                                                  U32MAX(started, device, HSP_NODE_DEVICES - 1),
                                                  U64(started, step),
                                                  F64(started, transfer_ms),
                                                  F64(started, weights_ms),
                                                  F64(started, optimizer_ms),
                                                  F64(started, seal_ms),
                                                  U64(started, transfer_bytes),
                                                  U64(started, passed_on_bytes)};
static const struct hsp_wire_field f_sealed[] = {
    U32(sealed, job), LIST(sealed, holdings, n_holdings, holding, HSP_MSG_HOLDINGS)};
static const struct hsp_wire_field f_step[] = {
    U32(step, job),
    U64(step, step),
    F64(step, loss),
    F64(step, val_loss),
    F64(step, grad_norm),
    F64(step, lr),
    U64(step, tokens),
    F64(step, seconds),
    U32(step, sequence),
    BOOL(step, final),
    F64S(step, compute_s, n_compute, HSP_MSG_RANKS),
    {.name = "ahead", .type = HSP_F_U64, .offset = OFF(step, ahead), .since = 17}};
static const struct hsp_wire_field f_lost[] = {U32(lost, job),
                                               U32MAX(lost, device, HSP_NODE_DEVICES - 1),
                                               U32MAX(lost, peer, HSP_MSG_RANKS),
                                               U32MAX(lost, by, HSP_MSG_RANKS),
                                               BOOL(lost, silent),
                                               BOOL(lost, before_start),
                                               STR(lost, reason, HSP_TEXT_MAX)};
static const struct hsp_wire_field f_dead[] = {U32MAX(dead, device, HSP_NODE_DEVICES - 1),
                                               U32(dead, restart_ms),
                                               STR(dead, reason, HSP_TEXT_MAX)};
static const struct hsp_wire_field f_up[] = {U32MAX(up, device, HSP_NODE_DEVICES - 1),
                                             STR(up, address, HSP_ADDRESS_MAX)};
static const struct hsp_wire_field f_devref[] = {U32(devref, job),
                                                 U32MAX(devref, device, HSP_NODE_DEVICES - 1)};
static const struct hsp_wire_field f_release[] = {U32(release, job),
                                                  U32MAX(release, device, HSP_NODE_DEVICES - 1),
                                                  U64(release, keep_plan), U64(release, known)};
static const struct hsp_wire_field f_ckpt[] = {
    U32(ckpt, job),     U64(ckpt, step),  U64(ckpt, term),    BOOL(ckpt, complete),
    U64(ckpt, content), U64(ckpt, bytes), F64(ckpt, seconds), STR(ckpt, reason, HSP_TEXT_MAX)};
static const struct hsp_wire_field f_seen[] = {U64(seen, step), U64(seen, term), U64(seen, epoch),
                                               U64(seen, content)};
static const struct hsp_wire_field f_ckpts[] = {U32(ckpts, job),
                                                U64(ckpts, number),
                                                DIGEST(ckpts, cluster),
                                                STR(ckpts, name, HSP_NAME_MAX),
                                                STR(ckpts, path, HSP_PATH_MAX),
                                                LIST(ckpts, seen, n_seen, seen, HSP_SEEN_CKPTS),
                                                BOOL(ckpts, absent),
                                                STR(ckpts, damaged, HSP_TEXT_MAX),
                                                STR(ckpts, reason, HSP_TEXT_MAX)};
static const struct hsp_wire_field f_refused[] = {
    U32(refused, job), U32MAX(refused, device, HSP_NODE_DEVICES - 1), U64(refused, step),
    BOOL(refused, damaged), STR(refused, reason, HSP_TEXT_MAX)};
static const struct hsp_wire_field f_finished[] = {U32(finished, job),
                                                   U64(finished, step),
                                                   {.name = "damage",
                                                    .type = HSP_F_STR,
                                                    .offset = OFF(finished, damage),
                                                    .limit = HSP_TEXT_MAX,
                                                    .since = 15},
                                                   {.name = "lacking",
                                                    .type = HSP_F_STR,
                                                    .offset = OFF(finished, lacking),
                                                    .limit = HSP_TEXT_MAX,
                                                    .since = 16}};
static const struct hsp_wire_field f_jobfail[] = {U32(jobfail, job),
                                                  U32MAX(jobfail, device, HSP_NODE_DEVICES - 1),
                                                  STR(jobfail, reason, HSP_TEXT_MAX)};
static const struct hsp_wire_field f_trace[] = {
    U32(trace, job), U32MAX(trace, device, HSP_NODE_DEVICES - 1), U32MAX(trace, number, UINT16_MAX),
    U32MAX(trace, steps, HSP_MSG_STEPS)};
static const struct hsp_wire_field f_target[] = {STR(target, address, HSP_ADDRESS_MAX)};
static const struct hsp_wire_field f_reach[] = {
    U32(reach, round), U32(reach, within_ms),
    LIST(reach, targets, n_targets, target, HSP_REACH_TARGETS)};
static const struct hsp_wire_field f_deaf[] = {U32MAX(deaf, target, HSP_REACH_TARGETS - 1),
                                               BOOL(deaf, refused)};
static const struct hsp_wire_field f_reached[] = {
    U32(reached, round), LIST(reached, deaf, n_deaf, deaf, HSP_REACH_TARGETS)};
static const struct hsp_wire_field f_where[] = {
    U32(where, job), U32MAX(where, device, HSP_NODE_DEVICES - 1), U32(where, round)};
static const struct hsp_wire_field f_thread[] = {
    ENUM(thread, doing, doing_names), U32MAX(thread, peer, HSP_MSG_RANKS), U64(thread, since_ms)};
static const struct hsp_wire_field f_link[] = {U32MAX(link, peer, HSP_MSG_RANKS - 1),
                                               U64(link, unsent), BOOL(link, held),
                                               F64(link, bytes_per_s)};
static const struct hsp_wire_field f_stands[] = {
    U32(stands, job),
    U32MAX(stands, device, HSP_NODE_DEVICES - 1),
    U32(stands, round),
    U64(stands, step),
    U64(stands, stable),
    U64(stands, moved),
    BOOL(stands, validation),
    BOOL(stands, checkpoint),
    U32(stands, micro),
    U32(stands, instruction),
    LIST(stands, threads, n_threads, thread, 4),
    LIST(stands, links, n_links, link, HSP_STANDS_LINKS)};
static const struct hsp_wire_field f_traced[] = {U32(traced, job),
                                                 U32MAX(traced, device, HSP_NODE_DEVICES - 1),
                                                 U32MAX(traced, rank, HSP_MSG_RANKS),
                                                 U32MAX(traced, number, UINT16_MAX),
                                                 F64(traced, offset_us),
                                                 F64(traced, error_us)};
static const struct hsp_wire_field f_damaged[] = {U32(damaged, job),
                                                  U32MAX(damaged, device, HSP_NODE_DEVICES - 1),
                                                  U64(damaged, plan),
                                                  U32MAX(damaged, rank, HSP_MSG_RANKS),
                                                  U32MAX(damaged, owner, HSP_MSG_RANKS),
                                                  U64(damaged, version),
                                                  BOOL(damaged, live),
                                                  U64(damaged, given_up_in),
                                                  STR(damaged, part, HSP_TEXT_MAX)};
static const struct hsp_wire_field f_leave[] = {STR(leave, reason, HSP_TEXT_MAX),
                                                U32(leave, deadline_ms)};
static const struct hsp_wire_field f_file[] = {STR(file, name, HSP_PATH_MAX),
                                               STR(file, text, HSP_MSG_FILE_MAX)};
static const struct hsp_wire_field f_submit[] = {STR(submit, file, HSP_PATH_MAX),
                                                 BOOL(submit, dry_run),
                                                 LIST(submit, files, n_files, file, HSP_MSG_FILES)};
static const struct hsp_wire_field f_query[] = {STR(query, name, HSP_NAME_MAX),
                                                STR(query, what, HSP_TEXT_MAX), U64(query, since),
                                                U32(query, timeout_ms), BOOL(query, follow)};
static const struct hsp_wire_field f_nodename[] = {STR(nodename, name, HSP_NAME_MAX)};
static const struct hsp_wire_field f_nodecheck[] = {
    F64(nodecheck, threshold), BOOL(nodecheck, busy),
    LIST(nodecheck, nodes, n_nodes, nodename, HSP_CHECK_NODES)};
static const struct hsp_wire_field f_tracejob[] = {STR(tracejob, name, HSP_NAME_MAX),
                                                   U32MAX(tracejob, steps, HSP_MSG_STEPS)};
static const struct hsp_wire_field f_scale[] = {STR(scale, name, HSP_NAME_MAX), U32(scale, min),
                                                U32(scale, max)};
static const struct hsp_wire_field f_drain[] = {STR(drain, name, HSP_NAME_MAX),
                                                STR(drain, reason, HSP_TEXT_MAX)};
static const struct hsp_wire_field f_adopt[] = {STR(adopt, job, HSP_NAME_MAX),
                                                STR(adopt, node, HSP_NAME_MAX),
                                                BOOL(adopt, discard), BOOL(adopt, force)};
static const struct hsp_wire_field f_nodeallow[] = {STR(nodeallow, name, HSP_NAME_MAX),
                                                    BOOL(nodeallow, holder)};
static const struct hsp_wire_field f_reply[] = {
    U32(reply, status), STR(reply, message, HSP_TEXT_MAX), BOOL(reply, more)};

uint32_t hsp_msg_blob_max(uint16_t type)
{
    bool bulk = type == HSP_MSG_PREPARE || type == HSP_MSG_SUBMIT || type == HSP_MSG_PLAN ||
                type == HSP_MSG_REPLY;
    return bulk                       ? HSP_MSG_BLOB_MAX
           : type == HSP_MSG_FINISHED ? HSP_MSG_METRICS_MAX
           : type == HSP_MSG_ECHO     ? HSP_ECHO_CHUNK
           : type == HSP_MSG_TRACED   ? HSP_MSG_TRACE_MAX
           : type == HSP_MSG_PAPERS   ? HSP_MSG_PAPERS_MAX
                                      : 0;
}

const struct hsp_msg_desc *hsp_msg_desc_of(uint16_t type)
{
#define ROW(n, v, s, w)                \
    {.type = (v),                      \
     .name = (w),                      \
     .fields = f_##s,                  \
     .n_fields = HSP_ARRAY_LEN(f_##s), \
     .size = sizeof(struct hsp_m_##s)},
    static const struct hsp_msg_desc table[] = {HSP_MSG_MAP(ROW)};
#undef ROW
    for (size_t i = 0; i < HSP_ARRAY_LEN(table); i++) {
        if (table[i].type == type) {
            return &table[i];
        }
    }
    return NULL;
}
