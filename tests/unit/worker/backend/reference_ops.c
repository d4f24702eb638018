#include "tests/unit/worker/backend/reference_ops.h"

#include <math.h>

#include "proto/base/rng.h"
#include "tests/lib/testlib.h"

#define IN(i)  ((const double *)c->in[i].data)
#define OUT(i) ((double *)c->out[i].data)

static int64_t count(const struct hsp_array *a)
{
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) {
        n *= a->ext[d];
    }
    return n;
}

static int64_t rows_of(const struct hsp_array *a)
{
    return a->ext[0] * a->ext[1];
}

static void ref_linear(const struct hsp_call *c)
{
    int64_t m = rows_of(&c->in[0]), k = c->in[0].ext[2], n = c->in[1].ext[0];
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double s = 0;
            for (int64_t l = 0; l < k; l++) {
                s += IN(0)[i * k + l] * IN(1)[j * k + l];
            }
            OUT(0)[i * n + j] = s;
        }
    }
}

static void ref_linear_dx(const struct hsp_call *c)
{
    int64_t m = rows_of(&c->in[0]), n = c->in[1].ext[0], k = c->in[1].ext[1];
    for (int64_t i = 0; i < m; i++) {
        for (int64_t l = 0; l < k; l++) {
            double s = 0;
            for (int64_t j = 0; j < n; j++) {
                s += IN(0)[i * n + j] * IN(1)[j * k + l];
            }
            OUT(0)[i * k + l] = s;
        }
    }
}

static void ref_linear_dw(const struct hsp_call *c)
{
    int64_t m = rows_of(&c->in[0]), n = c->in[0].ext[2], k = c->in[1].ext[2];
    for (int64_t j = 0; j < n; j++) {
        for (int64_t l = 0; l < k; l++) {
            double s = 0;
            for (int64_t i = 0; i < m; i++) {
                s += IN(0)[i * n + j] * IN(1)[i * k + l];
            }
            OUT(0)[j * k + l] = s;
        }
    }
}

static void ref_embed(const struct hsp_call *c)
{
    const int32_t *id = c->in[0].data;
    int64_t n = count(&c->in[0]), v = c->in[1].ext[0], e = c->in[1].ext[1];
    for (int64_t i = 0; i < n; i++) {
        int64_t row = id[i] - c->origin[0];
        for (int64_t j = 0; j < e; j++) {
            OUT(0)[i * e + j] = row >= 0 && row < v ? IN(1)[row * e + j] : 0;
        }
    }
}

static void ref_embed_dw(const struct hsp_call *c)
{
    const int32_t *id = c->in[0].data;
    int64_t n = count(&c->in[0]), v = c->out[0].ext[0], e = c->out[0].ext[1];
    for (int64_t i = 0; i < v * e; i++) {
        OUT(0)[i] = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t row = id[i] - c->origin[0];
        for (int64_t j = 0; row >= 0 && row < v && j < e; j++) {
            OUT(0)[row * e + j] += IN(1)[i * e + j];
        }
    }
}

static void ref_bias(const struct hsp_call *c)
{
    int64_t n = c->in[0].ext[2];
    if (c->op == HSP_OP_BIAS_DB) {
        for (int64_t j = 0; j < n; j++) {
            OUT(0)[j] = 0;
        }
    }
    for (int64_t i = 0; i < count(&c->in[0]); i++) {
        if (c->op == HSP_OP_BIAS_ADD) {
            OUT(0)[i] = IN(0)[i] + IN(1)[i % n];
        } else {
            OUT(0)[i % n] += IN(0)[i];
        }
    }
}

static void ref_layernorm(const struct hsp_call *c)
{
    int64_t e = c->in[0].ext[2];
    for (int64_t r = 0; r < rows_of(&c->in[0]); r++) {
        const double *x = IN(0) + r * e;
        double mean = 0, var = 0;
        for (int64_t j = 0; j < e; j++) {
            mean += x[j] / (double)e;
        }
        for (int64_t j = 0; j < e; j++) {
            var += (x[j] - mean) * (x[j] - mean) / (double)e;
        }
        double rstd = 1 / sqrt(var + c->at->f[0]);
        for (int64_t j = 0; j < e; j++) {
            OUT(0)[r * e + j] = (x[j] - mean) * rstd * IN(1)[j] + IN(2)[j];
        }
        OUT(1)[r] = mean;
        OUT(2)[r] = rstd;
    }
}

