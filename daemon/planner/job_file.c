/* Defines the keys of the job file in a table, and checks them against each other. */
#include "daemon/planner/job_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/planner/cost.h"
#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/text/yaml_parse.h"
#include "proto/text/yaml_read.h"
#include "proto/text/yaml_write.h"

enum { FAMILY_GPT, FAMILY_LLAMA, FAMILY_MLP };

enum { PACKING_NONE, PACKING_DOCUMENTS };

enum { SAMPLES_WINDOWS, SAMPLES_DOCUMENTS };

enum { VOCAB_AUTO, VOCAB_ON, VOCAB_OFF };

#define VOCAB_LARGE  16384 /* auto: from here on a whole head costs more than its exchange */
#define FFN_MULTIPLE 32    /* default widths of feed-forward layers are multiples of it */

/* The target of the table, one member for each key. */
struct raw {
    const char *api_version, *name;
    int family;
    int64_t layers, hidden, heads, kv_heads, intermediate, vocab, sequence;
    double rope_theta, rms_norm_eps;
    int vocab_parallel;
    bool tied_head;
    double dropout;
    const char *data_path;
    int data_format; /* enum hsp_data_format */
    int tokenizer, packing, samples;
    int64_t document_start, document_end; /* tokens, -1: none */
    double validation_fraction;
    uint32_t validation_every;
    uint32_t steps, global_batch;
    int dtype;   /* enum hsp_dtype: the choices stand in its order */
    int compute; /* enum hsp_compute, likewise */
    uint64_t seed;
    double clip_norm;
    int optimizer; /* enum hsp_optimizer */
    double lr, betas[2], eps, momentum, weight_decay;
    int schedule; /* enum hsp_lr_schedule */
    uint32_t warmup_steps;
    double min_lr;
    uint32_t min, max;
    int64_t priority;
    uint32_t copies;
    const char *every;
    double overhead, max_recompute;
    const char *ckpt_path;
    bool ckpt_shared;
    uint32_t ckpt_every_steps, ckpt_keep;
    struct hsp_strs annotations;
    const char *init_from;
};

static const char *const api_versions[] = {"hspmd/v1"};
static const char *const families[] = {"gpt", "llama", "mlp", NULL};
static const char *const switches[] = {"auto", "on", "off", NULL};
static const char *const formats[] = {"text", "llm.c", "nanogpt", "megatron", NULL};
static const char *const packings[] = {"none", "documents", NULL};
static const char *const samples[] = {"windows", "documents", NULL};
static const char *const tokenizers[] = {"byte", NULL};
static const char *const dtypes[] = {"fp32", "fp64", NULL};
static const char *const computes[] = {"fp32", "tf32", "bf16", NULL};
static const char *const optimizers[] = {"adamw", "sgd", NULL};
static const char *const schedules[] = {"constant", "cosine", NULL};

#define F(path_, type_, member, ...)                                                        \
    {                                                                                       \
        .path = (path_), .type = HSP_FIELD_##type_, .offset = offsetof(struct raw, member), \
        __VA_ARGS__                                                                         \
    }

