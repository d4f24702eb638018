#include "worker/app/worker_config.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "proto/base/size.h"
#include "proto/text/yaml_read.h"
#include "proto/text/yaml_write.h"

#define AT(member)      offsetof(struct hsp_worker_config, member)
#define DEV_AT(member)  offsetof(struct hsp_device_config, member)
#define CARD_AT(member) offsetof(struct hsp_card_config, member)
#define CUDA            "cuda"

/* In the order of enum hsp_log_level. */
static const char *const levels[] = {"error", "warn", "notice", "info", "debug", "trace", NULL};

/* In the order of enum hsp_mesh_transport. */
static const char *const transports[] = {"auto", "shm", "tcp", NULL};

static const struct hsp_cfg_field fields[] = {
    {.path = "coordinator",
     .type = HSP_FIELD_STR,
     .offset = AT(coordinator),
     .dflt = "/run/hspmd/hspmdd.sock",
     .help = "host:port of hspmdd, with the key below, or on its host the path of its Unix socket"},
    {.path = "node",
     .type = HSP_FIELD_STR,
     .offset = AT(node),
     .example = "gpu-17",
     .help = "name of this node, unique in the cluster; default the host name"},
    {.path = "listen",
     .type = HSP_FIELD_STR,
     .offset = AT(listen),
     .dflt = "127.0.0.1",
     .help = "address on which executors accept peers; the port is chosen by the system"},
    {.path = "advertise_address",
     .type = HSP_FIELD_STR,
     .offset = AT(advertise_address),
     .example = "10.0.0.17",
     .help = "address under which peers reach this node, when it is not the one of listen"},
    {.path = "transport",
     .type = HSP_FIELD_CHOICE,
     .offset = AT(transport),
     .dflt = "auto",
     .choices = transports,
     .help = "between devices of this host: auto (shared memory, else Unix sockets), shm, or "
             "tcp as to other hosts"},
    {.path = "state_dir",
     .type = HSP_FIELD_STR,
     .offset = AT(state_dir),
     .example = "/dev/shm/hspmd-997",
     .help = "folder of the training state, on tmpfs; default /dev/shm/hspmd-UID"},
    {.path = "key",
     .type = HSP_FIELD_STR,
     .offset = AT(key),
     .dflt = "/etc/hspmd/worker.key",
     .help = "pre-shared key of agents, the worker_key of hspmdd; a file that is named must be "
             "there; \"\": none, "
             "then the coordinator is a Unix socket"},
    {.path = "audit_dir",
     .type = HSP_FIELD_STR,
     .offset = AT(audit_dir),
     .example = "/var/lib/hspmd-worker/audit",
     .help = "folder in which each device notes the samples of every step, and hashes of the state "
             "at both ends of a switch; default none"},
    {.path = "leave_timeout",
     .live = true,
     .type = HSP_FIELD_MS,
     .offset = AT(leave_timeout_ms),
     .dflt = "90s",
     .min = 100,
     .max = 86400000,
     .help = "after SIGTERM: how long the state of this node may take to move elsewhere"},
    {.path = "log_level",
     .live = true,
     .type = HSP_FIELD_CHOICE,
     .offset = AT(log_level),
     .dflt = "info",
     .choices = levels,
     .help = "error, warn, notice, info, debug or trace"},
    {.path = "replica_holders",
     .old = "keepers",
     .type = HSP_FIELD_U32,
     .offset = AT(n_replica_holders),
     .dflt = "2",
     .min = 0,
     .max = HSP_WORKER_DEVICES,
     .help = "number of jobs running elsewhere whose state may be copied here, into state_dir, if "
             "`hspmdctl node allow` permits it"},
    {.path = "network",
     .type = HSP_FIELD_NODE,
     .offset = AT(network_node),
     .example = "[{name: eth0, gbit_per_s: 100, address: 10.0.0.17, devices: [0]}]",
     .help = "one entry per network card, where executors use several: name, gbit_per_s (of its "
             "link; 0: not known),\n# address (on which the executors of its devices accept peers; "
             "default listen), devices (near it;\n# those that no card names use one after the "
             "other); default the card with the address that peers dial"},
    {.path = "devices",
     .live = true,
     .type = HSP_FIELD_NODE,
     .offset = AT(devices_node),
     .example = "[{kind: cpu, speed: 1, memory: 1GiB, threads: 1}]",
     .help =
         "one entry per device: kind (cpu, cuda); of a cpu speed (fraction of a core it may use), "
         "memory (offered to\n# jobs), threads (of its compute pool); of a cuda index (which GPU, "
         "several may name one), memory (its\n# limit, default all that is free at the "
         "start): "
         "[{kind: cuda, index: 0, memory: 70GiB}]"},
};

