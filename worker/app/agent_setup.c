#include "worker/app/agent_setup.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <uv.h>

#include "proto/base/str.h"
#include "proto/host/file_io.h"
#include "proto/net/addr.h"
#include "worker/app/incarnation_file.h"
#include "worker/backend/plugin.h"
#include "worker/probe/gpu_monitor.h"
#include "worker/probe/gpu_probe.h"
#include "worker/probe/nic.h"
#include "worker/probe/probe.h"
#include "worker/probe/probe_gpu_path.h"
#include "worker/state/folder.h"
#include "worker/state/kept.h"
#include "worker/state/segment_name.h"

/* File, environment (HSPMD_WORKER_KEY) and command line. Texts of *ret live in @arena. */
static enum hsp_status read_config(const struct hsp_agent_request *r, struct hsp_arena *arena,
                                   struct hsp_worker_config *ret, struct hsp_err *err)
{
    uint8_t *text = NULL;
    struct hsp_layers l = {.name = r->config != NULL ? r->config : "defaults"};
    enum hsp_status st = HSP_OK;
    if (r->config != NULL) {
        st = hsp_file_read(r->config, HSP_AGENT_CONFIG_MAX, &text, &l.len, err);
    }
    l.text = text != NULL ? (const char *)text : "";
    if (st == HSP_OK) {
        st = hsp_layers_env(&l, "HSPMD_WORKER_", environ, arena, err);
    }
    for (size_t i = 0; st == HSP_OK && i < r->n_set; i++) {
        st = hsp_layers_arg(&l, r->set[i], arena, err);
    }
    if (st == HSP_OK) {
        st = hsp_worker_config_load(&l, arena, ret, err);
    }
    free(text);
    return st;
}

/* Settings that the file may leave open: the name (the host's in small letters) and the folder. */
static enum hsp_status fill_in(struct hsp_agent_setup *u, struct hsp_err *err)
{
    static char host[HSP_NAME_MAX + 2];
    const char *name = u->cfg.node;
    if (name == NULL || name[0] == '\0') {
        if (gethostname(host, sizeof host - 1) != 0) {
            return hsp_err_set(err, HSP_EIO, errno, "host name");
        }
        for (char *c = host; *c != '\0'; c++) {
            *c = (char)tolower((unsigned char)*c);
        }
        name = host;
    }
    u->cfg.node = u->node = hsp_arena_strdup(u->arena, name);
    if (u->cfg.state_dir == NULL || u->cfg.state_dir[0] == '\0') {
        u->cfg.state_dir = hsp_arena_printf(u->arena, "/dev/shm/hspmd-%ld", (long)geteuid());
    }
    if (u->node == NULL || u->cfg.state_dir == NULL) {
        return hsp_err_nomem(err, "the node's name");
    }
    return hsp_name_valid(name)
               ? HSP_OK
               : hsp_err_set(err, HSP_EINVAL, 0, "\"%s\" cannot be the name of a node: set `node`",
                             name);
}

enum hsp_status hsp_agent_setup_read(struct hsp_agent_setup *u, struct hsp_err *err)
{
    enum hsp_status st = read_config(u->request, u->arena, &u->cfg, err);
    return st == HSP_OK ? fill_in(u, err) : st;
}

/* Makes one folder, for us only, or takes one that nobody else can change. */
static enum hsp_status own_folder(const char *path, struct hsp_err *err)
{
    struct stat sb;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return hsp_err_set(err, HSP_EIO, errno, "make folder %s", path);
    }
    if (lstat(path, &sb) != 0) {
        return hsp_err_set(err, HSP_EIO, errno, "folder %s", path);
    }
    if (!S_ISDIR(sb.st_mode) || sb.st_uid != geteuid()) {
        return hsp_err_set(err, HSP_EPERM, 0, "%s is not a folder of this user, uid %u", path,
                           (unsigned)geteuid());
    }
    if ((sb.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return hsp_err_set(err, HSP_EPERM, 0,
                           "others can change folder %s (mode %04o): chmod 700 %s", path,
                           (unsigned)(sb.st_mode & 07777), path);
    }
    return HSP_OK;
}

