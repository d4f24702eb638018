/* Merges the parts of a trace by time. */
#include "daemon/app/docs/trace_doc.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "proto/base/str.h"
#include "proto/wire/trace_part.h"

enum kind { FLOW_TO, SPAN, FLOW_FROM }; /* at one time an arrow arrives first, and leaves last */

struct event {
    double at_us; /* of hspmdd's clock, from the first span of all */
    uint32_t rank, span;
    uint32_t msg; /* flows */
    uint8_t kind;
};

struct doc {
    const struct hsp_trace_job *t;
    struct hsp_trace_part *part; /* by rank; n_spans 0: none */
    const char **fault;          /* by rank; NULL none */
    int64_t origin_ns;           /* of hspmdd's clock: the first span */
    double worst_us;             /* bound of the clocks */
    struct event *event;
    size_t n;
};

static const char *const queue_names[] = {"compute", "comm", "state"};

static bool is_known(const struct hsp_trace_device *d)
{
    return isfinite(d->error_us) && isfinite(d->offset_us) && fabs(d->offset_us) < 1e18;
}

/* Returns the time of hspmdd's clock, in nanoseconds, at which the part of @rank begins. If the
 * offset of the device is not known, its part begins with the first part of the other devices. */
static int64_t base_of(const struct doc *x, uint32_t rank)
{
    const struct hsp_trace_device *d = &x->t->device[rank];
    return is_known(d) ? x->part[rank].base_ns + (int64_t)(d->offset_us * 1e3) : x->origin_ns;
}

static double error_of(const struct doc *x, uint32_t rank)
{
    const struct hsp_trace_device *d = &x->t->device[rank];
    return is_known(d) ? d->error_us + 1e-3 * (double)x->part[rank].error_ns : (double)INFINITY;
}

/* ---- reading ---- */

static enum hsp_status read_parts(struct doc *x, struct hsp_arena *arena, struct hsp_err *err)
{
    const struct hsp_trace_job *t = x->t;
    for (uint32_t r = 0; r < t->n; r++) {
        struct hsp_err why = {0};
        const struct hsp_trace_device *d = &t->device[r];
        enum hsp_status st =
            d->told ? hsp_trace_part_decode(d->blob, d->len, arena, &x->part[r], &why) : HSP_OK;
        if (st == HSP_ENOMEM) {
            return hsp_err_set(err, st, 0, "%s", why.msg);
        }
        if (st != HSP_OK) {
            x->part[r] = (struct hsp_trace_part){0};
            x->fault[r] = hsp_arena_strdup(arena, why.msg);
            if (x->fault[r] == NULL) {
                return hsp_err_nomem(err, "a trace");
            }
        }
    }
    return HSP_OK;
}

static void find_origin(struct doc *x)
{
    bool found = false;
    for (uint32_t r = 0; r < x->t->n; r++) {
        bool some = x->part[r].n_spans > 0;
        int64_t base = some && is_known(&x->t->device[r]) ? base_of(x, r) : INT64_MAX;
        x->worst_us = some ? fmax(x->worst_us, error_of(x, r)) : x->worst_us;
        if (base != INT64_MAX && (!found || base < x->origin_ns)) {
            x->origin_ns = base;
            found = true;
        }
    }
}

/* ---- order ---- */

static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->at_us < y->at_us || x->at_us > y->at_us) {
        return x->at_us < y->at_us ? -1 : 1;
    }
    if (x->kind != y->kind) {
        return x->kind < y->kind ? -1 : 1;
    }
    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    return x->span != y->span ? (x->span < y->span ? -1 : 1)
                              : (x->msg > y->msg) - (x->msg < y->msg);
}

