// SPDX-License-Identifier: Apache-2.0

#include "dialect/dialect.h"

#include "base/base.h"
#include "dialect/rank_specials.h"
#include "dialect/tokenizer_config.h"

#include <stdio.h>
#include <stdlib.h>

// The texts that the rules and the models point to.
struct dialect_memory {
    struct tokenizer_config config;
    uint8_t texts[]; // kwargs, the name with its NUL, then those of the models
};

static bool contains_word(struct slice text, const char *word)
{
    return text.size > 0 && memmem(text.bytes, text.size, word, strlen(word)) != NULL;
}

// SGLang looks for the names of media in the text of the template.
static bool names_media(struct slice template)
{
    return contains_word(template, "image") || contains_word(template, "audio") ||
           contains_word(template, "video") || contains_word(template, "vision");
}

static bool takes_parts(const struct dialect_options *options, const struct template *template,
                        struct slice source)
{
    if (options->content != DIALECT_CONTENT_AUTO) {
        return options->content == DIALECT_CONTENT_PARTS;
    }
    return template_loops_over_content(template) ||
           (options->engine == DIALECT_SGLANG && names_media(source));
}

static bool template_reads_variable(const void *owner, struct slice variable)
{
    return template_reads(owner, variable);
}

static bool dialect_compile(struct dialect *dialect, const struct dialect_options *options,
                            struct slice source, struct dialect_chat *out)
{
    const struct dialect_memory *memory = dialect->memory;
    struct template_error why = {0};

    if (template_compile(source, &out->template, &why) != STATUS_OK) {
        snprintf(dialect->chat_error, dialect_error_size, "the chat template, line %u: %s",
                 why.line, why.text);
        return false;
    }
    out->rules = (struct chat_rules){
        .engine = options->engine,
        .content_is_list = takes_parts(options, out->template, source),
        .knows_developer =
            contains_word(source, "'developer'") || contains_word(source, "\"developer\""),
        .tokens = memory->config.tokens,
        .token_count = memory->config.token_count,
        .kwargs = slice_of(memory->texts, options->kwargs.size),
        .reads = template_reads_variable,
        .owner = out->template,
    };
    return true;
}

static void dialect_compile_all(struct dialect *dialect, const struct dialect_options *options)
{
    const struct dialect_memory *memory = dialect->memory;
    const struct tokenizer_config *config = &memory->config;
    bool is_given = options->template.size > 0;
    struct slice source = is_given ? options->template : config->template;

    if (source.size == 0) {
        snprintf(dialect->chat_error, dialect_error_size, "the model has no chat template");
        return;
    }
    if (dialect_compile(dialect, options, source, &dialect->chat) && !is_given &&
        config->tool_template.size > 0 &&
        !dialect_compile(dialect, options, config->tool_template, &dialect->tool_chat)) {
        template_destroy(&dialect->chat.template);
    }
}

static size_t dialect_texts_size(const struct dialect_options *options)
{
    size_t size = options->kwargs.size + strlen(options->name) + 1;
    for (uint32_t i = 0; i < options->model_count; i++) {
        size += strlen(options->models[i]);
    }
    return size;
}

static bool dialect_keep_texts(struct dialect *dialect, const struct dialect_options *options)
{
    struct dialect_memory *memory = calloc(1, sizeof(*memory) + dialect_texts_size(options));
    dialect->memory = memory;
    dialect->models = calloc(options->model_count + 1, sizeof(struct slice));
    if (memory == NULL || dialect->models == NULL) {
        return false;
    }
    struct text texts = text_over(memory->texts, dialect_texts_size(options));
    text_add(&texts, options->kwargs);
    dialect->name = (const char *)memory->texts + texts.size;
    text_add(&texts, slice_of(options->name, strlen(options->name) + 1));
    dialect->model_count = options->model_count;
    for (uint32_t i = 0; i < options->model_count; i++) {
        dialect->models[i] = slice_of(memory->texts + texts.size, strlen(options->models[i]));
        text_add_str(&texts, options->models[i]);
    }
    ASSERT(!texts.overflow);
    return true;
}

static enum status dialect_read_config(struct dialect *dialect, struct slice json,
                                       char error[dialect_error_size])
{
    struct dialect_memory *memory = dialect->memory;

    if (json.size == 0) {
        return STATUS_OK;
    }
    enum status status = tokenizer_config_read(json, &memory->config);
    if (status != STATUS_OK) {
        snprintf(error, dialect_error_size, "tokenizer_config.json: %s", status_text(status));
    }
    return status;
}