/* STATE_DIR/NODE, held by one agent at a time. */
static enum hsp_status open_folder(struct hsp_agent_setup *u, struct hsp_err *err)
{
    const char *top = u->cfg.state_dir;
    u->dir = hsp_arena_printf(u->arena, "%s/%s", top, u->node);
    char *lock = u->dir != NULL ? hsp_arena_printf(u->arena, "%s/agent.lock", u->dir) : NULL;
    if (lock == NULL) {
        return hsp_err_nomem(err, "the node's folder");
    }
    enum hsp_status st = own_folder(top, err);
    if (st == HSP_OK) {
        st = own_folder(u->dir, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    u->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (u->lock_fd < 0) {
        return hsp_err_set(err, HSP_EIO, errno, "%s", lock);
    }
    if (flock(u->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        return hsp_err_set(err, HSP_EEXIST, 0, "another agent of node %s runs here (%s is locked)",
                           u->node, lock);
    }
    st = hsp_segname_tidy(u->dir, &u->damaged, &u->machine.n_damaged, u->copy, err);
    return st == HSP_OK ? hsp_kept_tidy(u->dir, err) : st;
}

/* Folders with the name of a file of ours: nothing of them is read, and nothing is deleted. */
static void tell_folders(struct hsp_agent_setup *u, struct hsp_logger *log)
{
    DIR *d = opendir(u->dir);
    const struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL) {
        if (strncmp(e->d_name, "job-", 4) == 0 && hsp_is_folder(dirfd(d), e->d_name)) {
            hsp_log(log, HSP_LOG_WARN, "agent",
                    "%s/%s is a folder with the name of a state file: it is ignored; remove it",
                    u->dir, e->d_name);
        }
    }
    if (d != NULL) {
        (void)closedir(d); /* read only */
    }
}

static void tell_copy(const struct hsp_agent_setup *u, struct hsp_logger *log)
{
    if (u->copy[0] != '\0') {
        hsp_log(
            log, HSP_LOG_WARN, "agent",
            "%s/%s is a copy of a state segment, or was renamed: it is left alone and not used; "
            "delete it, or give it back its name",
            u->dir, u->copy);
    }
}

/* Without it the node is a new one to hspmdd, and its segments are not. */
static void know_again(struct hsp_agent_setup *u, struct hsp_logger *log)
{
    struct hsp_err err = {0};
    if (hsp_incarnation_read(u->dir, &u->machine.was, &err) != HSP_OK) {
        hsp_log(log, HSP_LOG_WARN, "agent",
                "%s: hspmdd takes this node for a new one, whose state is not the one it knows",
                err.msg);
    }
}

static void log_profile(struct hsp_logger *log, const struct hsp_m_device *d)
{
    hsp_log(log, HSP_LOG_INFO, "probe",
            "device %" PRIu32 ": speed %g, %.1f GFLOP/s fp32, %.1f fp64, %.1f bf16, %.1f GB/s, "
            "%.2f us an "
            "instruction, %" PRIu64 " MiB",
            d->index, d->speed, d->gemm_fp32_flops * 1e-9, d->gemm_fp64_flops * 1e-9,
            d->gemm_bf16_flops * 1e-9, d->mem_bytes_per_s * 1e-9, d->op_us, d->mem_bytes >> 20);
    const double *part = d->gemm_parts;
    hsp_log(log, HSP_LOG_INFO, "probe",
            "device %" PRIu32 ": of this in products of few rows %.2f, wide ones %.2f, long ones "
            "%.2f, attention %.2f (fp32)",
            d->index, part[HSP_GEMM_FEW], part[HSP_GEMM_WIDE], part[HSP_GEMM_LONG],
            part[HSP_GEMM_ATTENTION]);
}

/* Memory for jobs. */
static uint64_t offered(const struct hsp_agent_setup *u, uint32_t i)
{
    const struct hsp_device_config *c = &u->cfg.devices[i];
    return !c->gpu ? c->mem_bytes : u->lost[i][0] != '\0' ? 0 : hsp_device_offer(c->mem_bytes);
}

/* The offer of the device: the measured figures at its configured speed. */
static void set_profile(struct hsp_agent_setup *u, uint32_t i)
{
    const struct hsp_device_config *c = &u->cfg.devices[i];
    struct hsp_probe q = hsp_probe_scale(&u->probe[i], c->speed);
    u->device[i] = (struct hsp_m_device){.index = i,
                                         .card = u->cfg.card_of[i],
                                         .kind = c->kind,
                                         .speed = c->speed,
                                         .mem_bytes = offered(u, i),
                                         .gemm_fp32_flops = q.gemm_fp32_flops,
                                         .gemm_fp64_flops = q.gemm_fp64_flops,
                                         .gemm_tf32_flops = q.gemm_tf32_flops,
                                         .gemm_bf16_flops = q.gemm_bf16_flops,
                                         .n_gemm_parts = HSP_GEMM_PARTS,
                                         .gemm_parts = &u->probe[i].gemm_part[0][0],
                                         .mem_bytes_per_s = q.mem_bytes_per_s,
                                         .op_us = q.op_us,
                                         .gemm_us = q.gemm_us,
                                         .host_bytes_per_s = q.host_bytes_per_s,
                                         .bf16_part = q.bf16_part};
    if (u->lost[i][0] != '\0') {
        u->device[i].health = HSP_HEALTH_LOST;
        u->device[i].why = u->lost[i];
    }
    hsp_gpuwatch_describe(u->gpus, i, &u->device[i]);
}

/* The memory that devices of GPU @index may take together, as configured; those up to @i are
 * measured. */
static uint64_t asked_of(const struct hsp_agent_setup *u, uint32_t index, uint32_t i)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < u->cfg.n_devices; k++) {
        const struct hsp_device_config *c = &u->cfg.devices[k];
        sum += c->gpu && c->index == index ? (k <= i ? u->asked[k] : c->mem_bytes) : 0;
    }
    return sum;
}

