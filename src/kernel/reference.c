/* Plain-C references of the small operations, of attention and of the head: see reference.h. Written to be read, not run often. */
#include "kernel/reference.h"

#include <math.h>

void zl_rmsnorm_ref(int64_t t, int64_t d, const double *x, const double *w, double eps, double *y, double *rstd)
{
    for (int64_t i = 0; i < t; i++, x += d, y += d) {
        double ss = 0;
        for (int64_t j = 0; j < d; j++)
            ss += x[j] * x[j];
        double r = 1 / sqrt(ss / (double)d + eps);
        for (int64_t j = 0; j < d; j++)
            y[j] = x[j] * r * w[j];
        if (rstd)
            rstd[i] = r;
    }
}

void zl_rmsnorm_backward_ref(int64_t t, int64_t d, const double *dy, const double *x, const double *w, const double *rstd,
                             double *dx, int accumulate)
{
    for (int64_t i = 0; i < t; i++, x += d, dy += d, dx += d) {
        double r = rstd[i], dot = 0;
        for (int64_t j = 0; j < d; j++)
            dot += dy[j] * w[j] * x[j];
        for (int64_t j = 0; j < d; j++) {
            double g = r * dy[j] * w[j] - x[j] * r * r * r * dot / (double)d;
            dx[j] = accumulate ? dx[j] + g : g;
        }
    }
}

void zl_rope_ref(int64_t t, int heads, int head_dim, double *x, int64_t ld, const int32_t *positions, const double *cs,
                 int sign, int interleaved)
{
    int half = head_dim / 2;
    for (int64_t i = 0; i < t; i++)
        for (int h = 0; h < heads; h++)
            for (int j = 0; j < half; j++) {
                double *a = x + i * ld + (int64_t)h * head_dim + (interleaved ? 2 * j : j);
                double *b = interleaved ? a + 1 : a + half;
                const double *entry = cs + ((int64_t)positions[i] * half + j) * 2;
                double c = entry[0], s = sign * entry[1], u = *a, v = *b;
                *a = u * c - v * s;
                *b = v * c + u * s;
            }
}

double zl_activation_ref(enum zl_activation act, double x, double *derivative)
{
    double y = 0, dy = 0;
    switch (act) {
    case ZL_SILU: {
        double s = 1 / (1 + exp(-x));
        y = x * s;
        dy = s * (1 + x * (1 - s));
        break;
    }
    case ZL_GELU_TANH: {
        const double c = 0.79788456080286535588, k = 0.044715; /* sqrt(2/pi) */
        double th = tanh(c * (x + k * x * x * x));
        y = 0.5 * x * (1 + th);
        dy = 0.5 * (1 + th) + 0.5 * x * (1 - th * th) * c * (1 + 3 * k * x * x);
        break;
    }
    case ZL_GELU_ERF: {
        double phi = 0.5 * erfc(-x * 0.70710678118654752440);
        y = x * phi;
        dy = phi + x * 0.39894228040143267794 * exp(-0.5 * x * x);
        break;
    }
    case ZL_RELU:
        y = x > 0 ? x : 0;
        dy = x > 0;
        break;
    }
    if (derivative)
        *derivative = dy;
    return y;
}

void zl_gated_ref(enum zl_activation act, int64_t t, int64_t f, const double *gate, const double *up, int64_t ldg, double *h,
                  int64_t ldh)
{
    for (int64_t i = 0; i < t; i++)
        for (int64_t j = 0; j < f; j++)
            h[i * ldh + j] = zl_activation_ref(act, gate[i * ldg + j], 0) * up[i * ldg + j];
}

void zl_gated_backward_ref(enum zl_activation act, int64_t t, int64_t f, const double *dh, int64_t ldh, const double *gate,
                           const double *up, int64_t ldg, double *dgate, double *dup, double *h)
{
    for (int64_t i = 0; i < t; i++)
        for (int64_t j = 0; j < f; j++) {
            double da, a = zl_activation_ref(act, gate[i * ldg + j], &da);
            double u = up[i * ldg + j], g = dh[i * ldh + j];
            dgate[i * ldg + j] = g * u * da;
            dup[i * ldg + j] = g * a;
            if (h)
                h[i * ldh + j] = a * u;
        }
}

void zl_adamw_step_ref(const struct zl_adamw *o, int64_t step, int64_t n, double clip, const double *g, double *p, double *m,
                       double *v)
{
    double b1 = (double)o->beta1, b2 = (double)o->beta2, lr = (double)o->lr;
    double c1 = 1 - pow(b1, (double)step), c2 = 1 - pow(b2, (double)step);
    for (int64_t i = 0; i < n; i++) {
        double gi = clip * g[i];
        p[i] *= 1 - lr * (double)o->weight_decay;
        m[i] = b1 * m[i] + (1 - b1) * gi;
        v[i] = b2 * v[i] + (1 - b2) * gi * gi;
        p[i] -= lr / c1 * m[i] / (sqrt(v[i]) / sqrt(c2) + (double)o->eps);
    }
}

/* One query row: scores against n keys of one head, twice: once for lse, once for what the caller does with each weight. */
static double score(int d, double scale, const double *q, const double *k)
{
    double s = 0;
    for (int j = 0; j < d; j++)
        s += q[j] * k[j];
    return s * scale;
}