static enum hsp_status collect(struct doc *x, struct hsp_arena *arena, struct hsp_err *err)
{
    size_t n = 0;
    for (uint32_t r = 0; r < x->t->n; r++) {
        for (uint32_t k = 0; k < x->part[r].n_spans; k++) {
            n += 1 + x->part[r].labels[x->part[r].spans[k].label].n_msgs;
        }
    }
    if (n > HSP_TRACE_ALL_EVENTS) {
        return hsp_err_set(err, HSP_ELIMIT, 0,
                           "a trace of %zu events, at most %u; ask for fewer steps", n,
                           HSP_TRACE_ALL_EVENTS);
    }
    x->event = hsp_arena_array(arena, n, sizeof(*x->event));
    if (x->event == NULL) {
        return hsp_err_nomem(err, "a trace of %zu events", n);
    }
    for (uint32_t r = 0; r < x->t->n; r++) {
        const struct hsp_trace_part *p = &x->part[r];
        double base_us = 1e-3 * (double)(p->n_spans > 0 ? base_of(x, r) - x->origin_ns : 0);
        for (uint32_t k = 0; k < p->n_spans; k++) {
            const struct hsp_part_span *s = &p->spans[k];
            const struct hsp_part_label *l = &p->labels[s->label];
            double at = base_us + 1e-3 * (double)s->at_ns;
            x->event[x->n++] = (struct event){.at_us = at, .rank = r, .span = k, .kind = SPAN};
            for (uint32_t m = 0; m < l->n_msgs; m++) {
                bool out = l->msgs[m].out;
                x->event[x->n++] =
                    (struct event){.at_us = out ? at : at + 1e-3 * (double)s->took_ns,
                                   .rank = r,
                                   .span = k,
                                   .msg = m,
                                   .kind = out ? FLOW_FROM : FLOW_TO};
            }
        }
    }
    qsort(x->event, x->n, sizeof(*x->event), by_time);
    return HSP_OK;
}

/* ---- writing ---- */

/* Writes a JSON string. Names in a part may hold any bytes: a byte outside ASCII becomes a question
 * mark. */
static void put_text(struct hsp_buf *out, const char *s)
{
    hsp_buf_puts(out, "\"");
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            hsp_buf_printf(out, "\\%c", c);
        } else if (c < 0x20 || c >= 0x7f) {
            hsp_buf_printf(out, "\\u%04x", c < 0x20 ? c : '?');
        } else {
            hsp_buf_u8(out, c);
        }
    }
    hsp_buf_puts(out, "\"");
}

static void put_number(struct hsp_buf *out, const char *key, double v)
{
    if (isfinite(v)) {
        hsp_buf_printf(out, ",\"%s\":%.3f", key, v);
    } else {
        hsp_buf_printf(out, ",\"%s\":null", key);
    }
}

static void put_device(const struct doc *x, uint32_t r, struct hsp_buf *out)
{
    const struct hsp_trace_device *d = &x->t->device[r];
    const struct hsp_trace_part *p = &x->part[r];
    hsp_buf_printf(out, "%s{\"rank\":%u,\"device\":", r > 0 ? "," : "", r);
    put_text(out, d->name);
    hsp_buf_printf(
        out, ",\"told\":%s,\"first_step\":%" PRIu64 ",\"steps\":%u,\"spans\":%u,\"lost\":%" PRIu64,
        d->told && x->fault[r] == NULL ? "true" : "false", p->first_step, p->done, p->n_spans,
        p->lost);
    put_number(out, "clock_offset_us", is_known(d) ? d->offset_us : (double)INFINITY);
    put_number(out, "clock_error_us", error_of(x, r));
    if (x->fault[r] != NULL) {
        hsp_buf_puts(out, ",\"fault\":");
        put_text(out, x->fault[r]);
    }
    hsp_buf_puts(out, "}");
}

/* Why it is not whole; "" it is. */
static void find_note(const struct doc *x, char *ret, size_t size)
{
    uint32_t done = UINT32_MAX, asked = 0, unread = 0;
    for (uint32_t r = 0; r < x->t->n; r++) {
        bool told = x->t->device[r].told && x->fault[r] == NULL;
        done = told && x->part[r].done < done ? x->part[r].done : done;
        asked = told && x->part[r].n_steps > asked ? x->part[r].n_steps : asked;
        unread += x->fault[r] != NULL;
    }
    if (x->t->note[0] != '\0') {
        hsp_str_printf(ret, size, "%s", x->t->note);
    } else if (unread > 0) {
        hsp_str_printf(ret, size, "the records of %u of the devices cannot be read", unread);
    } else if (done < asked) {
        hsp_str_printf(ret, size, "%u of %u steps: the epoch ended", done, asked);
    } else {
        ret[0] = '\0';
    }
}