/* A GPU that cannot be used is told, as lost, and the node does its work with the others. */
static void measure_gpu(struct hsp_agent_setup *u, uint32_t i, struct hsp_logger *log)
{
    struct hsp_device_config *c = &u->cfg.devices[i];
    struct hsp_device_info info = {.sm = 0};
    struct hsp_err err = {0};
    u->probe[i] = (struct hsp_probe){.op_us = 1};
    u->asked[i] = c->mem_bytes;
    u->wanted[i] = (struct hsp_gpu_wanted){.gpu = true};
    if (hsp_gpu_ask(c->index, &info, &u->probe[i], &err) != HSP_OK) {
        hsp_str_printf(u->lost[i], sizeof u->lost[i], "%s", err.msg);
        hsp_log(log, HSP_LOG_WARN, "probe", "device %u cannot be used: %s", i, err.msg);
        return;
    }
    hsp_gpu_uuid(info.uuid, u->wanted[i].uuid);
    hsp_str_printf(u->wanted[i].pci, sizeof u->wanted[i].pci, "%s", info.pci);
    uint64_t all = asked_of(u, c->index, i);
    if (all > info.memory_bytes) { /* each gets its part */
        hsp_log(log, HSP_LOG_WARN, "probe", "device %u: GPU %u has %zu MiB, not %" PRIu64, i,
                c->index, info.memory_bytes >> 20, all >> 20);
        c->mem_bytes = (uint64_t)((double)c->mem_bytes / (double)all * (double)info.free_bytes);
    } else if (c->mem_bytes == 0) {
        c->mem_bytes = info.free_bytes;
    }
    hsp_log(log, HSP_LOG_INFO, "probe",
            "device %u: GPU %u, %s at %s, %zu of %zu MiB free, %" PRIu64 " for jobs and scratch", i,
            c->index, info.name, info.pci, info.free_bytes >> 20, info.memory_bytes >> 20,
            c->mem_bytes >> 20);
}

