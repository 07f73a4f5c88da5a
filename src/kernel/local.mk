noinst_LTLIBRARIES += libzl_kernel.la
libzl_kernel_la_CFLAGS = $(AM_CFLAGS) $(BLIS_CFLAGS)
libzl_kernel_la_SOURCES = \
	src/kernel/ask.h src/kernel/attention.c src/kernel/attention.h src/kernel/attention_block.h \
	src/kernel/compute.c src/kernel/compute.h src/kernel/cut.h \
	src/kernel/dequant.c src/kernel/dequant.h \
	src/kernel/gemm.c src/kernel/gemm.h src/kernel/gemm_ref.c src/kernel/micro.h \
	src/kernel/head.c src/kernel/head.h src/kernel/head_block.h \
	src/kernel/isa.c src/kernel/isa.h \
	src/kernel/ops.c src/kernel/ops.h src/kernel/loops.h \
	src/kernel/reference.c src/kernel/reference.h \
	src/kernel/unpacked.c src/kernel/unpacked.h src/kernel/bytes.h src/kernel/pack.h src/kernel/pairs.h src/kernel/team.h \
	src/kernel/peak.h \
	src/kernel/profile.c src/kernel/profile.h \
	src/kernel/ukr.c
libzl_kernel_la_LIBADD =

# The same sources once for each instruction set (kernel/isa.h); a file added here is in all of them.
isa_sources = \
	src/kernel/isa/attention.c src/kernel/isa/attention_backward.c src/kernel/isa/attention_one.c \
	src/kernel/isa/dequant.c src/kernel/isa/dot.c src/kernel/isa/pack.c src/kernel/isa/quants.h src/kernel/isa/skinny.c src/kernel/isa/unit.h \
	src/kernel/isa/gated.c src/kernel/isa/halves.c src/kernel/isa/head.c src/kernel/isa/micro.c src/kernel/isa/norm.c src/kernel/isa/peak.c src/kernel/isa/rope.c \
	src/kernel/isa/lanes.h src/kernel/isa/lanes-vec.h src/kernel/isa/unit512.h \
	src/kernel/isa/softmax.h src/kernel/isa/tile.h src/kernel/isa/update.c src/kernel/isa/vec.h
isa_cflags = $(AM_CFLAGS) -ffp-contract=off

noinst_LTLIBRARIES += libzl_isa_baseline.la
libzl_kernel_la_LIBADD += libzl_isa_baseline.la
libzl_isa_baseline_la_SOURCES = $(isa_sources)
libzl_isa_baseline_la_CPPFLAGS = $(AM_CPPFLAGS) -DZL_ISA_SUFFIX=_baseline
libzl_isa_baseline_la_CFLAGS = $(isa_cflags)
if ISA_X86
noinst_LTLIBRARIES += libzl_isa_avx2.la libzl_isa_avx512.la
libzl_kernel_la_LIBADD += libzl_isa_avx2.la libzl_isa_avx512.la
libzl_isa_avx2_la_SOURCES = $(isa_sources)
libzl_isa_avx2_la_CPPFLAGS = $(AM_CPPFLAGS) -DZL_ISA_SUFFIX=_avx2
libzl_isa_avx2_la_CFLAGS = $(isa_cflags) $(ISA_AVX2_CFLAGS)
libzl_isa_avx512_la_SOURCES = $(isa_sources)
libzl_isa_avx512_la_CPPFLAGS = $(AM_CPPFLAGS) -DZL_ISA_SUFFIX=_avx512
libzl_isa_avx512_la_CFLAGS = $(isa_cflags) $(ISA_AVX512_CFLAGS)
# Instructions that a format other than float32 needs: one copy of one file.
noinst_LTLIBRARIES += libzl_isa_bf16.la
libzl_kernel_la_LIBADD += libzl_isa_bf16.la
libzl_isa_bf16_la_SOURCES = src/kernel/isa/pairs.c src/kernel/isa/vec.h
libzl_isa_bf16_la_CFLAGS = $(isa_cflags) $(ISA_AVX512_CFLAGS) -mavx512bf16
if HAVE_AMX
noinst_LTLIBRARIES += libzl_isa_amx.la
libzl_kernel_la_LIBADD += libzl_isa_amx.la
libzl_isa_amx_la_SOURCES = src/kernel/isa/amx.c src/kernel/isa/vec.h
libzl_isa_amx_la_CFLAGS = $(isa_cflags) $(ISA_AVX512_CFLAGS) -mavx512bf16 $(ISA_AMX_CFLAGS)
endif
noinst_LTLIBRARIES += libzl_bytes_avx2.la libzl_bytes_avxvnni.la libzl_bytes_avx512vnni.la
libzl_kernel_la_LIBADD += libzl_bytes_avx2.la libzl_bytes_avxvnni.la libzl_bytes_avx512vnni.la
bytes_sources = src/kernel/isa/bytes.c src/kernel/isa/quants.h src/kernel/isa/unit.h src/kernel/isa/unit512.h src/kernel/isa/vec.h
libzl_bytes_avx2_la_SOURCES = $(bytes_sources)
libzl_bytes_avx2_la_CFLAGS = $(isa_cflags) $(ISA_AVX2_CFLAGS)
libzl_bytes_avxvnni_la_SOURCES = $(bytes_sources)
libzl_bytes_avxvnni_la_CFLAGS = $(isa_cflags) $(ISA_AVX2_CFLAGS) -mavxvnni
libzl_bytes_avx512vnni_la_SOURCES = $(bytes_sources)
libzl_bytes_avx512vnni_la_CFLAGS = $(isa_cflags) $(ISA_AVX512_CFLAGS) -mavx512vnni
endif