static void put_head(const struct doc *x, struct hsp_buf *out)
{
    const struct hsp_trace_job *t = x->t;
    char note[240];
    find_note(x, note, sizeof(note));
    hsp_buf_puts(out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"job\":");
    put_text(out, t->job);
    hsp_buf_printf(out, ",\"epoch\":\"%" PRIu64 "\",\"clock\":\"hspmdd, monotonic\"", t->epoch);
    hsp_buf_printf(out, ",\"origin_us\":%" PRId64, x->origin_ns / 1000);
    put_number(out, "clock_error_us", x->worst_us);
    hsp_buf_puts(out, ",\"note\":");
    put_text(out, note);
    hsp_buf_puts(out, ",\"devices\":[");
    for (uint32_t r = 0; r < t->n; r++) {
        put_device(x, r, out);
    }
    hsp_buf_puts(out, "]},\n\"traceEvents\":[");
}

/* Names of processes and threads. */
static void put_names(const struct doc *x, struct hsp_buf *out)
{
    char name[200];
    for (uint32_t r = 0; r < x->t->n; r++) {
        const struct hsp_trace_device *d = &x->t->device[r];
        if (d->pipeline != UINT32_MAX) {
            hsp_str_printf(name, sizeof(name), "%s (rank %u: pipeline %u, stage %u)", d->name, r,
                           d->pipeline, d->stage);
        } else {
            hsp_str_printf(name, sizeof(name), "%s (rank %u)", d->name, r);
        }
        hsp_buf_printf(out,
                       "%s\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":",
                       r > 0 ? "," : "", r);
        put_text(out, name);
        hsp_buf_printf(out,
                       "}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%u,\"args\":"
                       "{\"sort_index\":%u}}",
                       r, r);
        for (int q = 0; q < HSP_N_PART_QUEUES; q++) {
            hsp_buf_printf(out,
                           ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%d,"
                           "\"args\":{\"name\":\"%s\"}}",
                           r, q, queue_names[q]);
        }
    }
}

static void put_ranks(const struct hsp_part_label *l, bool out_going, struct hsp_buf *out)
{
    const char *comma = "";
    hsp_buf_printf(out, ",\"%s\":[", out_going ? "to" : "from");
    for (uint32_t m = 0; m < l->n_msgs; m++) {
        if (l->msgs[m].out == out_going) {
            hsp_buf_printf(out, "%s%u", comma, l->msgs[m].peer);
            comma = ",";
        }
    }
    hsp_buf_puts(out, "]");
}

static void put_span(const struct doc *x, const struct event *v, struct hsp_buf *out)
{
    static const char *const phase[] = {"pre",  "forward", "backward", "input-grad", "weight-grad",
                                        "post", "eval",    "serve",    "state"};
    const struct hsp_trace_part *p = &x->part[v->rank];
    const struct hsp_part_span *s = &p->spans[v->span];
    const struct hsp_part_label *l = &p->labels[s->label];
    const struct hsp_trace_device *d = &x->t->device[v->rank];
    hsp_buf_printf(
        out,
        ",\n{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\",\"name\":",
        v->rank, l->queue, v->at_us, 1e-3 * (double)s->took_ns, s->eval ? "eval" : phase[l->phase]);
    put_text(out, l->name);
    hsp_buf_puts(out, ",\"args\":{");
    if (l->queue == HSP_PART_STATE) {
        hsp_buf_puts(out, "}}");
        return;
    }
    hsp_buf_printf(out, "\"step\":%" PRIu64 ",\"micro\":%u", p->first_step + s->step, s->micro);
    if (d->pipeline != UINT32_MAX) {
        hsp_buf_printf(out, ",\"stage\":%u", d->stage);
    }
    if (l->chunk > 0) {
        hsp_buf_printf(out, ",\"chunk\":%u", l->chunk);
    }
    double flops = 0;
    for (int c = 0; c < HSP_N_GEMM_CLASSES; c++) {
        flops += l->flops[c];
    }
    if (flops > 0) {
        hsp_buf_printf(out, ",\"flops\":%.4g", flops);
    }
    if (l->n_msgs > 0) {
        put_ranks(l, true, out);
        put_ranks(l, false, out);
    }
    hsp_buf_puts(out, "}}");
}