/* One measurement for all devices with the same number of threads: they are cores of one
 * machine. */
static enum hsp_status measure_cpu(struct hsp_agent_setup *u, uint32_t i, struct hsp_err *err)
{
    const struct hsp_device_config *c = u->cfg.devices;
    uint32_t same = 0;
    while (same < i && (c[same].gpu || c[same].threads != c[i].threads)) {
        same++;
    }
    if (same < i) {
        u->probe[i] = u->probe[same];
        return HSP_OK;
    }
    return hsp_probe_cpu((int)c[i].threads, true, &u->probe[i], err);
}

static enum hsp_status measure(struct hsp_agent_setup *u, struct hsp_logger *log,
                               struct hsp_err *err)
{
    struct hsp_probe_link link;
    enum hsp_status st = hsp_probe_loopback(&link, err);
    for (uint32_t i = 0; st == HSP_OK && i < u->cfg.n_devices; i++) {
        if (u->cfg.devices[i].gpu) {
            measure_gpu(u, i, log);
        } else {
            st = measure_cpu(u, i, err);
        }
        if (st == HSP_OK) {
            set_profile(u, i);
            log_profile(log, &u->device[i]);
        }
    }
    if (st == HSP_OK) {
        hsp_log(log, HSP_LOG_INFO, "probe", "link: %.1f us, %.2f GB/s", link.latency_us,
                1e-3 / link.us_per_byte);
        /* Links to other nodes are not better than this; how much worse the uplink tells, once
         * measured. */
        u->machine.same_latency_us = u->machine.cross_latency_us = link.latency_us;
        u->machine.same_us_per_byte = u->machine.cross_us_per_byte = link.us_per_byte;
    }
    return st;
}