static void ref_layernorm_dx(const struct hsp_call *c)
{
    int64_t e = c->in[0].ext[2];
    for (int64_t r = 0; r < rows_of(&c->in[0]); r++) {
        const double *dy = IN(0) + r * e, *x = IN(1) + r * e;
        double a = 0, b = 0;
        for (int64_t j = 0; j < e; j++) {
            a += dy[j] * IN(2)[j] / (double)e;
            b += dy[j] * IN(2)[j] * (x[j] - IN(3)[r]) * IN(4)[r] / (double)e;
        }
        for (int64_t j = 0; j < e; j++) {
            OUT(0)
            [r * e + j] = IN(4)[r] * (dy[j] * IN(2)[j] - a - (x[j] - IN(3)[r]) * IN(4)[r] * b);
        }
    }
}

static void ref_layernorm_dw(const struct hsp_call *c)
{
    int64_t e = c->in[0].ext[2];
    for (int64_t j = 0; j < e; j++) {
        OUT(0)[j] = OUT(1)[j] = 0;
        for (int64_t r = 0; r < rows_of(&c->in[0]); r++) {
            OUT(0)[j] += IN(0)[r * e + j] * (IN(1)[r * e + j] - IN(2)[r]) * IN(3)[r];
            OUT(1)[j] += IN(0)[r * e + j];
        }
    }
}

static void ref_gelu(const struct hsp_call *c)
{
    for (int64_t i = 0; i < count(&c->in[0]); i++) {
        if (c->op == HSP_OP_GELU) {
            double x = IN(0)[i];
            OUT(0)[i] = x * 0.5 * erfc(-x * M_SQRT1_2);
        } else {
            double x = IN(1)[i];
            OUT(0)
            [i] = IN(0)[i] * (0.5 * erfc(-x * M_SQRT1_2) + x * exp(-x * x / 2) / sqrt(2 * M_PI));
        }
    }
}

static void ref_rmsnorm(const struct hsp_call *c)
{
    int64_t e = c->in[0].ext[2];
    for (int64_t r = 0; r < rows_of(&c->in[0]); r++) {
        double s = 0;
        for (int64_t j = 0; j < e; j++) {
            s += IN(0)[r * e + j] * IN(0)[r * e + j];
        }
        OUT(1)[r] = 1 / sqrt(s / (double)e + c->at->f[0]);
        for (int64_t j = 0; j < e; j++) {
            OUT(0)[r * e + j] = IN(0)[r * e + j] * OUT(1)[r] * IN(1)[j];
        }
    }
}

static void ref_rmsnorm_dx(const struct hsp_call *c)
{
    int64_t e = c->in[0].ext[2];
    for (int64_t r = 0; r < rows_of(&c->in[0]); r++) {
        double s = 0, rstd = IN(3)[r];
        for (int64_t j = 0; j < e; j++) {
            s += IN(0)[r * e + j] * IN(2)[j] * IN(1)[r * e + j] * rstd;
        }
        for (int64_t j = 0; j < e; j++) {
            OUT(0)
            [r * e + j] =
                rstd * (IN(0)[r * e + j] * IN(2)[j] - IN(1)[r * e + j] * rstd * s / (double)e);
        }
    }
}

static void ref_rmsnorm_dw(const struct hsp_call *c)
{
    int64_t e = c->in[0].ext[2];
    for (int64_t j = 0; j < e; j++) {
        OUT(0)[j] = 0;
        for (int64_t r = 0; r < rows_of(&c->in[0]); r++) {
            OUT(0)[j] += IN(0)[r * e + j] * IN(1)[r * e + j] * IN(2)[r];
        }
    }
}

static void ref_rope(const struct hsp_call *c)
{
    int64_t d = c->at->i[0], n = c->in[1].ext[2];
    const int32_t *pos = c->in[0].data;
    for (int64_t k = 0; k < count(&c->in[1]); k++) {
        int64_t i = k % d % (d / 2);
        double angle = pos[k / n] / pow(c->at->f[0], 2 * (double)i / (double)d);
        angle = c->op == HSP_OP_ROPE ? angle : -angle;
        OUT(0)
        [k] = k % d < d / 2 ? IN(1)[k] * cos(angle) - IN(1)[k + d / 2] * sin(angle)
                            : IN(1)[k] * cos(angle) + IN(1)[k - d / 2] * sin(angle);
    }
}

