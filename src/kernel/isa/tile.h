/*
 * The register tile of attention and the head:
 *
 *     C[rows][lanes]  =  (nothing, or C, or C * scale)  +  sum over k of  A(row, k) * B[k][lanes]
 *
 * The lanes are queries or labelled rows or columns of a head: contiguous in B and C. A is read one
 * number at a time, so it may stand by rows or by columns.
 * That is why a tile of transposed weights, softmax(K Q^T), serves as it stands both as B of one
 * product and as A of the next, with nothing packed in between, and why the same dequantized rows
 * of a vocabulary give logits and gradients. A microkernel wants both operands packed.
 *
 * An element is one chain of multiply-adds over k, whatever tile it falls into: bits do not depend
 * on how rows and lanes are cut.
 */
#ifndef ZL_KERNEL_ISA_TILE_H
#define ZL_KERNEL_ISA_TILE_H

#include "kernel/isa/vec.h"

#if VL == 16 || !defined __SSE2__ /* 32 registers */
#define TILE_ROWS 8
#elif VL == 8
#define TILE_ROWS 6
#else
#define TILE_ROWS 4
#endif
#define TILE_TALL    (2 * TILE_ROWS) /* of one vector's width: as many registers, as many sums under way */
#define TILE_VECTORS 2
#define TILE_LANES   (TILE_VECTORS * VL)

/* What becomes of C: it is replaced, added to, or multiplied by a factor of its row and then added
 * to. */
enum tile_mode { TILE_SET, TILE_ADD, TILE_SCALE };

/* Where a product touches the causal mask, query i sees the keys k <= i + diagonal; what is masked
 * contributes exact zeros, or is not looked at by the caller, and most of it is skipped. Says which
 * index is which. */
enum tile_mask {
    TILE_ALL,
    TILE_LANES_ARE_QUERIES, /* rows are keys: C's elements right of the mask are left as they are */
    TILE_ROWS_ARE_QUERIES,  /* k are keys */
    TILE_K_ARE_QUERIES      /* rows are keys */
};

struct product {
    int64_t rows, lanes, k; /* lanes: a multiple of VL */
    const float *a;
    int64_t lda;
    int a_by_k; /* element (row, k) is a[k * lda + row], else a[row * lda + k] */
    const float *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
    enum tile_mode mode;
    const float *scale; /* [rows] */
    enum tile_mask mask;
    int64_t diagonal;
};

/* One tile of constant height and width; a call with constants compiles to registers only. */
V_INLINE void tile_fixed(const int rows, const int vectors, const int by_k, const struct product *p,
                         int64_t r, int64_t lane, int64_t k0, int64_t k1)
{
    vf acc[TILE_TALL][TILE_VECTORS];
    V_EACH(i, rows)
        V_EACH(j, vectors)
            acc[i][j] = (vf){0};
    const int64_t lda = p->lda, ldb = p->ldb, ldc = p->ldc;
    const float *a = by_k ? p->a + k0 * lda + r : p->a + r * lda + k0, *b = p->b + k0 * ldb + lane;
    int64_t k = k0;
#ifdef __aarch64__ /* multiplies by a lane: A's numbers come four a load */
    if (by_k && rows % VL == 0)
        for (; k < k1; k++, a += lda, b += ldb) {
            vf av[TILE_ROWS / VL];
            V_EACH(i, rows / VL)
                av[i] = v_load(a + i * VL);
            V_EACH(j, vectors)
            {
                const vf bv = v_load(b + j * VL);
                V_EACH(i, rows)
                    acc[i][j] = v_fma_lane(bv, av[i / VL], i % VL, acc[i][j]);
            }
        }
    if (!by_k)
        for (; k + VL <= k1; k += VL, a += VL) {
            vf av[TILE_ROWS];
            V_EACH(i, rows)
                av[i] = v_load(a + i * lda);
            V_EACH(l, VL)
            {
                V_EACH(j, vectors)
                {
                    const vf bv = v_load(b + j * VL);
                    V_EACH(i, rows)
                        acc[i][j] = v_fma_lane(bv, av[i], l, acc[i][j]);
                }
                b += ldb;
            }
        }
#endif
    for (; k < k1; k++) {
        vf bv[TILE_VECTORS];
        V_EACH(j, vectors)
            bv[j] = v_load(b + j * VL);
        V_EACH(i, rows)
        {
            vf x = v_set(by_k ? a[i] : a[i * lda]);
            V_EACH(j, vectors)
                acc[i][j] = v_fma(x, bv[j], acc[i][j]);
        }
        a += by_k ? lda : 1;
        b += ldb;
    }
    float *c = p->c + r * ldc + lane;
    V_EACH(i, rows)
        V_EACH(j, vectors)
        {
            float *at = c + i * ldc + j * VL;
            vf v = acc[i][j];
            if (p->mode == TILE_ADD)
                v += v_load(at);
            else if (p->mode == TILE_SCALE)
                v = v_fma(v_load(at), v_set(p->scale[r + i]), v);
            v_store(at, v);
        }
}