/* Replica holders come behind the devices, and offer the room in the state folder. */
static enum hsp_status add_replica_holders(struct hsp_agent_setup *u, struct hsp_err *err)
{
    struct statvfs fs;
    if (statvfs(u->dir, &fs) != 0) {
        return hsp_err_set(err, HSP_EIO, errno, "room in %s", u->dir);
    }
    for (uint32_t i = 0; i < u->cfg.n_replica_holders; i++) {
        uint32_t at = u->cfg.n_devices + i;
        u->device[at] = (struct hsp_m_device){.index = at,
                                              .card = u->cfg.card_of[at],
                                              .kind = HSP_KIND_REPLICA_HOLDER,
                                              .speed = 1,
                                              .mem_bytes = (uint64_t)fs.f_bavail * fs.f_frsize};
    }
    return HSP_OK;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Measures the paths between the usable GPUs. Without a measurement the figures of NVML
 * hold. */
static void measure_paths(struct hsp_agent_setup *u, struct hsp_logger *log)
{
    uint32_t index[HSP_NODE_DEVICES], n = 0;
    struct hsp_err err = {0};
    for (uint32_t i = 0; i < u->cfg.n_devices; i++) {
        const struct hsp_device_config *c = &u->cfg.devices[i];
        uint32_t k = 0;
        while (k < n && index[k] != c->index) { /* several devices may be on one GPU */
            k++;
        }
        if (c->gpu && u->lost[i][0] == '\0' && k == n) {
            index[n++] = c->index;
        }
    }
    qsort(index, n, sizeof index[0], by_number);
    if (n > 1 && hsp_gpu_ask_paths(NULL, index, n, HSP_GPU_ASK_MS, u->measured, &u->n_measured,
                                   &err) != HSP_OK) {
        hsp_log(log, HSP_LOG_NOTICE, "probe", "paths between GPUs are not measured: %s", err.msg);
    }
    for (uint32_t i = 0; i < u->n_measured; i++) {
        const struct hsp_probe_path *p = &u->measured[i];
        hsp_log(log, HSP_LOG_INFO, "probe", "GPU %" PRIu32 " to %" PRIu32 ": %.1f GB/s, %.1f us%s",
                p->a, p->b, 1e-9 * p->bytes_per_s, p->latency_us,
                p->direct ? "" : ", over the host");
    }
}

/* The paths between devices: as NVML tells them, and over that as measured. */
static void set_paths(struct hsp_agent_setup *u)
{
    int64_t gpu[HSP_NODE_DEVICES];
    for (uint32_t i = 0; i < HSP_NODE_DEVICES; i++) {
        bool is = i < u->cfg.n_devices && u->cfg.devices[i].gpu && u->lost[i][0] == '\0';
        gpu[i] = is ? (int64_t)u->cfg.devices[i].index : -1;
    }
    u->machine.n_paths = hsp_probe_paths_into(u->measured, u->n_measured, gpu, u->path,
                                              hsp_gpuwatch_paths(u->gpus, u->path));
    u->machine.paths = u->path;
}

/* A GPU that the file names no card for uses the nearest one, if that is in the file. */
static void choose_card(struct hsp_agent_setup *u, uint32_t i, const struct hsp_gpu *g)
{
    for (uint32_t k = 0; !u->cfg.card_named[i] && k < u->cfg.n_cards; k++) {
        if (strcmp(u->cfg.cards[k].name, g->card) == 0) {
            u->cfg.card_of[i] = k;
        }
    }
}

/* NVML's knowledge of the GPUs. Without it all else goes on: one line says so. */
static void find_gpus(struct hsp_agent_setup *u, struct hsp_logger *log)
{
    struct hsp_err err = {0};
    bool any = false;
    for (uint32_t i = 0; i < u->cfg.n_devices; i++) {
        any = any || u->wanted[i].gpu;
    }
    if (!any) {
        return;
    }
    if (hsp_gpuwatch_open(NULL, NULL, u->wanted, u->cfg.n_devices, &u->gpus, &err) != HSP_OK) {
        hsp_log(log, HSP_LOG_NOTICE, "probe",
                "the health of GPUs is not watched, their links are not known: %s", err.msg);
        return;
    }
    for (uint32_t i = 0; i < u->cfg.n_devices; i++) {
        const struct hsp_gpu *g = hsp_gpuwatch_gpu(u->gpus, i);
        if (g != NULL) {
            choose_card(u, i, g);
            set_profile(u, i);
            hsp_log(log, HSP_LOG_INFO, "probe",
                    "device %" PRIu32 ": %s %s at %s, processors %s%s%s", i, g->name, g->uuid,
                    g->pci, g->cpus[0] != '\0' ? g->cpus : "not known",
                    g->card[0] != '\0' ? ", nearest network card " : "", g->card);
        } else if (u->wanted[i].gpu) {
            hsp_log(log, HSP_LOG_NOTICE, "probe",
                    "device %" PRIu32 ": NVML does not know it, its health is not watched", i);
        }
    }
}

struct hsp_gpuwatch *hsp_agent_gpus(const struct hsp_agent_setup *u)
{
    return u->gpus;
}

/* The cards of the file, else the card with the address that peers dial, if it is one. */
static void find_cards(struct hsp_agent_setup *u, struct hsp_logger *log)
{
    uint32_t n = u->cfg.n_cards;
    for (uint32_t i = 0; i < n; i++) {
        u->card[i] = (struct hsp_m_card){u->cfg.cards[i].name, u->cfg.cards[i].gbit_per_s};
    }
    if (n == 0 && hsp_netcard_find("/sys/class/net", u->machine.address, &u->found)) {
        u->card[n++] = (struct hsp_m_card){u->found.name, u->found.gbit_per_s};
    }
    for (uint32_t i = 0; i < n; i++) {
        hsp_log(log, HSP_LOG_INFO, "probe", "network card %s: %g Gb/s", u->card[i].name,
                u->card[i].gbit_per_s);
    }
    u->machine.n_cards = n;
    u->machine.cards = u->card;
}

/* A file of NCCL's settings; NULL: there is none, or (*unknown) it cannot be read. */
static const char *read_conf(struct hsp_agent_setup *u, struct hsp_logger *log, const char *folder,
                             const char *name, bool *unknown)
{
    char path[PATH_MAX];
    uint8_t *text = NULL;
    size_t n = 0;
    struct hsp_err err = {0};
    hsp_str_printf(path, sizeof path, "%s%s", folder, name);
    enum hsp_status st = hsp_file_read(path, HSP_AGENT_CONFIG_MAX, &text, &n, &err);
    if (st == HSP_OK && strlen((const char *)text) != n) {
        st = hsp_err_set(&err, HSP_EINVAL, 0, "%.150s: there is a byte 0 in it", path);
    }
    const char *copy = st == HSP_OK ? hsp_arena_strdup(u->arena, (const char *)text) : NULL;
    if (st == HSP_OK && copy == NULL) {
        st = hsp_err_set(&err, HSP_ENOMEM, 0, "%.150s: no memory for it", path);
    }
    free(text);
    if (st != HSP_OK && st != HSP_ENOENT) {
        *unknown = true;
        hsp_log(log, HSP_LOG_WARN, "probe",
                "settings of NCCL: %s; with TLS NCCL is not used; fix the file and restart",
                err.msg);
    }
    return copy;
}

/* NCCL's settings of the network, for one GPU. */
static void make_env(struct hsp_agent_setup *u, uint32_t i, const struct hsp_nccl_env_opts *o,
                     struct hsp_logger *log)
{
    const char *made = "";
    struct hsp_err err = {0};
    if (hsp_nccl_env_make(o, u->arena, &u->env[i], &made, &err) != HSP_OK) {
        u->nccl_unknown[i] = true;
        hsp_log(log, HSP_LOG_WARN, "probe",
                "device %" PRIu32 ": NCCL gets no settings, and with TLS it is not used: %s", i,
                err.msg);
    } else if (made[0] != '\0') {
        hsp_log(log, HSP_LOG_INFO, "probe", "device %" PRIu32 ": %s from %s", i, made,
                u->cfg.n_cards > 0 ? "network:" : "the card with the address that peers dial");
    }
    if (o->own < o->n_cards && !o->card[o->own].here) {
        hsp_log(log, HSP_LOG_WARN, "probe",
                "device %" PRIu32
                ": network: names card %s, which is not on this host; NCCL chooses another",
                i, u->card[o->own].name);
    }
}

static void make_envs(struct hsp_agent_setup *u, struct hsp_logger *log)
{
    const struct passwd *who = getpwuid(getuid());
    const char *other = getenv("NCCL_CONF_FILE");
    struct hsp_nccl_card card[HSP_NODE_CARDS];
    struct hsp_nccl_env_opts o = {.env = environ, .card = card, .n_cards = u->machine.n_cards};
    bool named = other != NULL && other[0] != '\0', unknown = false, any = false;
    for (uint32_t i = 0; i < u->cfg.n_devices; i++) {
        any = any || u->cfg.devices[i].gpu;
    }
    if (!any) {
        return;
    }
    o.conf[0] = named         ? read_conf(u, log, "", other, &unknown)
                : who != NULL ? read_conf(u, log, who->pw_dir, "/.nccl.conf", &unknown)
                              : NULL;
    o.conf[1] = read_conf(u, log, "", "/etc/nccl.conf", &unknown);
    for (uint32_t i = 0; i < o.n_cards; i++) {
        hsp_netcard_rdma("/sys/class/net", u->card[i].name, &card[i]);
    }
    for (uint32_t i = 0; i < u->cfg.n_devices; i++) {
        if (u->cfg.devices[i].gpu) {
            o.own = u->cfg.card_of[i];
            u->nccl_unknown[i] = unknown;
            make_env(u, i, &o, log);
        }
    }
}

bool hsp_agent_nccl_unknown(const struct hsp_agent_setup *u, uint32_t device)
{
    return u->nccl_unknown[device];
}

char *const *hsp_agent_env(const struct hsp_agent_setup *u, uint32_t device)
{
    return u->env[device];
}

/* A key file that is named must be there, also where the socket needs none: its name says that it
 * is to be used. */
static enum hsp_status load_key(struct hsp_agent_setup *u, struct hsp_err *err)
{
    bool named = strcmp(hsp_worker_key_origin(&u->cfg), "default") != 0;
    enum hsp_status st = hsp_net_keys_load(u->cfg.key, NULL, &u->keys, err);
    return st != HSP_OK || u->keys.have_worker || !named || u->cfg.key == NULL ||
                   u->cfg.key[0] == '\0'
               ? st
               : hsp_err_set(err, HSP_ENOENT, 0,
                             "key: there is no %s; copy the worker_key of hspmdd there, or set it "
                             "to \"\" for none",
                             u->cfg.key);
}

enum hsp_status hsp_agent_setup_check(struct hsp_agent_setup *u, struct hsp_err *err)
{
    struct hsp_addr a;
    const char *colon = strchr(u->cfg.listen, ':');
    if (colon != NULL && strchr(colon + 1, ':') == NULL) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "listen: %s has a port; the system chooses the ports of executors",
                           u->cfg.listen);
    }
    enum hsp_status st = load_key(u, err);
    if (st != HSP_OK) {
        return st;
    }
    if (hsp_addr_parse(u->cfg.coordinator, HSP_PORT, &a, err) != HSP_OK) {
        return hsp_err_wrap(err, "coordinator");
    }
    if (!a.local && !u->keys.have_worker && (u->cfg.key == NULL || u->cfg.key[0] == '\0')) {
        return hsp_err_set(err, HSP_EPERM, 0,
                           "coordinator: %s needs a key: key is to name a file with the worker_key "
                           "of hspmdd",
                           u->cfg.coordinator);
    }
    return a.local || u->keys.have_worker
               ? HSP_OK
               : hsp_err_set(err, HSP_EPERM, 0,
                             "coordinator: %s needs a key and there is no %s: it is the worker_key "
                             "of hspmdd%s",
                             u->cfg.coordinator, u->cfg.key,
                             hsp_addr_is_loopback(&a)
                                 ? "; without keys set coordinator to hspmdd's Unix socket"
                                 : "");
}