static void ref_dropout(const struct hsp_call *c)
{
    int64_t s = c->in[1].ext[1], n = c->in[1].ext[2];
    const int32_t *keys = c->in[0].data;
    for (int64_t i = 0; i < count(&c->in[1]); i++) {
        const int32_t *k = keys + i / n / s * 2;
        uint32_t e = (uint32_t)(i % n + c->origin[1]), word[4];
        uint32_t ctr[4] = {e / 4, (uint32_t)(i / n % s + c->origin[0]), (uint32_t)k[0],
                           (uint32_t)k[1]};
        uint32_t key[2] = {(uint32_t)(uint64_t)c->at->i[1],
                           (uint32_t)((uint64_t)c->at->i[1] >> 32)};
        hsp_philox(ctr, key, word);
        bool falls = k[0] >= 0 && word[e % 4] / 0x1p32 < c->at->f[0];
        OUT(0)[i] = k[0] < 0 ? IN(1)[i] : falls ? 0 : IN(1)[i] / (1 - c->at->f[0]);
    }
}

static void ref_swiglu(const struct hsp_call *c)
{
    for (int64_t i = 0; i < count(&c->in[0]); i++) {
        double g = IN(c->op == HSP_OP_SWIGLU ? 0 : 1)[i], s = 1 / (1 + exp(-g));
        if (c->op == HSP_OP_SWIGLU) {
            OUT(0)[i] = g * s * IN(1)[i];
        } else {
            OUT(0)[i] = IN(0)[i] * IN(2)[i] * (s + g * s * (1 - s));
            OUT(1)[i] = IN(0)[i] * g * s;
        }
    }
}

/* Returns the score of a query and a key, whose heads of @d elements begin at @iq of input @q and
 * at @ik of input @k: their product times the scale. */
static double score(const struct hsp_call *c, int q, int k, int64_t iq, int64_t ik, int64_t d)
{
    double s = 0;
    for (int64_t l = 0; l < d; l++) {
        s += IN(q)[iq + l] * IN(k)[ik + l];
    }
    return s * c->at->f[0];
}

/* Returns the first key that the query at @row of starts sees, counted from the first key of the
 * block. Input @in has the starts; 0 if the op is not packed. */
static int64_t ref_first(const struct hsp_call *c, int in, int64_t row)
{
    bool packed = c->op == HSP_OP_PACKED_ATTENTION || c->op == HSP_OP_PACKED_ATTENTION_BWD;
    int32_t start = packed ? ((const int32_t *)c->in[in].data)[row] : 0;
    return start > c->origin[1] ? start - c->origin[1] : 0;
}

static void ref_attention(const struct hsp_call *c)
{
    int64_t s = c->in[0].ext[1], t = c->in[1].ext[1], ld = c->in[0].ext[2], d = c->at->i[0];
    int64_t h = ld / d, group = c->at->i[2], ldk = ld / group;
    for (int64_t row = 0; row < c->in[0].ext[0] * s * h; row++) {
        int64_t head = row % h, i = row / h % s, b = row / h / s;
        int64_t iq = (b * s + i) * ld + head * d;
        int64_t keys = c->at->i[1] ? c->origin[0] + i + 1 - c->origin[1] : t;
        keys = keys > t ? t : keys;
        int64_t first = ref_first(c, 3, b * s + i);
        double max = (double)-INFINITY, sum = 0;
        for (int64_t j = first; j < keys; j++) {
            max = fmax(max, score(c, 0, 1, iq, (b * t + j) * ldk + head / group * d, d));
        }
        for (int64_t j = first; j < keys; j++) {
            sum += exp(score(c, 0, 1, iq, (b * t + j) * ldk + head / group * d, d) - max);
        }
        OUT(1)[row] = max + log(sum);
        for (int64_t l = 0; l < d; l++) {
            OUT(0)[iq + l] = 0;
        }
        for (int64_t j = first; j < keys; j++) {
            int64_t ik = (b * t + j) * ldk + head / group * d;
            double p = exp(score(c, 0, 1, iq, ik, d) - OUT(1)[row]);
            for (int64_t l = 0; l < d; l++) {
                OUT(0)[iq + l] += p * IN(2)[ik + l];
            }
        }
    }
}