static const struct hsp_cfg_field cpu_fields[] = {
    {.path = "kind", .type = HSP_FIELD_STR, .offset = DEV_AT(kind), .dflt = "cpu", .help = "cpu"},
    {.path = "speed",
     .type = HSP_FIELD_F64,
     .offset = DEV_AT(speed),
     .dflt = "1",
     .min = 0.01,
     .max = 1,
     .help = "fraction of a core it may use"},
    {.path = "memory",
     .type = HSP_FIELD_BYTES,
     .offset = DEV_AT(mem_bytes),
     .dflt = "1GiB",
     .min = 1048576,
     .max = 1099511627776.0,
     .help = "memory offered to jobs"},
    {.path = "threads",
     .type = HSP_FIELD_U32,
     .offset = DEV_AT(threads),
     .dflt = "1",
     .min = 1,
     .max = 256,
     .help = "threads of its compute pool"},
};

static const struct hsp_cfg_field gpu_fields[] = {
    {.path = "kind", .type = HSP_FIELD_STR, .offset = DEV_AT(kind), .dflt = "cuda", .help = "cuda"},
    {.path = "index",
     .type = HSP_FIELD_U32,
     .offset = DEV_AT(index),
     .dflt = "0",
     .min = 0,
     .max = 255,
     .help = "which GPU, as CUDA counts them"},
    {.path = "memory",
     .type = HSP_FIELD_BYTES,
     .offset = DEV_AT(mem_bytes),
     .dflt = "0",
     .min = 0,
     .max = 1099511627776.0,
     .help = "limit of its memory; 0: all that is free at the start"},
    {.path = "speed",
     .type = HSP_FIELD_F64,
     .offset = DEV_AT(speed),
     .dflt = "1",
     .min = 1,
     .max = 1,
     .help = "1: a GPU is not paced"},
};

static const struct hsp_cfg_field card_fields[] = {
    {.path = "name",
     .type = HSP_FIELD_STR,
     .offset = CARD_AT(name),
     .required = true,
     .help = "of the interface"},
    {.path = "gbit_per_s",
     .type = HSP_FIELD_F64,
     .offset = CARD_AT(gbit_per_s),
     .dflt = "0",
     .min = 0,
     .max = 1e6,
     .help = "of its link; 0: not known"},
    {.path = "address",
     .type = HSP_FIELD_STR,
     .offset = CARD_AT(address),
     .help = "on which executors accept peers"},
    {.path = "devices",
     .type = HSP_FIELD_NODE,
     .offset = CARD_AT(near_node),
     .help = "indices of the devices near it"},
};

static enum hsp_status load_device(const struct hsp_yaml *node, struct hsp_arena *arena,
                                   struct hsp_device_config *ret, struct hsp_err *err)
{
    const struct hsp_yaml *kind = hsp_yaml_find(node, "kind");
    bool gpu = kind != NULL && kind->text != NULL && strcmp(kind->text, CUDA) == 0;
    *ret = (struct hsp_device_config){.gpu = gpu, .threads = 1};
    size_t n = gpu ? HSP_ARRAY_LEN(gpu_fields) : HSP_ARRAY_LEN(cpu_fields);
    enum hsp_status st =
        hsp_fields_load(gpu ? gpu_fields : cpu_fields, n, node, arena, ret, NULL, err);
    if (st == HSP_OK && !gpu && strcmp(ret->kind, "cpu") != 0) {
        return hsp_yaml_error(node, err, "unknown device kind %.20s: use cpu or cuda", ret->kind);
    }
    return st;
}

/* Executors that share a GPU must know how much of it is theirs. */
static enum hsp_status check_shared(const struct hsp_worker_config *c, const struct hsp_yaml *list,
                                    struct hsp_err *err)
{
    for (uint32_t i = 0; i < c->n_devices; i++) {
        const struct hsp_device_config *a = &c->devices[i];
        for (uint32_t k = 0; k < c->n_devices && a->gpu && a->mem_bytes == 0; k++) {
            if (k != i && c->devices[k].gpu && c->devices[k].index == a->index) {
                return hsp_yaml_error(&list->items[i], err,
                                      "GPU %u is named by several devices: each needs a memory",
                                      a->index);
            }
        }
    }
    return HSP_OK;
}