/* Without devices there is the loopback alone, which takes no time to speak of. */
static enum hsp_status measure_all(struct hsp_agent_setup *u, struct hsp_logger *log,
                                   struct hsp_err *err)
{
    const uint64_t begin = uv_hrtime();
    if (u->cfg.n_devices > 0) {
        hsp_log(log, HSP_LOG_INFO, "probe",
                "measuring %" PRIu32 " device%s, which takes seconds; then it calls %s",
                u->cfg.n_devices, hsp_s(u->cfg.n_devices), u->cfg.coordinator);
    }
    enum hsp_status st = measure(u, log, err);
    if (st == HSP_OK) {
        find_gpus(u, log);
        measure_paths(u, log);
        set_paths(u);
    }
    if (st == HSP_OK && u->cfg.n_devices > 0) {
        hsp_log(log, HSP_LOG_INFO, "probe", "measured %" PRIu32 " device%s in %.1f s",
                u->cfg.n_devices, hsp_s(u->cfg.n_devices), 1e-9 * (double)(uv_hrtime() - begin));
    }
    return st;
}

enum hsp_status hsp_agent_setup_prepare(struct hsp_agent_setup *u, struct hsp_logger *log,
                                        struct hsp_err *err)
{
    const struct hsp_worker_config *c = &u->cfg;
    bool advertised = c->advertise_address != NULL && c->advertise_address[0] != '\0';
    hsp_agent_defaults(&u->machine);
    enum hsp_status st = hsp_agent_setup_check(u, err);
    if (st == HSP_OK) {
        st = open_folder(u, err);
        u->machine.damaged = u->damaged;
    }
    if (st == HSP_OK) {
        tell_copy(u, log);
        know_again(u, log);
        tell_folders(u, log);
        st = add_replica_holders(u, err);
    }
    if (st == HSP_OK) {
        st = measure_all(u, log, err);
    }
    u->machine.node = u->node;
    u->machine.address = advertised ? c->advertise_address : c->listen;
    u->machine.n_devices = c->n_devices + c->n_replica_holders;
    u->machine.devices = u->device;
    if (st == HSP_OK) {
        find_cards(u, log);
        make_envs(u, log);
    }
    return st;
}