/* Both ends of an arrow have one id. */
static void put_flow(const struct doc *x, const struct event *v, struct hsp_buf *out)
{
    const struct hsp_trace_part *p = &x->part[v->rank];
    const struct hsp_part_span *s = &p->spans[v->span];
    const struct hsp_part_msg *m = &p->labels[s->label].msgs[v->msg];
    hsp_buf_printf(
        out,
        ",\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"cat\":\"message\",\"name\":"
        "\"message\",\"id\":\"%" PRIu64 ".%d.%u.%u.%u.%u\"%s}",
        m->out ? "s" : "f", v->rank, p->labels[s->label].queue, v->at_us, p->first_step + s->step,
        s->eval, s->micro, m->channel, m->out ? v->rank : m->peer, m->out ? m->peer : v->rank,
        m->out ? "" : ",\"bp\":\"e\"");
}

enum hsp_status hsp_trace_write(const struct hsp_trace_job *t, struct hsp_arena *arena,
                                struct hsp_buf *out, struct hsp_err *err)
{
    struct doc x = {.t = t};
    x.part = hsp_arena_array(arena, t->n, sizeof(*x.part));
    x.fault = hsp_arena_array(arena, t->n, sizeof(*x.fault));
    if (x.part == NULL || x.fault == NULL) {
        return hsp_err_nomem(err, "a trace of %u devices", t->n);
    }
    enum hsp_status st = read_parts(&x, arena, err);
    if (st == HSP_OK) {
        find_origin(&x);
        st = collect(&x, arena, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    put_head(&x, out);
    put_names(&x, out);
    for (size_t k = 0; k < x.n && !out->failed; k++) {
        if (x.event[k].kind == SPAN) {
            put_span(&x, &x.event[k], out);
        } else {
            put_flow(&x, &x.event[k], out);
        }
    }
    hsp_buf_puts(out, "\n]}\n");
    st = hsp_buf_status(out);
    return st == HSP_OK ? st
                        : hsp_err_set(err, st, 0,
                                      st == HSP_ELIMIT
                                          ? "the trace is longer than %zu MiB; ask for fewer steps"
                                          : "out of memory for a trace of %zu MiB",
                                      out->max >> 20);
}

enum hsp_status hsp_trace_sums(const uint8_t *blob, size_t len, struct hsp_arena *arena,
                               struct hsp_measured *ret, struct hsp_err *err)
{
    struct hsp_trace_part p;
    struct hsp_measured m = {.product = {.n = 0}};
    enum hsp_status st = hsp_trace_part_decode(blob, len, arena, &p, err);
    if (st != HSP_OK) {
        return st;
    }
    for (uint32_t k = 0; k < p.n_spans; k++) {
        const struct hsp_part_span *s = &p.spans[k];
        const struct hsp_part_label *l = &p.labels[s->label];
        bool product = l->cls == HSP_PART_PRODUCT, elements = l->cls == HSP_PART_ELEMENTS;
        if (s->eval || l->queue != HSP_PART_COMPUTE || (!product && !elements)) {
            continue;
        }
        struct hsp_class_sum *to = product ? &m.product : &m.elements;
        m.bytes += elements ? l->bytes : 0;
        for (int c = 0; c < HSP_N_GEMM_CLASSES; c++) {
            m.flops[c] += product ? l->flops[c] : 0;
        }
        to->n += l->n_instrs;
        to->seconds += 1e-9 * (double)s->took_ns;
    }
    *ret = m;
    return HSP_OK;
}