static const struct hsp_cfg_field table[] = {
    F("apiVersion", STR, api_version, .required = true, .help = "hspmd/v1"),
    F("name", STR, name, .required = true, .help = "name of the job: a-z 0-9 - ."),
    F("model.family", CHOICE, family, .required = true, .choices = families,
      .help = "gpt, llama: language models; mlp: next-token classifier"),
    F("model.layers", I64, layers, .required = true, .min = 1, .max = 1024,
      .help = "transformer blocks, or hidden layers (mlp)"),
    F("model.hidden", I64, hidden, .required = true, .min = 1, .max = 65536,
      .help = "width of the model"),
    F("model.heads", I64, heads, .dflt = "0", .min = 0, .max = 1024,
      .help = "attention heads (gpt, llama); divides hidden"),
    F("model.kv_heads", I64, kv_heads, .dflt = "0", .min = 0, .max = 1024,
      .help = "key and value heads (llama: num_key_value_heads); divides heads; 0: heads"),
    F("model.intermediate", I64, intermediate, .dflt = "0", .min = 0, .max = 1048576,
      .help = "width of the MLP (llama: intermediate_size); 0: 8/3 hidden, rounded up to 32"),
    F("model.rope_theta", F64, rope_theta, .dflt = "10000", .min = 1, .max = 1e12,
      .help = "base of the rotary positions (llama)"),
    F("model.rms_norm_eps", F64, rms_norm_eps, .dflt = "1e-5", .min = 1e-30, .max = 1,
      .help = "added to the mean square in RMSNorm (llama)"),
    F("model.vocab", I64, vocab, .dflt = "256", .min = 2, .max = 1048576,
      .help = "size of the vocabulary; at least 256 for text, whose tokens are bytes"),
    F("model.vocab_parallel", CHOICE, vocab_parallel, .dflt = "auto", .choices = switches,
      .help = "tensor groups cut embedding and head by vocabulary (gpt, llama); auto: from 16384"),
    F("model.sequence", I64, sequence, .required = true, .min = 1, .max = 65536,
      .help = "tokens in a sequence"),
    F("model.tied_head", BOOL, tied_head, .dflt = "false",
      .help = "the head shares the token embedding"),
    F("model.dropout", F64, dropout, .dflt = "0", .min = 0, .max = 1,
      .help = "after the embedding and each residual branch (mlp: each hidden layer); not in "
              "validation"),
    F("data.path", STR, data_path, .required = true,
      .help = "data file, present on every worker, or a pattern like /data/part-*.bin: all files "
              "it matches, in the order of their names; megatron: .bin with .idx beside it"),
    F("data.format", CHOICE, data_format, .dflt = "text", .choices = formats,
      .help = "text: tokens are bytes; llm.c: .bin with header (GPT-2, Llama 3); nanogpt: .bin of "
              "uint16; megatron: .idx and .bin"),
    F("data.tokenizer", CHOICE, tokenizer, .dflt = "byte", .choices = tokenizers,
      .help = "byte (text only; other formats hold tokens)"),
    F("data.packing", CHOICE, packing, .dflt = "none", .choices = packings,
      .help =
          "none: sequences run on over the ends of documents; documents: attention stays within a "
          "document, positions count from its start, its last token has no target (gpt, llama)"),
    F("data.samples", CHOICE, samples, .dflt = "windows", .choices = samples,
      .help = "unit of global_batch. windows: sequences, cut from the data as they come; "
              "documents: documents, cut at model.sequence, which each step packs into sequences "
              "(with packing: documents)"),
    F("data.document_start", I64, document_start, .dflt = "-1", .min = -1, .max = 1048575,
      .help = "packing: token that begins a document (llm.c: 50256, 128000); -1: none"),
    F("data.document_end", I64, document_end, .dflt = "-1", .min = -1, .max = 1048575,
      .help = "packing: token that ends a document (nanoGPT: 50256; lines of text: 10); -1: none. "
              "megatron needs neither: the .idx knows"),
    F("data.validation_fraction", F64, validation_fraction, .dflt = "0.05", .min = 0, .max = 0.9,
      .help = "part of the data kept for validation"),
    F("data.validation_every", U32, validation_every, .dflt = "20", .min = 0, .max = 1e9,
      .help = "steps between validations; 0: never"),
    F("train.steps", U32, steps, .required = true, .min = 1, .max = 1e9, .help = "optimizer steps"),
    F("train.global_batch", U32, global_batch, .required = true, .min = 1,
      .max = HSP_MAX_GLOBAL_BATCH, .help = "sequences, or documents, in a step, over all devices"),
    F("train.dtype", CHOICE, dtype, .dflt = "fp32", .choices = dtypes,
      .not_that = "bf16 and tf32 are values of train.compute",
      .help = "of parameters, optimizer state and sums of gradients; fp64, for verification: all "
              "computation uses it, regardless of train.compute"),
    F("train.compute", CHOICE, compute, .dflt = "fp32", .choices = computes,
      .help =
          "precision of the computation; bf16: activations, and parameters where they are used; "
          "tf32: products where the device has it"),
    F("train.seed", U64, seed, .dflt = "1", .help = "of initial weights, sample order and dropout"),
    F("train.clip_norm", F64, clip_norm, .dflt = "0", .min = 0, .max = 1e30,
      .help = "bound of the global gradient norm; 0: off"),
    F("train.optimizer.name", CHOICE, optimizer, .required = true, .choices = optimizers,
      .help = "adamw, or sgd with momentum"),
    F("train.optimizer.lr", F64, lr, .required = true, .min = 0, .max = 1e6,
      .help = "peak learning rate"),
    F("train.optimizer.betas", F64, betas, .dflt = "[0.9, 0.999]", .min = 0, .max = 1, .count = 2,
      .help = "adamw: decay of the two moments"),
    F("train.optimizer.eps", F64, eps, .dflt = "1e-8", .min = 0, .max = 1,
      .help = "adamw: added to the root of the second moment"),
    F("train.optimizer.momentum", F64, momentum, .dflt = "0.9", .min = 0, .max = 1,
      .help = "sgd: decay of the momentum"),
    F("train.optimizer.weight_decay", F64, weight_decay, .dflt = "0", .min = 0, .max = 1e6,
      .help = "of matrices; biases and norms have none"),
    F("train.schedule.name", CHOICE, schedule, .dflt = "constant", .choices = schedules,
      .help = "after the warm-up: constant, or cosine down to min_lr"),
    F("train.schedule.warmup_steps", U32, warmup_steps, .dflt = "0", .min = 0, .max = 1e9,
      .help = "steps of linear growth to the peak rate"),
    F("train.schedule.min_lr", F64, min_lr, .dflt = "0", .min = 0, .max = 1e6,
      .help = "cosine: learning rate of the last step"),
    F("resources.min", U32, min, .dflt = "1", .min = 1, .max = HSP_MAX_RANKS,
      .help = "devices the job needs to run"),
    F("resources.max", U32, max, .dflt = "1024", .min = 1, .max = HSP_MAX_RANKS,
      .help = "devices the job may use"),
    F("resources.priority", I64, priority, .dflt = "0", .min = -1000000, .max = 1000000,
      .help = "higher is served first"),
    F("recovery.copies", U32, copies, .dflt = "2", .min = 1, .max = HSP_COPIES_MAX,
      .help = "nodes that hold each piece of the training state"),
    F("recovery.every", STR, every, .dflt = "auto",
      .help = "steps between versions of the state that are sealed and copied to other nodes; a "
              "loss costs fewer than twice as many. 1: a loss costs no step; auto: as few as "
              "overhead and max_recompute allow"),
    F("recovery.overhead", F64, overhead, .dflt = "0.01", .min = 0.0001, .max = 1,
      .help = "every: auto: part of the time that hashes and copies may take"),
    F("recovery.max_recompute", F64, max_recompute, .dflt = "30", .min = 0, .max = 86400,
      .help =
          "every: auto: seconds of steps between such versions at most, regardless of their cost"),
    F("checkpoint.path", STR, ckpt_path, .dflt = "/var/lib/hspmd-worker/ckpt",
      .help = "folder for checkpoints and the trained model; not below /tmp, which the service has "
              "for itself and which goes when it stops"),
    F("checkpoint.shared", BOOL, ckpt_shared, .dflt = "false",
      .help = "the folder is the same one on every node"),
    F("checkpoint.every_steps", U32, ckpt_every_steps, .dflt = "0", .min = 0, .max = 1e9,
      .help = "steps between checkpoints; 0: none, and submit says so"),
    F("checkpoint.keep", U32, ckpt_keep, .dflt = "2", .min = 1, .max = 1000,
      .help = "complete checkpoints to keep"),
    F("annotations", STRS, annotations,
      .help = "plan files, relative to this one; the first that fits the workers is used"),
    F("init_from", STR, init_from,
      .help =
          "safetensors file with the initial weights: fp32, fp64 or bf16; a checkpoint is none"),
};
#undef F