void hsp_agent_setup_close(struct hsp_agent_setup *u)
{
    u->gpus = hsp_gpuwatch_close(u->gpus);
    free(u->damaged);
    if (u->lock_fd >= 0) {
        (void)close(u->lock_fd);
    }
}

/* Returns true if device @i is the same as before, except for settings that a reload may change. */
static bool same_device(const struct hsp_agent_setup *u, uint32_t i,
                        const struct hsp_device_config *d)
{
    const struct hsp_device_config *old = &u->cfg.devices[i];
    return d->gpu == old->gpu && d->threads == old->threads && d->index == old->index &&
           (!d->gpu || d->mem_bytes == u->asked[i]);
}

/* Speed and memory of CPUs may change; how many devices there are, their kind and threads only at a
 * start. */
static bool take_devices(struct hsp_agent_setup *u, const struct hsp_worker_config *fresh,
                         struct hsp_buf *applied, struct hsp_buf *restart)
{
    bool same = fresh->n_devices == u->cfg.n_devices, changed = false;
    for (uint32_t i = 0; same && i < fresh->n_devices; i++) {
        same = same_device(u, i, &fresh->devices[i]);
    }
    if (!same) {
        hsp_buf_printf(restart, "%sdevices", restart->len > 0 ? ", " : "");
        return false;
    }
    for (uint32_t i = 0; i < fresh->n_devices; i++) {
        struct hsp_device_config *old = &u->cfg.devices[i];
        const struct hsp_device_config *d = &fresh->devices[i];
        if (old->speed == d->speed && (d->gpu || old->mem_bytes == d->mem_bytes)) {
            continue;
        }
        hsp_buf_printf(applied, "%sdevice %u speed %g -> %g, memory %" PRIu64 " -> %" PRIu64 " MiB",
                       applied->len > 0 ? ", " : "", i, old->speed, d->speed, old->mem_bytes >> 20,
                       d->mem_bytes >> 20);
        old->speed = d->speed;
        old->mem_bytes = d->mem_bytes;
        set_profile(u, i);
        changed = true;
    }
    return changed;
}