void zl_attention_ref(const struct zl_attn *a, const double *q, const double *k, const double *v, double *out, int64_t ldo,
                      double *lse)
{
    const int d = a->head_dim, group = a->heads / a->kv_heads;
    for (int s = 0; s < a->n_seqs; s++)
        for (int64_t i = 0; i < a->seqs[s].q_len; i++)
            for (int h = 0; h < a->heads; h++) {
                const struct zl_attn_seq *seq = &a->seqs[s];
                int64_t row = seq->q_begin + i, n = i + seq->kv_len - seq->q_len + 1;
                const double *qi = q + row * a->ldq + (int64_t)h * d;
                const double *k0 = k + seq->kv_begin * a->ldk + (int64_t)(h / group) * d;
                const double *v0 = v + seq->kv_begin * a->ldv + (int64_t)(h / group) * d;
                double *o = out + row * ldo + (int64_t)h * d, max = -INFINITY, sum = 0;
                for (int64_t j = 0; j < n; j++)
                    max = fmax(max, score(d, (double)a->scale, qi, k0 + j * a->ldk));
                for (int64_t j = 0; j < n; j++)
                    sum += exp(score(d, (double)a->scale, qi, k0 + j * a->ldk) - max);
                double l = max + log(sum);
                for (int c = 0; c < d; c++)
                    o[c] = 0;
                for (int64_t j = 0; j < n; j++) {
                    double p = exp(score(d, (double)a->scale, qi, k0 + j * a->ldk) - l);
                    for (int c = 0; c < d; c++)
                        o[c] += p * v0[j * a->ldv + c];
                }
                if (lse)
                    lse[row * a->heads + h] = l;
            }
}

void zl_attention_backward_ref(const struct zl_attn *a, const double *q, const double *k, const double *v, const double *out,
                               const double *dout, int64_t ldo, const double *lse, double *dq, double *dk, double *dv)
{
    const int d = a->head_dim, group = a->heads / a->kv_heads;
    for (int s = 0; s < a->n_seqs; s++) {
        const struct zl_attn_seq *seq = &a->seqs[s];
        for (int64_t i = 0; i < seq->kv_len; i++)
            for (int c = 0; c < a->kv_heads * d; c++)
                dk[(seq->kv_begin + i) * a->ldk + c] = dv[(seq->kv_begin + i) * a->ldv + c] = 0;
        for (int64_t i = 0; i < seq->q_len; i++)
            for (int h = 0; h < a->heads; h++) {
                int64_t row = seq->q_begin + i, hd = (int64_t)h * d, kd = (int64_t)(h / group) * d;
                const double *qi = q + row * a->ldq + hd, *go = dout + row * ldo + hd, *o = out + row * ldo + hd;
                double *gq = dq + row * a->ldq + hd;
                double delta = score(d, 1, go, o);
                for (int c = 0; c < d; c++)
                    gq[c] = 0;
                for (int64_t j = 0; j <= i; j++) {
                    int64_t kj = (seq->kv_begin + j) * a->ldk + kd, vj = (seq->kv_begin + j) * a->ldv + kd;
                    double p = exp(score(d, (double)a->scale, qi, k + kj) - lse[row * a->heads + h]);
                    double ds = p * (score(d, 1, go, v + vj) - delta) * (double)a->scale;
                    for (int c = 0; c < d; c++) {
                        gq[c] += ds * k[kj + c];
                        dk[kj + c] += ds * qi[c];
                        dv[vj + c] += p * go[c];
                    }
                }
            }
    }
}

void zl_head_loss_ref(const struct zl_head *head, const double *e, int64_t rows, const double *h, const int32_t *targets,
                      double weight, double *loss, int32_t *argmax, double *dh)
{
    const int64_t d = head->d, n = head->subset ? head->n_subset : head->vocab;
    for (int64_t i = 0; i < rows; i++) {
        const double *hi = h + i * d;
        double max = -INFINITY, sum = 0, target = 0;
        for (int64_t c = 0; c < n; c++) {
            const double *ec = e + (head->subset ? head->subset[c] : c) * d;
            double l = 0;
            for (int64_t j = 0; j < d; j++)
                l += hi[j] * ec[j];
            if (l > max) {
                max = l;
                if (argmax)
                    argmax[i] = (int32_t)c;
            }
            if (c == targets[i])
                target = l;
        }
        for (int pass = 0; pass < (dh ? 2 : 1); pass++) {
            if (pass)
                for (int64_t j = 0; j < d; j++)
                    dh[i * d + j] = 0;
            for (int64_t c = 0; c < n; c++) {
                const double *ec = e + (head->subset ? head->subset[c] : c) * d;
                double l = 0;
                for (int64_t j = 0; j < d; j++)
                    l += hi[j] * ec[j];
                double p = exp(l - max);
                if (!pass)
                    sum += p;
                for (int64_t j = 0; pass && j < d; j++)
                    dh[i * d + j] += weight * (p / sum - (c == targets[i])) * ec[j];
            }
        }
        loss[i] = max + log(sum) - target;
    }
}
