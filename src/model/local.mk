noinst_LTLIBRARIES += libzl_model.la
libzl_model_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
libzl_model_la_SOURCES = \
	src/model/arch.c src/model/arch.h \
	src/model/base_pass.c src/model/base_pass.h \
	src/model/belief.c \
	src/model/block.c src/model/block.h \
	src/model/block_memory.c src/model/block_impl.h \
	src/model/config.c src/model/config.h \
	src/model/config_gguf.c \
	src/model/config_hf.c \
	src/model/decoder.c src/model/decoder.h \
	src/model/kept.c src/model/kept.h \
	src/model/layer.c src/model/layer.h \
	src/model/lora.c src/model/lora.h \
	src/model/model.c src/model/model.h \
	src/model/readout.c src/model/readout.h \
	src/model/spd.c src/model/spd.h