/* "file:line:column: key: message" at @path, or at the nearest enclosing key the file has. */
static enum hsp_status refuse(const struct hsp_yaml *root, const char *path, struct hsp_err *err,
                              const char *text)
{
    char part[64];
    (void)snprintf(part, sizeof(part), "%s", path);
    const struct hsp_yaml *node = hsp_yaml_find(root, part);
    while (node == NULL) {
        char *dot = strrchr(part, '.');
        if (dot == NULL) {
            node = root;
            break;
        }
        *dot = '\0';
        node = hsp_yaml_find(root, part);
    }
    const char *leaf = strrchr(path, '.');
    leaf = leaf != NULL ? leaf + 1 : path;
    if (node->key != NULL && strcmp(node->key, leaf) == 0) {
        return hsp_yaml_error(node, err, "%s", text);
    }
    return hsp_yaml_error(node, err, "%s: %s", leaf, text);
}

struct rule {
    const char *path;
    const char *text;
    bool broken;
};

static enum hsp_status check_rules(const struct rule *rules, size_t n, const struct hsp_yaml *root,
                                   struct hsp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (rules[i].broken) {
            return refuse(root, rules[i].path, err, rules[i].text);
        }
    }
    return HSP_OK;
}

/* Chunks between which a vocabulary may be cut: enough for uneven shares, few to exchange. */
static int64_t vocab_chunks(int64_t vocab)
{
    int64_t n = 64;
    while (n >= 8 && vocab % n != 0) {
        n--;
    }
    return n >= 8 ? n : 0;
}