static enum hsp_status load_devices(struct hsp_worker_config *c, struct hsp_arena *arena,
                                    struct hsp_err *err)
{
    const struct hsp_yaml *list = c->devices_node;
    if (list == NULL) {
        static const struct hsp_yaml nothing = {.kind = HSP_YAML_NULL, .file = ""};
        c->n_devices = 1;
        return load_device(&nothing, arena, &c->devices[0], err);
    }
    enum hsp_status st = hsp_yaml_expect(list, HSP_YAML_SEQ, err);
    if (st == HSP_OK && (list->n == 0 || list->n > HSP_WORKER_DEVICES)) {
        return hsp_yaml_error(list, err, "%zu devices, must be 1 to %d", list->n,
                              HSP_WORKER_DEVICES);
    }
    for (size_t i = 0; st == HSP_OK && i < list->n; i++) {
        st = load_device(&list->items[i], arena, &c->devices[i], err);
        c->n_devices++;
    }
    return st == HSP_OK ? check_shared(c, list, err) : st;
}

/* Names the card of each device that stands in the list of card @at. */
static enum hsp_status load_near(struct hsp_worker_config *c, uint32_t at,
                                 bool named[HSP_WORKER_DEVICES], struct hsp_err *err)
{
    const struct hsp_yaml *list = c->cards[at].near_node;
    enum hsp_status st = list != NULL ? hsp_yaml_expect(list, HSP_YAML_SEQ, err) : HSP_OK;
    for (size_t i = 0; st == HSP_OK && list != NULL && i < list->n; i++) {
        uint64_t d = 0;
        st = hsp_yaml_u64(&list->items[i], 0, c->n_devices - 1, &d, err);
        if (st == HSP_OK && named[d]) {
            return hsp_yaml_error(&list->items[i], err, "device %u is near two cards", (unsigned)d);
        }
        if (st == HSP_OK) {
            named[d] = true;
            c->card_of[d] = at;
        }
    }
    return st;
}

static enum hsp_status check_card(const struct hsp_worker_config *c, const struct hsp_yaml *node,
                                  struct hsp_err *err)
{
    const struct hsp_card_config *card = &c->cards[c->n_cards];
    size_t n = strlen(card->name);
    bool good = n > 0 && n <= HSP_WORKER_CARD;
    for (size_t i = 0; i < n; i++) {
        good = good && card->name[i] > ' ' && card->name[i] <= '~';
    }
    if (!good) {
        return hsp_yaml_error(node, err, "the name of a card is 1 to %d letters", HSP_WORKER_CARD);
    }
    for (uint32_t i = 0; i < c->n_cards; i++) {
        if (strcmp(c->cards[i].name, card->name) == 0) {
            return hsp_yaml_error(node, err, "card %s is given twice", card->name);
        }
    }
    const char *colon = strchr(card->address, ':');
    if (strcmp(card->address, "0.0.0.0") == 0 || strcmp(card->address, "::") == 0 ||
        (colon != NULL && strchr(colon + 1, ':') == NULL)) {
        return hsp_yaml_error(node, err, "address of a card: one that peers dial, without a port");
    }
    return HSP_OK;
}

/* Behind devices and replica holders: a device near no card uses the next one. */
static enum hsp_status load_cards(struct hsp_worker_config *c, struct hsp_arena *arena,
                                  struct hsp_err *err)
{
    const struct hsp_yaml *list = c->network_node;
    bool named[HSP_WORKER_DEVICES] = {false};
    enum hsp_status st = list != NULL ? hsp_yaml_expect(list, HSP_YAML_SEQ, err) : HSP_OK;
    if (st == HSP_OK && list != NULL && list->n > HSP_WORKER_CARDS) {
        return hsp_yaml_error(list, err, "%zu cards, must be at most %d", list->n,
                              HSP_WORKER_CARDS);
    }
    for (size_t i = 0; st == HSP_OK && list != NULL && i < list->n; i++) {
        struct hsp_card_config *card = &c->cards[i];
        st = hsp_fields_load(card_fields, HSP_ARRAY_LEN(card_fields), &list->items[i], arena, card,
                             NULL, err);
        if (st == HSP_OK) {
            card->address = card->address != NULL ? card->address : "";
            st = check_card(c, &list->items[i], err);
        }
        st = st == HSP_OK ? load_near(c, (uint32_t)i, named, err) : st;
        c->n_cards++;
    }
    for (uint32_t d = 0; st == HSP_OK && c->n_cards > 0 && d < HSP_WORKER_DEVICES; d++) {
        c->card_of[d] = named[d] ? c->card_of[d] : d % c->n_cards;
        c->card_named[d] = named[d];
    }
    return st;
}

