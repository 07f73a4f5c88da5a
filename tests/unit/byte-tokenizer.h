/*
 * A tokenizer whose tokens are the bytes of the text (id = byte), with <s> 256, </s> 257 (EOS),
 * <|im_start|> 258, <|im_end|> 259: tests of what stands on a tokenizer can write the expected ids
 * down.
 */
#ifndef ZL_TEST_BYTE_TOKENIZER_H
#define ZL_TEST_BYTE_TOKENIZER_H

#include "format/tokenizer.h"

enum { BOS = 256, EOS = 257, IM_START = 258, IM_END = 259 };

enum {
    BYTES_BOS = 1,          /* adds <s> by itself */
    BYTES_NO_EOS = 2,       /* names no EOS */
    BYTES_CHATML = 4,       /* has ChatML's template */
    BYTES_ODD_TEMPLATE = 8, /* has a template that nobody knows */
    BYTES_UNMARKED = 16     /* has a template that marks no token as trained */
};

struct zl_tokenizer *byte_tokenizer(unsigned flags);
void byte_tokenizer_close(struct zl_tokenizer *t);

#endif