#define GIVEN(path)             (hsp_yaml_find(root, path) != NULL)
#define CHECK(rules, root, err) check_rules(rules, HSP_ARRAY_LEN(rules), root, err)

/* @submitted: a job of before the second rule of its name may go on. */
static enum hsp_status check_name(const struct raw *r, bool submitted, const struct hsp_yaml *root,
                                  struct hsp_err *err)
{
    uint64_t number;
    const struct rule rules[] = {
        {"apiVersion", "must be hspmd/v1", strcmp(r->api_version, api_versions[0]) != 0},
        {"name", "must be 1 to 63 of a-z 0-9 - . with alphanumeric ends", !hsp_name_valid(r->name)},
        {"name", "must not be a number: a job is also called by the number it gets",
         submitted && hsp_parse_u64(r->name, &number)},
    };
    return CHECK(rules, root, err);
}

static enum hsp_status check_model(const struct raw *r, const struct hsp_yaml *root,
                                   struct hsp_err *err)
{
    bool llama = r->family == FAMILY_LLAMA, heads = r->family != FAMILY_MLP;
    const struct rule rules[] = {
        {"model.heads", "must be given for gpt and llama", heads && r->heads == 0},
        {"model.heads", "must divide hidden", r->heads > 0 && r->hidden % r->heads != 0},
        {"model.heads", "mlp has none", !heads && GIVEN("model.heads")},
        {"model.heads", "heads of an odd width have no rotary positions",
         llama && r->heads > 0 && r->hidden / r->heads % 2 != 0},
        {"model.vocab_parallel", "only for gpt and llama",
         !heads && GIVEN("model.vocab_parallel") && r->vocab_parallel == VOCAB_ON},
        {"model.vocab_parallel", "vocab has no divisor from 8 to 64",
         r->vocab_parallel == VOCAB_ON && vocab_chunks(r->vocab) == 0},
        {"model.kv_heads", "must divide heads", r->kv_heads > 0 && r->heads % r->kv_heads != 0},
        {"model.kv_heads", "only for llama", !llama && GIVEN("model.kv_heads")},
        {"model.intermediate", "only for llama", !llama && GIVEN("model.intermediate")},
        {"model.rope_theta", "only for llama", !llama && GIVEN("model.rope_theta")},
        {"model.rms_norm_eps", "only for llama", !llama && GIVEN("model.rms_norm_eps")},
        {"model.dropout", "must be below 1", !(r->dropout < 1)},
    };
    return CHECK(rules, root, err);
}

