#include "tests/lib/testlib.h"

#include <stdio.h>

#include "daemon/planner/job_file.h"

/* The example of the contract, with every key. */
static const char full[] =
    "apiVersion: hspmd/v1\n"
    "name: kjv-gpt\n"
    "model: {family: gpt, layers: 4, hidden: 256, heads: 4, vocab: 256, sequence: 128, "
    "tied_head: true, dropout: 0.0}\n"
    "data: {path: /srv/kjv.txt, format: text, tokenizer: byte, validation_fraction: 0.05, "
    "validation_every: 20}\n"
    "train: {steps: 200, global_batch: 16, dtype: fp64, seed: 1, clip_norm: 1.0,\n"
    "        optimizer: {name: adamw, lr: 1e-3, betas: [0.9, 0.95], eps: 1e-8, weight_decay: "
    "0.1},\n"
    "        schedule: {name: cosine, warmup_steps: 20, min_lr: 1e-4}}\n"
    "resources: {min: 1, max: 8, priority: 0}   # devices; higher priority first\n"
    "recovery: {copies: 2, every: 4, overhead: 0.02, max_recompute: 7}\n"
    "checkpoint: {path: /var/lib/hspmd-worker/ckpt, shared: false, every_steps: 50, keep: 2}\n"
    "annotations: [plan-a.yaml]\n"
    "init_from: w.safetensors\n";

static enum hsp_status parse(const char *text, struct hsp_arena *arena,
                             const struct hsp_job_spec **ret, struct hsp_err *err)
{
    return hsp_job_parse(text, strlen(text), "job.yaml", arena, ret, err);
}

static void every_key_arrives(void **state)
{
    struct hsp_err err = {0};
    const struct hsp_job_spec *j = NULL;
    assert_ok(parse(full, *state, &j, &err), &err);
    assert_string_equal(j->name, "kjv-gpt");
    assert_string_equal(j->model.family, "gpt");
    assert_int_equal(j->model.layers, 4);
    assert_int_equal(j->model.heads, 4);
    assert_true(j->model.tied_head);
    assert_int_equal(j->model.dtype, HSP_F64);
    assert_string_equal(j->data_path, "/srv/kjv.txt");
    assert_int_equal(j->train.data.sequence, 128);
    assert_int_equal(j->train.data.validation_every, 20);
    assert_int_equal(j->train.data.global_batch, 16);
    assert_false(j->train.data.next_token_only);
    assert_int_equal(j->train.hyper.optimizer, HSP_OPT_ADAMW);
    assert_int_equal(j->train.hyper.schedule, HSP_LR_COSINE);
    assert_near(j->train.hyper.beta2, 0.95, 0);
    assert_near(j->train.eps, 1e-8, 0);
    assert_near(j->train.weight_decay, 0.1, 0);
    assert_near(j->train.hyper.min_lr, 1e-4, 0);
    assert_int_equal(j->max, 8);
    assert_int_equal(j->copies, 2);
    assert_int_equal(j->every, 4);
    assert_near(j->overhead, 0.02, 0);
    assert_near(j->max_recompute_s, 7, 0);
    assert_int_equal(j->ckpt_every_steps, 50);
    assert_int_equal(j->annotations.n, 1);
    assert_string_equal(j->annotations.items[0], "plan-a.yaml");
    assert_string_equal(j->init_from, "w.safetensors");
}

/* @full with the first @from replaced. */
static const char *edited(struct hsp_arena *arena, const char *from, const char *to)
{
    const char *at = strstr(full, from);
    assert_non_null(at);
    return hsp_arena_printf(arena, "%.*s%s%s", (int)(at - full), full, to, at + strlen(from));
}

