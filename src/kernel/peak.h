/*
 * The most that a core can do: a loop of independent multiply-adds in registers, one copy an instruction set. Nothing of a model
 * uses it; src/bench measures shares by it.
 */
#ifndef ZL_KERNEL_PEAK_H
#define ZL_KERNEL_PEAK_H

#include <stdint.h>

#include "kernel/isa.h"

/* `rounds` rounds on the calling thread; returns the operations done, a multiply-add counting two. *sink gets a number that
 * depends on all of them. */
ZL_ISA_DECLARE(double, zl_peak_run, (int64_t rounds, float *sink));

#endif