static enum hsp_status check_data(const struct raw *r, const struct hsp_yaml *root,
                                  struct hsp_err *err)
{
    bool text = r->data_format == HSP_DATA_TEXT, heads = r->family != FAMILY_MLP;
    bool apart = r->packing == PACKING_DOCUMENTS;
    bool start = r->document_start >= 0, end = r->document_end >= 0;
    const struct rule rules[] = {
        {"model.vocab", "must be at least 256: tokens of text are bytes", text && r->vocab < 256},
        {"model.vocab", "must be given: only text has a default", !text && !GIVEN("model.vocab")},
        {"data.tokenizer", "only for text: other formats hold tokens",
         !text && GIVEN("data.tokenizer")},
        {"data.packing", "documents only for gpt and llama", apart && !heads},
        {"data.packing", "documents: give document_start or document_end, the token there",
         apart && r->data_format != HSP_DATA_MEGATRON && start == end},
        {start ? "data.document_start" : "data.document_end",
         "the .idx of megatron says where documents begin",
         r->data_format == HSP_DATA_MEGATRON && (start || end)},
        {start ? "data.document_start" : "data.document_end", "only with packing: documents",
         !apart && (start || end)},
        {"data.samples", "documents only with packing: documents",
         r->samples == SAMPLES_DOCUMENTS && !apart},
        {"data.samples", "documents: dropout must be 0, its keys are of whole sequences",
         r->samples == SAMPLES_DOCUMENTS && r->dropout > 0},
        {"data.document_start", "must be below model.vocab", r->document_start >= r->vocab},
        {"data.document_end", "must be below model.vocab", r->document_end >= r->vocab},
        {"data.path", "must not be empty", r->data_path[0] == '\0'},
        {"data.validation_fraction", "must be above 0, or validation_every 0",
         r->validation_every > 0 && !(r->validation_fraction > 0)},
    };
    return CHECK(rules, root, err);
}

static bool every_is_valid(const struct raw *r)
{
    uint64_t n = 0;
    return strcmp(r->every, "auto") == 0 || (hsp_parse_u64(r->every, &n) && n > 0 && n <= 1000000);
}

static enum hsp_status check_rest(const struct raw *r, const struct hsp_yaml *root,
                                  struct hsp_err *err)
{
    bool adamw = r->optimizer == HSP_OPT_ADAMW;
    const struct rule rules[] = {
        {"train.optimizer.lr", "must be above 0", !(r->lr > 0)},
        {"train.optimizer.betas", "must be below 1", !(r->betas[0] < 1 && r->betas[1] < 1)},
        {"train.optimizer.momentum", "must be below 1", !(r->momentum < 1)},
        {"train.optimizer.betas", "only for adamw", !adamw && GIVEN("train.optimizer.betas")},
        {"train.optimizer.eps", "only for adamw", !adamw && GIVEN("train.optimizer.eps")},
        {"train.optimizer.eps", "must be above 0", adamw && !(r->eps > 0)},
        {"train.optimizer.momentum", "only for sgd", adamw && GIVEN("train.optimizer.momentum")},
        {"train.schedule.min_lr", "only for cosine",
         r->schedule == HSP_LR_CONSTANT && GIVEN("train.schedule.min_lr")},
        {"train.schedule.min_lr", "must not be above the peak rate", r->min_lr > r->lr},
        {"recovery.every", "must be auto or a number from 1 to 1000000", !every_is_valid(r)},
        {"train.schedule.warmup_steps", "must not be above train.steps",
         r->warmup_steps > r->steps},
        {"resources.min", "must not be above resources.max", r->min > r->max},
        {"checkpoint.path", "must not be empty", r->ckpt_path[0] == '\0'},
        {"annotations", "too many plan files", r->annotations.n > HSP_MAX_ANNOTATIONS},
    };
    return CHECK(rules, root, err);
}
#undef CHECK
#undef GIVEN