static void messages_name_place_and_reason(void **state)
{
    static const struct {
        const char *from, *to, *msg;
    } cases[] = {
        {"layers: 4", "layer: 4", "job.yaml:3:22: unknown key \"layer\", did you mean \"layers\"?"},
        {"dtype: fp64", "dtype: bf16",
         "job.yaml:5:46: dtype: wanted fp32 or fp64, found \"bf16\": bf16 and tf32 are values of "
         "train.compute"},
        {"hspmd/v1", "hspmd/v2", "job.yaml:1:13: apiVersion: must be hspmd/v1"},
        {"name: kjv-gpt", "name: Kjv",
         "job.yaml:2:7: name: must be 1 to 63 of a-z 0-9 - . with alphanumeric ends"},
        {"name: kjv-gpt", "name: 12",
         "job.yaml:2:7: name: must not be a number: a job is also called by the number it gets"},
        {"heads: 4", "heads: 3", "job.yaml:3:53: heads: must divide hidden"},
        {"heads: 4, ", "", "job.yaml:3:8: model: heads: must be given for gpt and llama"},
        {"dropout: 0.0", "dropout: 1.0", "job.yaml:3:109: dropout: must be below 1"},
        {"warmup_steps: 20", "warmup_steps: 201",
         "job.yaml:7:48: warmup_steps: must not be above train.steps"},
        {"min_lr: 1e-4", "min_lr: 1e-2", "job.yaml:7:60: min_lr: must not be above the peak rate"},
        {"name: cosine", "name: constant", "job.yaml:7:62: min_lr: only for cosine"},
        {"min: 1", "min: 9", "job.yaml:8:18: min: must not be above resources.max"},
        {"every: 4", "every: 0",
         "job.yaml:9:30: every: must be auto or a number from 1 to 1000000"},
        {"every: 4", "every: some",
         "job.yaml:9:30: every: must be auto or a number from 1 to 1000000"},
        {"name: adamw", "name: sgd", "job.yaml:6:49: betas: only for adamw"},
        {"betas: [0.9, 0.95]", "betas: [0.9, 1]", "job.yaml:6:51: betas: must be below 1"},
        {"format: text", "format: text, packing: documents",
         "job.yaml:4:51: packing: documents: give document_start or document_end, the token there"},
        {"format: text", "document_end: 10",
         "job.yaml:4:42: document_end: only with packing: documents"},
        {"format: text", "packing: documents, document_start: 256",
         "job.yaml:4:64: document_start: must be below model.vocab"},
        {"format: text, tokenizer: byte", "format: megatron, packing: documents, document_end: 0",
         "job.yaml:4:80: document_end: the .idx of megatron says where documents begin"},
        {"format: text", "format: llmc",
         "job.yaml:4:36: format: wanted text, llm.c, nanogpt or megatron, found \"llmc\""},
        {"format: text", "format: llm.c",
         "job.yaml:4:54: tokenizer: only for text: other formats hold tokens"},
        {"vocab: 256", "vocab: 255",
         "job.yaml:3:63: vocab: must be at least 256: tokens of text are bytes"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hsp_err err = {0};
        const struct hsp_job_spec *j = NULL;
        enum hsp_status st = parse(edited(*state, cases[i].from, cases[i].to), *state, &j, &err);
        assert_status(st, HSP_EPARSE);
        assert_err(&err, HSP_EPARSE, cases[i].msg);
        assert_null(j);
        assert_null(strchr(err.msg, '\n'));
    }
}

static void ranges_are_kept(void **state)
{
    static const char *const cases[][2] = {
        {"layers: 4", "layers: 0"},
        {"vocab: 256", "vocab: 255"},
        {"vocab: 256", "vocab: 1"},
        {"format: text", "packing: document, document_end: 0"},
        {"format: text", "packing: documents, document_end: 0, document_start: 0"},
        {"steps: 200", "steps: 0"},
        {"global_batch: 16", "global_batch: 65537"},
        {"steps: 200", "steps: 1.5"},
        {"dtype: fp64", "dtype: fp16"},
        {"dtype: fp64", "dtype: fp64, compute: fp64"},
        {"lr: 1e-3", "lr: 0"},
        {"lr: 1e-3", "lr: -1"},
        {"copies: 2", "copies: 0"},
        {"keep: 2", "keep: 0"},
        {"family: gpt", "family: lama"},
        {"family: gpt", "family: llama, kv_heads: 3"},
        {"family: gpt", "family: llama, rope_theta: 0"},
        {"family: gpt", "family: llama, rms_norm_eps: 0"},
        {"heads: 4", "heads: 4, kv_heads: 2"},
        {"vocab: 256", "vocab: 257, vocab_parallel: on"},
        {"vocab: 256", "vocab_parallel: yes"},
        {"heads: 4", "heads: 4, intermediate: 2"},
        {"fraction: 0.05", "fraction: 0.95"},
        {"steps: 200, ", ""},
        {"path: /srv/kjv.txt, ", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hsp_err err = {0};
        const struct hsp_job_spec *j = NULL;
        assert_status(parse(edited(*state, cases[i][0], cases[i][1]), *state, &j, &err),
                      HSP_EPARSE);
        assert_int_equal(strncmp(err.msg, "job.yaml:", 9), 0);
    }
}

static const char small_mlp[] =
    "{\"apiVersion\": \"hspmd/v1\", \"name\": \"m\", \"model\": {\"family\": \"mlp\", \"layers\": "
    "2,"
    "\"hidden\": 8, \"sequence\": 4}, \"data\": {\"path\": \"/t\"}, \"train\": {\"steps\": 3,"
    "\"global_batch\": 2, \"optimizer\": {\"name\": \"sgd\", \"lr\": 0.1}}}";

static void json_is_a_job_file_and_defaults_hold(void **state)
{
    struct hsp_err err = {0};
    const struct hsp_job_spec *j = NULL;
    assert_ok(parse(small_mlp, *state, &j, &err), &err);
    assert_true(j->train.data.next_token_only);
    assert_int_equal(j->train.hyper.optimizer, HSP_OPT_SGD);
    assert_near(j->train.momentum, 0.9, 0);
    assert_int_equal(j->model.vocab, 256);
    assert_int_equal(j->model.dtype, HSP_F32);
    assert_int_equal(j->min, 1);
    assert_int_equal(j->copies, 2);
    assert_int_equal(j->every, 0); /* auto */
    assert_int_equal(j->annotations.n, 0);
    assert_string_equal(j->init_from, "");
}

/* A job of an hspmdd whose default was another one keeps that. */
static void a_kept_text_has_the_defaults_of_its_time(void **state)
{
    static const struct {
        const char *from, *to, *end;
        uint32_t every;
    } cases[] = {{"", "", "", 4},
                 {"every: 4, ", "", "", 1},
                 {"every: 4, ", "", HSP_JOB_DEFAULTS, 0},
                 {"every: 4", "every: auto", "", 0},
                 {"every: 4", "every: 1", HSP_JOB_DEFAULTS, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hsp_err err = {0};
        const struct hsp_job_spec *j = NULL;
        char text[4096];
        const char *base =
            *cases[i].from != '\0' ? edited(*state, cases[i].from, cases[i].to) : full;
        (void)snprintf(text, sizeof text, "%s%s", base, cases[i].end);
        assert_ok(hsp_job_parse_stored(text, strlen(text), "job.yaml", *state, &j, &err), &err);
        assert_int_equal(j->every, cases[i].every);
    }
}

/* Also where the text ends in a block scalar without a line break. */
static void the_line_of_defaults_changes_no_value(void **state)
{
    struct hsp_err err = {0};
    const struct hsp_job_spec *j = NULL;
    const char *sent = edited(*state, "w.safetensors\n", "|\n  w.safetensors");
    const char *kept = hsp_arena_printf(*state, "%s%s", sent, HSP_JOB_DEFAULTS);
    assert_ok(parse(sent, *state, &j, &err), &err);
    assert_string_equal(j->init_from, "w.safetensors");
    assert_ok(parse(kept, *state, &j, &err), &err);
    assert_string_equal(j->init_from, "w.safetensors");
    assert_ok(hsp_job_parse_stored(kept, strlen(kept), "job.yaml", *state, &j, &err), &err);
    assert_string_equal(j->init_from, "w.safetensors");
}

/* Every key has its line in a dump, so two jobs with one dump are the same. */
static void assert_same_dump(const struct hsp_job_spec *j, struct hsp_buf *want)
{
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 16);
    hsp_job_dump(j, false, &b);
    assert_string_equal(hsp_buf_cstr(&b), hsp_buf_cstr(want));
    hsp_buf_fini(&b);
}

static void dump_parses_to_the_same_job(void **state)
{
    const char *texts[] = {full, small_mlp};
    for (size_t i = 0; i < 2; i++) {
        struct hsp_err err = {0};
        const struct hsp_job_spec *a = NULL, *b = NULL;
        struct hsp_buf first, help;
        hsp_buf_init(&first, 1 << 16);
        hsp_buf_init(&help, 1 << 16);
        assert_ok(parse(texts[i], *state, &a, &err), &err);
        hsp_job_dump(a, false, &first);
        assert_ok(parse(hsp_buf_cstr(&first), *state, &b, &err), &err);
        assert_same_dump(b, &first);
        hsp_job_dump(a, true, &help);
        assert_ok(parse(hsp_buf_cstr(&help), *state, &b, &err), &err);
        hsp_buf_fini(&first);
        hsp_buf_fini(&help);
    }
}

static void model_keys_as_json(void **state)
{
    struct hsp_err err = {0};
    const struct hsp_job_spec *j = NULL;
    struct hsp_buf b;
    hsp_buf_init(&b, 4096);
    assert_ok(parse(full, *state, &j, &err), &err);
    hsp_job_model_json(j, &b);
    assert_string_equal(hsp_buf_cstr(&b),
                        "{\"family\":\"gpt\",\"layers\":4,\"hidden\":256,\"heads\":4,\"vocab\":256,"
                        "\"sequence\":128,\"tied_head\":true,\"dropout\":0,\"dtype\":\"fp64\","
                        "\"tokenizer\":\"byte\"}\n");
    hsp_buf_fini(&b);
}

static void large_vocabularies_are_cut(void **state)
{
    static const struct {
        const char *to;
        int64_t chunks;
    } cases[] = {{"vocab: 256", 0},
                 {"vocab: 256, vocab_parallel: on", 64},
                 {"vocab: 50257", 29}, /* 29 * 1733 */
                 {"vocab: 50257, vocab_parallel: off", 0},
                 {"vocab: 32003", 0}, /* prime */
                 {"vocab: 32000", 64}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hsp_err err = {0};
        const struct hsp_job_spec *j = NULL;
        assert_ok(parse(edited(*state, "vocab: 256", cases[i].to), *state, &j, &err), &err);
        assert_int_equal(j->model.vocab_chunks, cases[i].chunks);
    }
}

static void what_it_computes_in(void **state)
{
    static const struct {
        const char *to;
        enum hsp_dtype dtype;
        enum hsp_compute compute;
    } cases[] = {{"", HSP_F32, HSP_COMPUTE_FULL},
                 {"compute: fp32, ", HSP_F32, HSP_COMPUTE_FULL},
                 {"compute: tf32, ", HSP_F32, HSP_COMPUTE_TF32},
                 {"compute: bf16, ", HSP_F32, HSP_COMPUTE_BF16},
                 {"dtype: fp64, compute: bf16, ", HSP_F64, HSP_COMPUTE_FULL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hsp_err err = {0};
        struct hsp_buf b;
        const struct hsp_job_spec *j = NULL, *again = NULL;
        assert_ok(parse(edited(*state, "dtype: fp64, ", cases[i].to), *state, &j, &err), &err);
        assert_int_equal(j->model.dtype, cases[i].dtype);
        assert_int_equal(j->model.compute, cases[i].compute);
        hsp_buf_init(&b, 1 << 16);
        hsp_job_dump(j, false, &b);
        assert_ok(parse(hsp_buf_cstr(&b), *state, &again, &err), &err);
        assert_same_dump(again, &b);
        assert_int_equal(again->model.compute, cases[i].compute);
        hsp_buf_fini(&b);
    }
}

static void documents_are_packed(void **state)
{
    static const struct {
        const char *to;
        uint8_t format, packing;
        uint32_t separator;
    } cases[] = {
        {"packing: none", HSP_DATA_TEXT, HSP_PACKING_NONE, 0},
        {"packing: documents, document_end: 10", HSP_DATA_TEXT, HSP_PACKING_END, 10},
        {"format: nanogpt, packing: documents, document_start: 0", HSP_DATA_NANOGPT,
         HSP_PACKING_START, 0},
        {"format: megatron, packing: documents", HSP_DATA_MEGATRON, HSP_PACKING_INDEX, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hsp_err err = {0};
        struct hsp_buf b;
        const struct hsp_job_spec *j = NULL, *again = NULL;
        assert_ok(
            parse(edited(*state, "format: text, tokenizer: byte", cases[i].to), *state, &j, &err),
            &err);
        const struct hsp_data_bind *d = &j->train.data;
        assert_true(d->format == cases[i].format && d->packing == cases[i].packing);
        assert_int_equal(d->separator, cases[i].separator);
        assert_true(j->model.packed == (d->packing != HSP_PACKING_NONE));
        hsp_buf_init(&b, 1 << 16);
        hsp_job_dump(j, false, &b);
        assert_ok(parse(hsp_buf_cstr(&b), *state, &again, &err), &err);
        assert_same_dump(again, &b);
        hsp_buf_fini(&b);
    }
}

static void llama_has_keys_of_its_own(void **state)
{
    struct hsp_err err = {0};
    const struct hsp_job_spec *j = NULL, *again = NULL;
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 16);
    assert_ok(parse(edited(*state, "family: gpt", "family: llama"), *state, &j, &err), &err);
    assert_int_equal(j->model.kv_heads, 4);       /* as many as heads */
    assert_int_equal(j->model.intermediate, 704); /* 8/3 of 256 is 682.7 */
    assert_near(j->model.rope_theta, 10000, 0);
    assert_near(j->model.rms_norm_eps, 1e-5, 0);
    const char *own = "family: llama, kv_heads: 2, intermediate: 300, rope_theta: 5e5, "
                      "rms_norm_eps: 1e-6";
    assert_ok(parse(edited(*state, "family: gpt", own), *state, &j, &err), &err);
    hsp_job_dump(j, false, &b);
    assert_ok(parse(hsp_buf_cstr(&b), *state, &again, &err), &err);
    assert_same_dump(again, &b);
    hsp_buf_fini(&b);
    hsp_buf_init(&b, 4096);
    hsp_job_model_json(j, &b);
    assert_string_equal(
        hsp_buf_cstr(&b),
        "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":256,"
        "\"intermediate_size\":300,\"num_hidden_layers\":4,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":2,\"head_dim\":64,\"vocab_size\":256,"
        "\"max_position_embeddings\":128,\"rms_norm_eps\":1e-06,\"rope_theta\":500000,"
        "\"hidden_act\":\"silu\",\"attention_bias\":false,\"mlp_bias\":false,"
        "\"tie_word_embeddings\":true,\"torch_dtype\":\"float64\"}\n");
    hsp_buf_fini(&b);
}

/* The examples in conf/jobs are job files. */
static void examples_parse(void **state)
{
    static const char *const names[] = {"gpt2-bf16", "kjv-gpt",    "packed-llama",
                                        "tiny-gpt",  "tiny-llama", "tiny-mlp"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *text = hsp_test_source(hsp_arena_printf(*state, "conf/jobs/%s.yaml", names[i]));
        struct hsp_err err = {0};
        const struct hsp_job_spec *j = NULL;
        assert_ok(hsp_job_parse(text, strlen(text), names[i], *state, &j, &err), &err);
        assert_string_equal(j->name, names[i]);
        free(text);
    }
}

HSP_TEST_FILE(job_file_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_arrives),
        cmocka_unit_test(messages_name_place_and_reason),
        cmocka_unit_test(ranges_are_kept),
        cmocka_unit_test(json_is_a_job_file_and_defaults_hold),
        cmocka_unit_test(a_kept_text_has_the_defaults_of_its_time),
        cmocka_unit_test(the_line_of_defaults_changes_no_value),
        cmocka_unit_test(dump_parses_to_the_same_job),
        cmocka_unit_test(model_keys_as_json),
        cmocka_unit_test(what_it_computes_in),
        cmocka_unit_test(documents_are_packed),
        cmocka_unit_test(llama_has_keys_of_its_own),
        cmocka_unit_test(large_vocabularies_are_cut),
        cmocka_unit_test(examples_parse),
    };
    return cmocka_run_group_tests_name("jobfile", tests, hsp_test_arena_begin, hsp_test_arena_end);
}