static_assert(HSP_ARRAY_LEN(fields) == HSP_WORKER_KEYS, "an origin for each key");

/* Where executors accept peers: a host whose name peers can dial, or another one is told to
 * them. */
static enum hsp_status check_listen(const struct hsp_worker_config *c, const char *name,
                                    struct hsp_err *err)
{
    bool told = c->advertise_address != NULL && c->advertise_address[0] != '\0';
    if (!told && (strcmp(c->listen, "0.0.0.0") == 0 || strcmp(c->listen, "::") == 0)) {
        return hsp_err_set(err, HSP_EPARSE, 0,
                           "%s: listen: %s needs advertise_address, the address that peers dial",
                           name, c->listen);
    }
    return HSP_OK;
}

enum hsp_status hsp_worker_config_load(const struct hsp_layers *l, struct hsp_arena *arena,
                                       struct hsp_worker_config *ret, struct hsp_err *err)
{
    struct hsp_worker_config c;
    memset(&c, 0, sizeof c);
    enum hsp_status st =
        hsp_layers_load(l, fields, HSP_ARRAY_LEN(fields), arena, &c, c.origin, err);
    if (st == HSP_OK) {
        st = load_devices(&c, arena, err);
    }
    if (st == HSP_OK) {
        st = load_cards(&c, arena, err);
    }
    if (st == HSP_OK) {
        st = check_listen(&c, l->name, err);
    }
    if (st == HSP_OK) {
        uint32_t left = HSP_WORKER_DEVICES - c.n_devices;
        c.n_replica_holders = c.n_replica_holders < left ? c.n_replica_holders : left;
        *ret = c;
    }
    return st;
}

static void print_device(const struct hsp_device_config *d, struct hsp_buf *out)
{
    const struct hsp_cfg_field *f = d->gpu ? gpu_fields : cpu_fields;
    size_t n = d->gpu ? HSP_ARRAY_LEN(gpu_fields) : HSP_ARRAY_LEN(cpu_fields);
    for (size_t i = 0; i < n; i++) {
        hsp_buf_printf(out, "%s%s: ", i == 0 ? "  - {" : ", ", f[i].path);
        hsp_field_put(&f[i], d, out);
    }
    hsp_buf_puts(out, "}\n");
}

const char *hsp_worker_key_origin(const struct hsp_worker_config *c)
{
    size_t i = 0;
    while (strcmp(fields[i].path, "key") != 0) {
        i++;
    }
    return c->origin[i];
}

void hsp_worker_config_print(const struct hsp_worker_config *c, struct hsp_buf *out)
{
    const char *network = c->origin[HSP_WORKER_KEYS - 2]; /* the last row but one */
    hsp_layers_print(fields, HSP_ARRAY_LEN(fields), c, c->origin, out);
    if (c->network_node != NULL) {
        hsp_buf_puts(out, "network: ");
        hsp_yaml_put_flow(out, c->network_node);
        hsp_buf_printf(out, "  # %s\n", network);
    } else {
        hsp_buf_printf(out, "#network:  # %s: none\n", network);
    }
    hsp_buf_printf(out, "devices:  # %s\n", c->origin[HSP_WORKER_KEYS - 1]); /* the last row */
    for (uint32_t i = 0; i < c->n_devices; i++) {
        print_device(&c->devices[i], out);
    }
}

void hsp_worker_config_example(struct hsp_buf *out)
{
    hsp_layers_example(
        fields, HSP_ARRAY_LEN(fields),
        "Configuration of hspmd-worker, the agent of one node. Every key is optional; the values "
        "shown are\n# the defaults, or examples where a key has none. Each can also be given as "
        "--set KEY=VALUE or in the "
        "environment "
        "as HSPMD_WORKER_KEY.",
        out);
}

const struct hsp_cfg_field *hsp_worker_config_fields(size_t *ret_n)
{
    *ret_n = HSP_ARRAY_LEN(fields);
    return fields;
}

const char *hsp_worker_listen(const struct hsp_worker_config *c, uint32_t device,
                              const char **ret_told)
{
    const char *own = c->n_cards > 0 ? c->cards[c->card_of[device]].address : "";
    bool told = own[0] == '\0' && c->advertise_address != NULL;
    *ret_told = told ? c->advertise_address : "";
    return own[0] != '\0' ? own : c->listen;
}

const char *hsp_worker_transport(const struct hsp_worker_config *c)
{
    return transports[c->transport];
}