#define TILE_OF(height)                                                                            \
    do {                                                                                           \
        if (p->a_by_k && wide)                                                                     \
            tile_fixed(height, TILE_VECTORS, 1, p, r, lane, k0, k1);                               \
        else if (p->a_by_k)                                                                        \
            tile_fixed(height, 1, 1, p, r, lane, k0, k1);                                          \
        else if (wide)                                                                             \
            tile_fixed(height, TILE_VECTORS, 0, p, r, lane, k0, k1);                               \
        else                                                                                       \
            tile_fixed(height, 1, 0, p, r, lane, k0, k1);                                          \
    } while (0)

V_INLINE int64_t clip(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x < most ? x : most;
}

/* A tall tile where a wide one does not fit, or would reach over more of the mask. */
V_INLINE int is_wide(const struct product *p, int64_t lane)
{
    if (p->lanes - lane < TILE_LANES)
        return 0;
    return p->mask != TILE_LANES_ARE_QUERIES || clip(lane + VL + p->diagonal, p->rows) == p->rows;
}

/* Columns of lanes outside, so that B's part stays in the first-level cache while the rows of A
 * pass. */
static __attribute__((noinline, unused)) void product(const struct product *p)
{
    for (int64_t lane = 0; lane < p->lanes;) {
        const int wide = is_wide(p, lane);
        int64_t next_lane = lane + (wide ? TILE_LANES : VL);
        int64_t rows =
            p->mask == TILE_LANES_ARE_QUERIES ? clip(next_lane + p->diagonal, p->rows) : p->rows;
        for (int64_t r = 0; r < rows;) {
            const int64_t left = rows - r, height = left >= TILE_TALL && !wide ? TILE_TALL
                                                    : left >= TILE_ROWS        ? TILE_ROWS
                                                    : left >= 4                ? 4
                                                    : left >= 2                ? 2
                                                                               : 1;
            int64_t k1 =
                p->mask == TILE_ROWS_ARE_QUERIES ? clip(r + height + p->diagonal, p->k) : p->k;
            int64_t k0 = p->mask == TILE_K_ARE_QUERIES ? clip(r - p->diagonal, p->k) : 0;
            switch (height) {
            case TILE_TALL:
                if (p->a_by_k)
                    tile_fixed(TILE_TALL, 1, 1, p, r, lane, k0, k1);
                else
                    tile_fixed(TILE_TALL, 1, 0, p, r, lane, k0, k1);
                break;
            case TILE_ROWS:
                TILE_OF(TILE_ROWS);
                break;
#if TILE_ROWS > 4
            case 4:
                TILE_OF(4);
                break;
#endif
            case 2:
                TILE_OF(2);
                break;
            default:
                TILE_OF(1);
            }
            r += height;
        }
        lane = next_lane;
    }
}

/* to[j][i] = factor * from[i][j] for i < rows, j < n; to's rows are ld apart, and the lanes from
 * `rows` to the next multiple of VL get zeros. */
V_INLINE void transpose(int64_t rows, int64_t n, const float *from, int64_t ld_from, float factor,
                        float *to, int64_t ld)
{
    for (int64_t i = 0; i < rows; i += VL)
        for (int64_t j = 0; j < n; j += VL) {
            vf x[VL];
            const int64_t left = n - j;
            if (i + VL <= rows && left >= VL) { /* in registers from end to end */
                V_EACH(k, VL)
                    x[k] = v_load(from + (i + k) * ld_from + j) * factor;
                v_transpose(x);
                V_EACH(k, VL)
                    v_store(to + (j + k) * ld + i, x[k]);
                continue;
            }
            V_EACH(k, VL)
            {
                x[k] = (vf){0};
                if (i + k < rows)
                    x[k] = v_load_left(from + (i + k) * ld_from + j, left) * factor;
            }
            v_transpose(x);
            for (int64_t k = 0; k < VL && k < left; k++)
                v_store(to + (j + k) * ld + i, x[k]);
        }
}

/* to[i][..] = factor * from[i][0..n), rows of `ld` floats, the rest of which become zeros. */
V_INLINE void pad(int64_t rows, int64_t n, const float *from, int64_t ld_from, float factor,
                  float *to, int64_t ld)
{
    for (int64_t i = 0; i < rows; i++, from += ld_from, to += ld) {
        int64_t j = 0;
        for (; j < n; j += VL)
            v_store(to + j, v_load_left(from + j, n - j) * factor);
        for (; j < ld; j += VL)
            v_store(to + j, (vf){0});
    }
}

/* Rows of a head as the B of a product reads them. */
struct rows {
    const float *p;
    int64_t ld;
};

/* They stay where they stand, if they end with a vector's end and their distance does not put them
 * all into the same few sets of a cache; else they are copied to rows of `padded` floats. */
V_INLINE struct rows rows_of(int64_t rows, int64_t n, const float *from, int64_t ld, float *copy,
                             int64_t padded)
{
    if (n == padded && ld % 256 != 0)
        return (struct rows){from, ld};
    pad(rows, n, from, ld, 1, copy, padded);
    return (struct rows){copy, padded};
}

#endif
