noinst_LTLIBRARIES += libzl_format.la
libzl_format_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(PCRE2_CFLAGS) $(UTF8PROC_CFLAGS)
libzl_format_la_SOURCES =
libzl_format_la_SOURCES += \
	src/format/dataset.c src/format/dataset.h src/format/dataset_build.h \
	src/format/dataset_print.c src/format/dataset_report.c src/format/dataset_rows.c src/format/dataset_split.c \
	src/format/grow.c src/format/grow.h \
	src/format/jsonl.c src/format/jsonl.h \
	src/format/lines.c src/format/lines.h \
	src/format/order.c
libzl_format_la_SOURCES += \
	src/format/adapter.c src/format/adapter.h src/format/adapter_impl.h \
	src/format/adapter_config.c \
	src/format/adapter_write.c \
	src/format/gguf.c src/format/gguf.h src/format/gguf_impl.h \
	src/format/gguf_meta.c \
	src/format/gguf_types.c src/format/gguf_types.h \
	src/format/guard.c \
	src/format/json_walk.c src/format/json_walk.h \
	src/format/pattern.c src/format/pattern.h \
	src/format/quote.c src/format/quote.h \
	src/format/safetensors.c \
	src/format/safetensors_dir.c \
	src/format/safetensors_write.c \
	src/format/tensors.c src/format/tensors.h src/format/tensors_impl.h
libzl_format_la_SOURCES += \
	src/format/added.c src/format/bpe.c src/format/chat.c src/format/chat.h src/format/chat_canon.c \
	src/format/chat_impl.h src/format/chat_template.c src/format/detokenize.c src/format/encode.c src/format/normalize.c \
	src/format/pretokenize.c src/format/regex.c src/format/tokenizer.c src/format/tokenizer.h src/format/tokenizer_decoder.c \
	src/format/tokenizer_dir.c src/format/tokenizer_gguf.c src/format/tokenizer_impl.h src/format/tokenizer_json.c src/format/tokenizer_json.h \
	src/format/tokenizer_pipeline.c src/format/utf8.c src/format/vocab.c