static void ref_attention_bwd(const struct hsp_call *c)
{
    int64_t s = c->in[1].ext[1], t = c->in[2].ext[1], ld = c->in[1].ext[2], d = c->at->i[0];
    int64_t h = ld / d, group = c->at->i[2], ldk = ld / group;
    for (int o = 0; o < 3; o++) {
        for (int64_t i = 0; i < count(&c->out[o]); i++) {
            OUT(o)[i] = 0;
        }
    }
    for (int64_t row = 0; row < c->in[1].ext[0] * s * h; row++) {
        int64_t head = row % h, i = row / h % s, b = row / h / s;
        int64_t iq = (b * s + i) * ld + head * d;
        int64_t keys = c->at->i[1] ? c->origin[0] + i + 1 - c->origin[1] : t;
        keys = keys > t ? t : keys;
        int64_t first = ref_first(c, 6, b * s + i);
        double delta = 0;
        for (int64_t l = 0; l < d; l++) {
            delta += IN(0)[iq + l] * IN(4)[iq + l];
        }
        for (int64_t j = first; j < keys; j++) {
            int64_t ik = (b * t + j) * ldk + head / group * d;
            double p = exp(score(c, 1, 2, iq, ik, d) - IN(5)[row]), dp = 0;
            for (int64_t l = 0; l < d; l++) {
                dp += IN(0)[iq + l] * IN(3)[ik + l];
            }
            double ds = p * (dp - delta) * c->at->f[0];
            for (int64_t l = 0; l < d; l++) {
                OUT(0)[iq + l] += ds * IN(2)[ik + l];
                OUT(1)[ik + l] += ds * IN(1)[iq + l];
                OUT(2)[ik + l] += p * IN(0)[iq + l];
            }
        }
    }
}

static void ref_attention_merge(const struct hsp_call *c)
{
    int64_t d = c->at->i[0];
    for (int64_t i = 0; i < count(&c->in[0]); i++) {
        double l1 = IN(1)[i / d], l2 = IN(3)[i / d];
        bool first = l2 == (double)-INFINITY, second = l1 == (double)-INFINITY;
        /* the share of the first block */
        double share = first ? 1 : second ? 0 : 1 / (1 + exp(l2 - l1));
        OUT(0)[i] = first && second ? 0 : share * IN(0)[i] + (1 - share) * IN(2)[i];
        OUT(1)[i / d] = first ? l1 : second ? l2 : fmax(l1, l2) + log1p(exp(-fabs(l1 - l2)));
    }
}

static void ref_xent(const struct hsp_call *c)
{
    int64_t v = c->in[0].ext[2];
    const int32_t *label = c->in[1].data;
    for (int64_t r = 0; r < rows_of(&c->in[0]); r++) {
        double max = (double)-INFINITY, sum = 0;
        for (int64_t j = 0; j < v; j++) {
            max = fmax(max, IN(0)[r * v + j]);
        }
        for (int64_t j = 0; j < v; j++) {
            sum += exp(IN(0)[r * v + j] - max);
        }
        OUT(1)[r] = max + log(sum);
        OUT(0)[r] = label[r] < 0 ? 0 : OUT(1)[r] - IN(0)[r * v + label[r]];
    }
}

static void ref_xent_dx(const struct hsp_call *c)
{
    int64_t v = c->in[1].ext[2];
    const int32_t *label = c->in[2].data;
    for (int64_t i = 0; i < count(&c->in[1]); i++) {
        int64_t r = i / v;
        double p = exp(IN(1)[i] - IN(3)[r]) - (label[r] == i % v ? 1 : 0);
        OUT(0)[i] = label[r] < 0 ? 0 : IN(0)[r] * p;
    }
}

static void ref_xent_part(const struct hsp_call *c)
{
    bool forward = c->op == HSP_OP_XENT_PART;
    int64_t v = c->in[forward ? 0 : 1].ext[2];
    const int32_t *label = c->in[forward ? 1 : 2].data;
    for (int64_t i = 0; i < count(&c->out[0]); i++) {
        int64_t r = forward ? i : i / v;
        int64_t at = (int64_t)label[r] - c->origin[0];
        if (forward) {
            OUT(0)[i] = label[r] < 0 || at < 0 || at >= v ? 0 : IN(2)[r] - IN(0)[r * v + at];
        } else {
            double p = exp(IN(1)[i] - IN(3)[r]) - (i % v == at ? 1 : 0);
            OUT(0)[i] = label[r] < 0 ? 0 : IN(0)[r] * p;
        }
    }
}

static void ref_lse(const struct hsp_call *c)
{
    int64_t n = c->op == HSP_OP_LSE_PARTS ? c->at->i[0] : c->in[0].ext[2];
    for (int64_t r = 0; r < count(&c->out[0]); r++) {
        double max = (double)-INFINITY, sum = 0;
        for (int64_t j = 0; j < n; j++) {
            max = fmax(max, IN(0)[r * n + j]);
        }
        for (int64_t j = 0; j < n; j++) {
            sum += exp(IN(0)[r * n + j] - max);
        }
        OUT(0)[r] = max + log(sum);
    }
}