static enum hsp_packing packing_of(const struct raw *r)
{
    return r->packing == PACKING_NONE            ? HSP_PACKING_NONE
           : r->data_format == HSP_DATA_MEGATRON ? HSP_PACKING_INDEX
           : r->document_start >= 0              ? HSP_PACKING_START
                                                 : HSP_PACKING_END;
}

static struct hsp_train_spec train_of(const struct raw *r)
{
    return (struct hsp_train_spec){
        .hyper = {.steps = r->steps,
                  .lr = r->lr,
                  .min_lr = r->min_lr,
                  .clip_norm = r->clip_norm,
                  .warmup_steps = r->warmup_steps,
                  .schedule = (uint8_t)r->schedule,
                  .optimizer = (uint8_t)r->optimizer,
                  .beta1 = r->betas[0],
                  .beta2 = r->betas[1]},
        .data = {.seed = r->seed,
                 .global_batch = r->global_batch,
                 .sequence = (uint32_t)r->sequence,
                 .longest = (uint32_t)r->sequence,
                 .samples =
                     r->samples == SAMPLES_DOCUMENTS ? HSP_SAMPLES_DOCUMENTS : HSP_SAMPLES_WINDOWS,
                 /* one global batch: as many as fit every plan's memory for certain */
                 .eval_seqs = r->global_batch,
                 .validation_every = r->validation_every,
                 .validation_fraction = r->validation_fraction,
                 .next_token_only = r->family == FAMILY_MLP,
                 .vocab = (uint32_t)r->vocab,
                 .format = (uint8_t)r->data_format,
                 .packing = (uint8_t)packing_of(r),
                 .separator = r->document_start >= 0 ? (uint32_t)r->document_start
                              : r->document_end >= 0 ? (uint32_t)r->document_end
                                                     : 0},
        .eps = r->eps,
        .weight_decay = r->weight_decay,
        .momentum = r->momentum,
    };
}

static struct hsp_model_spec model_of(const struct raw *r)
{
    struct hsp_model_spec m = {.layers = r->layers,
                               .hidden = r->hidden,
                               .heads = r->heads,
                               .vocab = r->vocab,
                               .sequence = r->sequence,
                               .tied_head = r->tied_head,
                               .dropout = r->dropout,
                               .packed = r->packing == PACKING_DOCUMENTS,
                               .dtype = r->dtype == 0 ? HSP_F32 : HSP_F64,
                               .compute =
                                   r->dtype == 0 ? (enum hsp_compute)r->compute : HSP_COMPUTE_FULL};
    (void)snprintf(m.family, sizeof m.family, "%s", families[r->family]);
    bool large = r->vocab_parallel == VOCAB_AUTO && r->vocab >= VOCAB_LARGE;
    if (r->family != FAMILY_MLP && (large || r->vocab_parallel == VOCAB_ON)) {
        m.vocab_chunks = vocab_chunks(r->vocab);
    }
    if (r->family == FAMILY_LLAMA) {
        int64_t wide = (8 * r->hidden + 2) / 3;
        m.kv_heads = r->kv_heads > 0 ? r->kv_heads : r->heads;
        m.intermediate = r->intermediate > 0
                             ? r->intermediate
                             : (wide + FFN_MULTIPLE - 1) / FFN_MULTIPLE * FFN_MULTIPLE;
        m.rope_theta = r->rope_theta;
        m.rms_norm_eps = r->rms_norm_eps;
    }
    return m;
}

/* 0: auto. */
static uint32_t every_of(const struct raw *r)
{
    uint64_t n = 0;
    return strcmp(r->every, "auto") != 0 && hsp_parse_u64(r->every, &n) ? (uint32_t)n : 0;
}

