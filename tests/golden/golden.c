/* What the golden tests share: see golden.h. */
#include "tests/golden/golden.h"

#include <math.h>

#include "kernel/dequant.h"
#include "kernel/gemm.h"
#include "kernel/ops.h"

void golden_open(struct golden *g, const char *model, const char *reference, uint64_t positions)
{
    struct zl_error err = {0};
    *g = (struct golden){0};
    const char *path = model[0] == '/' ? model : zl_test_shared(model);
    if (zl_model_open(path, positions, &g->model, &err) || zl_safetensors_open(zl_test_shared(reference), &g->ref, &err))
        fail_msg("%s", err.text);
}

void golden_close(struct golden *g)
{
    zl_model_close(&g->model);
    zl_tensors_close(g->ref);
}

static const struct zl_tensor *find(const struct golden *g, const char *name)
{
    const struct zl_named_tensor *t = zl_tensors_find(g->ref, name);
    return t ? &t->t : NULL;
}

const struct zl_tensor *golden_tensor(const struct golden *g, const char *fmt, ...)
{
    char name[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    const struct zl_tensor *t = find(g, name);
    if (!t)
        fail_msg("the reference has no tensor %s", name);
    return t;
}

double golden_scalar(const struct golden *g, int64_t i, const char *fmt, ...)
{
    char name[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    const struct zl_tensor *t = find(g, name);
    double v = 0;
    if (!t || t->bytes < (uint64_t)(i + 1) * 8)
        fail_msg("the reference has no scalar %s", name);
    else
        memcpy(&v, (const char *)t->data + i * 8, 8);
    return v;
}

void golden_batch(const struct golden *g, const char *prefix, struct golden_batch *b)
{
    char name[128];
    *b = (struct golden_batch){0};
    const struct zl_tensor *ids = golden_tensor(g, "%s.input_ids", prefix);
    snprintf(name, sizeof name, "%s.labels", prefix);
    const struct zl_tensor *labels = find(g, name);
    snprintf(name, sizeof name, "%s.seq_offsets", prefix);
    const struct zl_tensor *offsets = find(g, name);
    const int64_t t = (int64_t)ids->shape[0];
    const int n = offsets ? (int)offsets->shape[0] - 1 : 1;
    b->ids = calloc((size_t)t, sizeof(int32_t));
    b->labels = calloc((size_t)t, sizeof(int32_t));
    b->positions = calloc((size_t)t, sizeof(int32_t));
    b->seqs = calloc((size_t)n, sizeof *b->seqs);
    memcpy(b->ids, ids->data, (size_t)t * sizeof(int32_t));
    for (int s = 0; s < n; s++) {
        int32_t at[2] = {0, (int32_t)t};
        if (offsets)
            memcpy(at, (const char *)offsets->data + s * 4, sizeof at);
        b->seqs[s] = (struct zl_attn_seq){at[0], at[1] - at[0], at[0], at[1] - at[0]};
        if (at[1] - at[0] > b->longest)
            b->longest = at[1] - at[0];
        for (int32_t i = at[0]; i < at[1]; i++) {
            b->positions[i] = i - at[0];
            b->labels[i] = -1;
            if (labels && i + 1 < at[1])
                memcpy(&b->labels[i], (const char *)labels->data + (i + 1) * 4, 4);
            if (b->labels[i] < 0)
                b->labels[i] = -1;
            b->n_labels += b->labels[i] >= 0;
        }
    }
    b->tok = (struct zl_tokens){.t = t, .positions = b->positions, .n_seqs = n, .seqs = b->seqs};
}

void golden_batch_free(struct golden_batch *b)
{
    free(b->ids);
    free(b->labels);
    free(b->positions);
    free(b->seqs);
}

float *golden_embed(const struct golden *g, const struct golden_batch *b)
{
    const struct zl_model *m = &g->model;
    float *x = aligned_alloc(64, ((size_t)b->tok.t * m->config.d * sizeof(float) + 63) / 64 * 64);
    zl_dequant_rows(m->embed.type, m->embed.data, m->config.d, b->ids, b->tok.t, x);
    return x;
}

void golden_close_to(const char *what, const float *got, const struct zl_tensor *want, double abs_bound, double rms_bound)
{
    const uint64_t n = zl_tensor_elements(want);
    double worst = 0, squares = 0, reference = 0;
    for (uint64_t i = 0; i < n; i++) {
        float w;
        memcpy(&w, (const char *)want->data + i * 4, 4);
        double d = (double)got[i] - (double)w;
        if (!(fabs(d) <= worst))
            worst = fabs(d);
        squares += d * d;
        reference += (double)w * (double)w;
    }
    double rms = reference > 0 ? sqrt(squares / reference) : sqrt(squares);
    if (!(worst <= abs_bound) || !(rms <= rms_bound))
        fail_msg("%s: max difference %.3g (bound %.3g), relative RMS %.3g (bound %.3g)", what, worst, abs_bound, rms, rms_bound);
    print_message("  %-60s max %.2g <= %.2g, rms %.2g <= %.2g\n", what, worst, abs_bound, rms, rms_bound);
}

void golden_scalar_close_to(const char *what, double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("%s: %.9g, expected %.9g, difference %.3g (bound %.3g)", what, got, want, fabs(got - want), bound);
    print_message("  %-60s %.7g, difference %.2g <= %.2g\n", what, got, fabs(got - want), bound);
}

float *golden_logits(const struct golden *g, struct zl_block *b, const float *hidden, int64_t rows)
{
    const struct zl_model *m = &g->model;
    const int64_t d = m->config.d, v = m->config.vocab;
    float *n = aligned_alloc(64, ((size_t)(rows * d) * sizeof(float) + 63) / 64 * 64);
    float *out = aligned_alloc(64, ((size_t)(rows * v) * sizeof(float) + 63) / 64 * 64);
    zl_rmsnorm(&b->team, rows, d, hidden, m->norm, (float)m->config.norm_eps, n, NULL);
    struct zl_gemm p = {.m = rows, .n = v, .n_terms = 1, .c = out, .ldc = v};
    p.term[0] = (struct zl_gemm_term){.a = n, .lda = d, .b = m->head.data, .b_type = m->head.type, .b_layout = ZL_B_NK,
                                      .ldb = d, .k = d, .alpha = 1};
    zl_gemm(&b->team, &p);
    free(n);
    return out;
}

void golden_flat_close_to(const struct golden *g, const struct zl_block *b, const float *flat, const char *prefix, double abs_bound,
                          double rms_bound)
{
    struct zl_lora view = b->own;
    union {
        const float *from;
        float *to;
    } unconst = {.from = flat};
    view.w = unconst.to;
    const struct zl_lora *parts[1] = {&view};
    struct zl_adapter a;
    struct zl_error err = {0};
    if (zl_lora_export(parts, 1, &g->model.config, &a, &err))
        fail_msg("%s", err.text);
    double worst = 0;
    for (size_t i = 0; i < a.n; i++)
        for (int side = 0; side < 2; side++) {
            const struct zl_adapter_module *m = &a.modules[i];
            char name[256];
            snprintf(name, sizeof name, "%sbase_model.model.%s.lora_%c.weight", prefix, m->name, side ? 'B' : 'A');
            const struct zl_tensor *want = find(g, name);
            if (!want)
                continue; /* the large model's reference holds some layers only */
            const float *got = side ? m->b : m->a;
            double squares = 0, reference = 0;
            for (uint64_t j = 0; j < zl_tensor_elements(want); j++) {
                float w;
                memcpy(&w, (const char *)want->data + j * 4, 4);
                double d = (double)got[j] - (double)w;
                if (!(fabs(d) <= abs_bound))
                    fail_msg("%s: element %llu is %.9g, expected %.9g (bound %.3g)", name, (unsigned long long)j,
                             (double)got[j], (double)w, abs_bound);
                squares += d * d;
                reference += (double)w * (double)w;
            }
            double rms = sqrt(squares / (reference > 0 ? reference : 1));
            if (!(rms <= rms_bound))
                fail_msg("%s: relative RMS %.3g (bound %.3g)", name, rms, rms_bound);
            if (rms > worst)
                worst = rms;
        }
    print_message("  %-60s worst rms %.2g <= %.2g over %zu modules\n", prefix, worst, rms_bound, a.n);
    zl_adapter_free(&a);
}
