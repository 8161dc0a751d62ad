// SPDX-License-Identifier: Apache-2.0
//
// tiny_dialect.h -- a dialect for tests: every byte is a token, and so are four markers.
#pragma once

#include "base/base.h"
#include "base/text.h"
#include "base/utf8.h"
#include "dialect/token_reader.h"

#include <stdio.h>
#include <stdlib.h>

enum { TINY_START = 256, TINY_END, TINY_BOS, TINY_TOOL, tiny_size_max = 32768 };

#define TINY_TEMPLATE                                                                              \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"     \
    "{% if tools %}<tool>{{ tools | tojson }}{% endif %}"                                          \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

// The character that stands for a byte in a tokenizer.json.
static inline uint32_t tiny_character(uint32_t byte)
{
    uint32_t strange = 0;
    for (uint32_t i = 0; i < 256; i++) {
        bool is_plain = (i >= 0x21 && i <= 0x7e) || (i >= 0xa1 && i <= 0xac) || i >= 0xae;
        if (i == byte) {
            return is_plain ? i : 0x100 + strange;
        }
        strange += !is_plain;
    }
    return 0;
}

static inline void tiny_add_vocabulary(struct text *out)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint8_t bytes[4];
        struct slice character = slice_of(bytes, utf8_write(tiny_character(i), bytes));
        text_add_str(out, i > 0 ? "," : "");
        text_add_json(out, character);
        text_add_format(out, ":%u", i);
    }
}

static inline void tiny_add_tokenizer(struct text *out)
{
    static const char *const markers[] = {"<|im_start|>", "<|im_end|>", "<s>", "<tool>"};

    text_add_str(out, "{\"version\":\"1.0\",\"added_tokens\":[");
    for (uint32_t i = 0; i < ARRAY_COUNT(markers); i++) {
        text_add_format(out,
                        "%s{\"id\":%u,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,"
                        "\"rstrip\":false,\"normalized\":false,\"special\":true}",
                        i > 0 ? "," : "", 256 + i, markers[i]);
    }
    text_add_str(out,
                 "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                 "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},"
                 "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
                 "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},"
                 "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{"
                 "\"<s>\":{\"id\":\"<s>\",\"ids\":[258],\"tokens\":[\"<s>\"]}}},\"decoder\":null,"
                 "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
                 "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
                 "\"fuse_unk\":false,\"byte_fallback\":false,\"vocab\":{");
    tiny_add_vocabulary(out);
    text_add_str(out, "},\"merges\":[]}}");
}

// `options` may leave out the files: then they are the tiny ones.
static inline struct dialect *tiny_dialect(struct dialect_options options)
{
    static uint8_t space[tiny_size_max];
    struct text json = text_over(space, sizeof(space));
    struct dialect *dialect = NULL;
    char error[dialect_error_size] = "";

    tiny_add_tokenizer(&json);
    ASSERT(!json.overflow);
    options.name = options.name != NULL ? options.name : "tiny";
    if (options.tokenizer.size == 0) {
        options.tokenizer = text_slice(&json);
    }
    if (options.template.size == 0 && options.config.size == 0) {
        options.template = slice_str(TINY_TEMPLATE);
    }
    enum status status = dialect_create(&options, &dialect, error);
    if (status != STATUS_OK) {
        fprintf(stderr, "the tiny dialect is refused: %s\n", error);
    }
    ASSERT(status == STATUS_OK);
    return dialect;
}

// A set of one dialect, which it takes over, with all that a reader needs.
struct tiny_set {
    struct dialect_set set;
    struct token_thread *thread;
    struct token_reader *reader;
};

static inline void tiny_set_open(struct tiny_set *tiny, struct dialect *dialect)
{
    *tiny = (struct tiny_set){.set = {.dialects = {dialect}, .count = 1}};
    tiny->set.memo = memo_create(
        &(struct memo_options){.memory = 1 << 20, .thread_count = 2, .secret = {{1, 2}}});
    tiny->thread = token_thread_create(&tiny->set, 0);
    ASSERT(tiny->set.memo != NULL && tiny->thread != NULL);
    tiny->reader = token_reader_create(tiny->thread, 1 << 20);
    ASSERT(tiny->reader != NULL);
}

static inline void tiny_set_close(struct tiny_set *tiny)
{
    token_reader_destroy(&tiny->reader);
    token_thread_destroy(&tiny->thread);
    dialect_destroy(&tiny->set.dialects[0]);
    memo_destroy(&tiny->set.memo);
}