static void spec_of(const struct raw *r, struct hsp_job_spec *ret)
{
    *ret = (struct hsp_job_spec){
        .name = r->name,
        .model = model_of(r),
        .train = train_of(r),
        .data_path = r->data_path,
        .min = r->min,
        .max = r->max,
        .priority = r->priority,
        .copies = r->copies,
        .every = every_of(r),
        .overhead = r->overhead,
        .max_recompute_s = r->max_recompute,
        .ckpt_path = r->ckpt_path,
        .ckpt_shared = r->ckpt_shared,
        .ckpt_every_steps = r->ckpt_every_steps,
        .ckpt_keep = r->ckpt_keep,
        .annotations = r->annotations,
        .init_from = r->init_from != NULL ? r->init_from : "",
        .fields = r,
    };
}

struct source {
    const char *text;
    size_t len;
    const char *file;
    bool submitted;
};

/* The bytes of the text without HSP_JOB_DEFAULTS at its end, whose first line break would become
 * part of a block scalar before it. */
static size_t own_len(const struct source *from)
{
    const size_t n = sizeof(HSP_JOB_DEFAULTS) - 1;
    bool ends = from->len >= n && memcmp(from->text + from->len - n, HSP_JOB_DEFAULTS, n) == 0;
    return ends ? from->len - n : from->len;
}

/* Jobs that an older hspmdd took keep its default. */
static bool is_older(const struct source *from)
{
    return !from->submitted && own_len(from) == from->len;
}

static enum hsp_status load(const struct source *from, const struct hsp_yaml *root,
                            struct hsp_arena *arena, struct raw *ret, struct hsp_err *err)
{
    bool set[HSP_ARRAY_LEN(table)];
    enum hsp_status st = hsp_fields_load(table, HSP_ARRAY_LEN(table), root, arena, ret, set, err);
    for (size_t i = 0; st == HSP_OK && i < HSP_ARRAY_LEN(table); i++) {
        if (table[i].offset == offsetof(struct raw, every) && !set[i] && is_older(from)) {
            ret->every = "1";
        }
    }
    return st;
}

static enum hsp_status parse(const struct source *from, struct hsp_arena *arena,
                             const struct hsp_job_spec **ret, struct hsp_err *err)
{
    const struct hsp_yaml *root = NULL;
    enum hsp_status st = hsp_yaml_parse(from->file, from->text, own_len(from), arena, &root, err);
    if (st != HSP_OK) {
        return st;
    }
    struct raw *raw = hsp_arena_alloc(arena, sizeof(*raw));
    struct hsp_job_spec *job = hsp_arena_alloc(arena, sizeof(*job));
    if (raw == NULL || job == NULL) {
        return hsp_err_nomem(err, "job file %s", from->file);
    }
    st = load(from, root, arena, raw, err);
    st = st == HSP_OK ? check_name(raw, from->submitted, root, err) : st;
    st = st == HSP_OK ? check_model(raw, root, err) : st;
    st = st == HSP_OK ? check_data(raw, root, err) : st;
    st = st == HSP_OK ? check_rest(raw, root, err) : st;
    if (st != HSP_OK) {
        return st;
    }
    spec_of(raw, job);
    *ret = job;
    return HSP_OK;
}

enum hsp_status hsp_job_parse(const char *text, size_t len, const char *file,
                              struct hsp_arena *arena, const struct hsp_job_spec **ret,
                              struct hsp_err *err)
{
    return parse(&(struct source){text, len, file, true}, arena, ret, err);
}

enum hsp_status hsp_job_parse_stored(const char *text, size_t len, const char *file,
                                     struct hsp_arena *arena, const struct hsp_job_spec **ret,
                                     struct hsp_err *err)
{
    return parse(&(struct source){text, len, file, false}, arena, ret, err);
}

static bool llama_only(size_t at)
{
    return at == offsetof(struct raw, kv_heads) || at == offsetof(struct raw, intermediate) ||
           at == offsetof(struct raw, rope_theta) || at == offsetof(struct raw, rms_norm_eps);
}