enum hsp_status hsp_agent_reload(struct hsp_agent_setup *u, struct hsp_buf *ret_applied,
                                 struct hsp_buf *ret_restart,
                                 const struct hsp_m_device **ret_devices, struct hsp_err *err)
{
    struct hsp_agent_setup fresh = {.request = u->request,
                                    .arena = hsp_arena_new(HSP_AGENT_SETUP_BYTES)};
    enum hsp_status st = fresh.arena != NULL ? hsp_agent_setup_read(&fresh, err)
                                             : hsp_err_nomem(err, "reading the configuration");
    if (st == HSP_OK) {
        st = load_key(&fresh, err);
    }
    *ret_devices = NULL;
    if (st == HSP_OK) {
        size_t n;
        const struct hsp_cfg_field *fields = hsp_worker_config_fields(&n);
        hsp_layers_apply(fields, n - 1, &u->cfg, &fresh.cfg, ret_applied, ret_restart);
        if (take_devices(u, &fresh.cfg, ret_applied, ret_restart)) {
            *ret_devices = u->device;
        }
        if (memcmp(&fresh.keys, &u->keys, sizeof u->keys) != 0) {
            hsp_buf_printf(ret_restart, "%scontent of the key", ret_restart->len > 0 ? ", " : "");
        }
    }
    (void)hsp_arena_free(fresh.arena);
    return st;
}