static enum status dialect_load_tokenizer(struct dialect *dialect,
                                          const struct dialect_options *options,
                                          char error[dialect_error_size])
{
    struct tokenizer_error why = {0};
    struct rank_specials specials = {0};
    enum status status = STATUS_OK;

    if (options->pattern == NULL) {
        status = tokenizer_load(options->tokenizer, &dialect->tokenizer, &why);
        snprintf(error, dialect_error_size, "tokenizer.json: %s", why.text);
        return status;
    }
    if (options->config.size > 0 && rank_specials_read(options->config, &specials) != STATUS_OK) {
        snprintf(error, dialect_error_size, "tokenizer_config.json: added_tokens_decoder");
        return STATUS_MALFORMED;
    }
    status = tokenizer_load_ranks(&(struct tokenizer_ranks){.file = options->tokenizer,
                                                            .pattern = options->pattern,
                                                            .specials = specials.items,
                                                            .special_count = specials.count},
                                  &dialect->tokenizer, &why);
    snprintf(error, dialect_error_size, "the file of ranks: %s", why.text);
    rank_specials_free(&specials);
    return status;
}

enum status dialect_create(const struct dialect_options *options, struct dialect **out,
                           char error[dialect_error_size])
{
    enum status status = STATUS_EXHAUSTED;

    snprintf(error, dialect_error_size, "memory is short");
    struct dialect *dialect = aligned_alloc(64, sizeof(*dialect));
    if (dialect == NULL) {
        return status;
    }
    *dialect = (struct dialect){
        .engine = options->engine,
        .utc_offset_s = options->utc_offset_s,
        .is_trusted = options->is_trusted,
        .forwards_ids = options->forwards_ids,
    };
    if (dialect_keep_texts(dialect, options)) {
        status = dialect_read_config(dialect, options->config, error);
    }
    if (status == STATUS_OK) {
        status = dialect_load_tokenizer(dialect, options, error);
    }
    if (status != STATUS_OK) {
        dialect_destroy(&dialect);
        return status;
    }
    dialect_compile_all(dialect, options);
    if (options->is_trusted) {
        atomic_store_explicit(&dialect->shared.certified, (1u << chat_shape_count) - 1,
                              memory_order_relaxed);
    }
    *out = dialect;
    return STATUS_OK;
}

void dialect_destroy(struct dialect **dialect_ptr)
{
    struct dialect *dialect = *dialect_ptr;
    *dialect_ptr = NULL;

    if (dialect == NULL) {
        return;
    }
    struct dialect_memory *memory = dialect->memory;
    template_destroy(&dialect->chat.template);
    template_destroy(&dialect->tool_chat.template);
    tokenizer_destroy(&dialect->tokenizer);
    if (memory != NULL) {
        tokenizer_config_free(&memory->config);
    }
    free(memory);
    free(dialect->models);
    free(dialect);
}

bool dialect_speaks_for(const struct dialect *dialect, struct slice model)
{
    for (uint32_t i = 0; i < dialect->model_count; i++) {
        if (slice_equal(dialect->models[i], model)) {
            return true;
        }
    }
    return dialect->model_count == 0;
}

struct dialect *dialect_set_find(const struct dialect_set *set, struct slice model)
{
    for (uint32_t i = 0; set != NULL && i < set->count; i++) {
        if (dialect_speaks_for(set->dialects[i], model)) {
            return set->dialects[i];
        }
    }
    return NULL;
}

bool dialect_set_forwards_ids(const struct dialect_set *set, struct slice model)
{
    const struct dialect *dialect = dialect_set_find(set, model);
    return dialect != NULL && dialect->forwards_ids;
}

bool dialect_is_midnight(const struct dialect *dialect, uint64_t wall_s, uint32_t before_s)
{
    int64_t in_day = ((int64_t)wall_s + dialect->utc_offset_s) % 86400;
    return in_day < 2 || in_day >= 86400 - (int64_t)before_s;
}

bool dialect_check(struct dialect *dialect, uint32_t shape, uint64_t ours, uint64_t theirs,
                   uint32_t *revoked)
{
    if (ours == theirs) {
        atomic_fetch_add_explicit(&dialect->shared.confirmed_count, 1, memory_order_relaxed);
        return false;
    }
    atomic_fetch_add_explicit(&dialect->shared.drift_count, 1, memory_order_relaxed);
    uint32_t suspects = chat_shape_blamed(shape);
    uint32_t before =
        atomic_fetch_or_explicit(&dialect->shared.revoked, suspects, memory_order_relaxed);
    *revoked = suspects & ~before;
    return *revoked != 0;
}

void dialect_add_shapes(uint32_t shapes, struct text *out)
{
    const char *between = "";
    for (uint32_t i = 0; i < chat_shape_count; i++) {
        if (shapes >> i & 1) {
            text_add_str(out, between);
            text_add_str(out, chat_shape_text((enum chat_shape_bit)i));
            between = ",";
        }
    }
}