/* Keys that another choice forbids are left out, so that the text parses again. */
void hsp_job_dump(const struct hsp_job_spec *job, bool help, struct hsp_buf *out)
{
    const struct raw *raw = job->fields;
    struct hsp_cfg_field shown[HSP_ARRAY_LEN(table)];
    size_t n = 0;
    for (size_t i = 0; i < HSP_ARRAY_LEN(table); i++) {
        size_t at = table[i].offset;
        bool moments = at == offsetof(struct raw, betas) || at == offsetof(struct raw, eps);
        bool skip = (moments && raw->optimizer != HSP_OPT_ADAMW) ||
                    (at == offsetof(struct raw, momentum) && raw->optimizer == HSP_OPT_ADAMW) ||
                    (at == offsetof(struct raw, min_lr) && raw->schedule == HSP_LR_CONSTANT) ||
                    (at == offsetof(struct raw, tokenizer) && raw->data_format != HSP_DATA_TEXT) ||
                    (at == offsetof(struct raw, heads) && raw->family == FAMILY_MLP) ||
                    (llama_only(at) && raw->family != FAMILY_LLAMA) ||
                    (at == offsetof(struct raw, annotations) && raw->annotations.n == 0);
        if (!skip) {
            shown[n++] = table[i];
        }
    }
    hsp_fields_print(shown, n, raw, NULL, help, out);
}

/* config.json of a Hugging Face LlamaForCausalLM. */
static void llama_json(const struct hsp_model_spec *m, struct hsp_buf *out)
{
    hsp_buf_printf(out,
                   "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\","
                   "\"hidden_size\":%" PRId64 ",\"intermediate_size\":%" PRId64,
                   m->hidden, m->intermediate);
    hsp_buf_printf(out,
                   ",\"num_hidden_layers\":%" PRId64 ",\"num_attention_heads\":%" PRId64
                   ",\"num_key_value_heads\":%" PRId64 ",\"head_dim\":%" PRId64,
                   m->layers, m->heads, m->kv_heads, m->hidden / m->heads);
    hsp_buf_printf(out, ",\"vocab_size\":%" PRId64 ",\"max_position_embeddings\":%" PRId64,
                   m->vocab, m->sequence);
    hsp_buf_puts(out, ",\"rms_norm_eps\":");
    hsp_yaml_put_f64(out, m->rms_norm_eps);
    hsp_buf_puts(out, ",\"rope_theta\":");
    hsp_yaml_put_f64(out, m->rope_theta);
    hsp_buf_printf(out,
                   ",\"hidden_act\":\"silu\",\"attention_bias\":false,\"mlp_bias\":false,"
                   "\"tie_word_embeddings\":%s,\"torch_dtype\":\"%s\"}\n",
                   m->tied_head ? "true" : "false", m->dtype == HSP_F32 ? "float32" : "float64");
}

void hsp_job_model_json(const struct hsp_job_spec *job, struct hsp_buf *out)
{
    const struct hsp_model_spec *m = &job->model;
    if (strcmp(m->family, "llama") == 0) {
        llama_json(m, out);
        return;
    }
    hsp_buf_puts(out, "{\"family\":");
    hsp_yaml_put_json_str(out, m->family);
    hsp_buf_printf(out, ",\"layers\":%" PRId64 ",\"hidden\":%" PRId64, m->layers, m->hidden);
    if (m->heads > 0) {
        hsp_buf_printf(out, ",\"heads\":%" PRId64, m->heads);
    }
    hsp_buf_printf(out, ",\"vocab\":%" PRId64 ",\"sequence\":%" PRId64 ",\"tied_head\":%s",
                   m->vocab, m->sequence, m->tied_head ? "true" : "false");
    hsp_buf_puts(out, ",\"dropout\":");
    hsp_yaml_put_f64(out, m->dropout);
    hsp_buf_puts(out, ",\"dtype\":");
    hsp_yaml_put_json_str(out, hsp_dtype_name(m->dtype));
    bool bytes = job->train.data.format == HSP_DATA_TEXT;
    hsp_buf_puts(out, bytes ? ",\"tokenizer\":\"byte\"}\n" : "}\n");
}