static void ref_scalars(const struct hsp_call *c)
{
    long double s = 0; /* the terms cancel: a double would be no better than the tested sum */
    for (int64_t i = 0; i < count(&c->in[0]); i++) {
        if (c->op == HSP_OP_COUNT) {
            s += ((const int32_t *)c->in[0].data)[i] >= 0 ? 1 : 0;
        } else {
            s += (long double)IN(0)[i] * (c->op == HSP_OP_SUM ? 1 : IN(0)[i]);
        }
    }
    OUT(0)[0] = (double)s;
}

static void ref_update(const struct hsp_call *c)
{
    const double *f = c->at->f;
    for (int64_t i = 0; i < count(&c->in[0]); i++) {
        if (c->op == HSP_OP_SGDM) {
            double g = IN(2)[i] * c->update->grad_scale + f[1] * IN(0)[i];
            OUT(1)[i] = f[0] * IN(1)[i] + g;
            OUT(0)[i] = IN(0)[i] - c->update->lr * OUT(1)[i];
            continue;
        }
        double g = IN(3)[i] * c->update->grad_scale;
        OUT(1)[i] = f[0] * IN(1)[i] + (1 - f[0]) * g;
        OUT(2)[i] = f[1] * IN(2)[i] + (1 - f[1]) * g * g;
        double m = OUT(1)[i] / c->update->bias1, v = OUT(2)[i] / c->update->bias2;
        OUT(0)
        [i] = IN(0)[i] - c->update->lr * f[3] * IN(0)[i] - c->update->lr * m / (sqrt(v) + f[2]);
    }
}

void ref_run(const struct hsp_call *c)
{
    switch (c->op) {
    case HSP_OP_LINEAR: ref_linear(c); break;
    case HSP_OP_LINEAR_DX: ref_linear_dx(c); break;
    case HSP_OP_LINEAR_DW: ref_linear_dw(c); break;
    case HSP_OP_BIAS_ADD:
    case HSP_OP_BIAS_DB: ref_bias(c); break;
    case HSP_OP_EMBED: ref_embed(c); break;
    case HSP_OP_EMBED_DW: ref_embed_dw(c); break;
    case HSP_OP_LAYERNORM: ref_layernorm(c); break;
    case HSP_OP_LAYERNORM_DX: ref_layernorm_dx(c); break;
    case HSP_OP_LAYERNORM_DW: ref_layernorm_dw(c); break;
    case HSP_OP_RMSNORM: ref_rmsnorm(c); break;
    case HSP_OP_RMSNORM_DX: ref_rmsnorm_dx(c); break;
    case HSP_OP_RMSNORM_DW: ref_rmsnorm_dw(c); break;
    case HSP_OP_ROPE:
    case HSP_OP_ROPE_DX: ref_rope(c); break;
    case HSP_OP_DROPOUT: ref_dropout(c); break;
    case HSP_OP_SWIGLU:
    case HSP_OP_SWIGLU_DX: ref_swiglu(c); break;
    case HSP_OP_GELU:
    case HSP_OP_GELU_DX: ref_gelu(c); break;
    case HSP_OP_ATTENTION:
    case HSP_OP_PACKED_ATTENTION: ref_attention(c); break;
    case HSP_OP_ATTENTION_BWD:
    case HSP_OP_PACKED_ATTENTION_BWD: ref_attention_bwd(c); break;
    case HSP_OP_ATTENTION_MERGE: ref_attention_merge(c); break;
    case HSP_OP_XENT: ref_xent(c); break;
    case HSP_OP_XENT_DX: ref_xent_dx(c); break;
    case HSP_OP_LSE_PARTS:
    case HSP_OP_LSE_MERGE: ref_lse(c); break;
    case HSP_OP_XENT_PART:
    case HSP_OP_XENT_PART_DX: ref_xent_part(c); break;
    case HSP_OP_SUM:
    case HSP_OP_COUNT:
    case HSP_OP_SQSUM: ref_scalars(c); break;
    case HSP_OP_ADAMW:
    case HSP_OP_SGDM: ref_update(c); break;
    case HSP_OP_ADD:
    case HSP_OP_BROADCAST:
    case HSP_OP_FLATTEN:
    case HSP_OP_UNFLATTEN:
    /* converting is exact here: the result is compared within half a step of bf16 */
    case HSP_OP_NARROW:
    case HSP_OP_WIDEN:
        for (int64_t i = 0; i < count(&c->out[0]); i++) {
            OUT(0)
            [i] = c->op == HSP_OP_BROADCAST ? IN(0)[0]
                  : c->op == HSP_OP_ADD     ? IN(0)[i] + IN(1)[i]
                                            : IN(0)[i];
        }
        break;
    default: fail_msg("no reference for op %d", (int)c->op);
    }
}
