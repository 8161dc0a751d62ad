// SPDX-License-Identifier: Apache-2.0

#include "config/option/option.h"

#include "base/base.h"
#include "config/draft_internal.h"
#include "config/option/nearest.h"

#include <stdio.h>

#define NEEDS_RELOAD false
#define NEEDS_RESTART true

// The same words in options.def make different rows here, by the struct that they describe.
#define ROW(path, when, type, field, ...)                                                          \
    {                                                                                              \
        .name = (path),                                                                            \
        .needs_restart = NEEDS_##when,                                                             \
        .kind = &config_kind_##type,                                                               \
        .has_flag = true,                                                                          \
        .offset = offsetof(OWNER, field),                                                          \
        .size = sizeof(((OWNER *)NULL)->field),                                                    \
        __VA_ARGS__,                                                                               \
    },
#define GROUP(key, heading, words)
#define OPTION(path, when, type, field, text, least, greatest, words)                              \
    ROW(path, when, type, field, .fallback = (text), .low = (least), .high = (greatest),           \
        .help = (words))
#define NAMED(path, when, flag_name, type, field, words)                                           \
    ROW(path, when, type, field, .flag = (flag_name), .help = (words))
#define CHOICE(path, when, field, text, list, words)                                               \
    ROW(path, when, choice, field, .fallback = (text), .choices = (list), .help = (words))
#define LIST(path, when, type, field, text, least, greatest, words)                                \
    ROW(path, when, type, field, .is_list = true, .fallback = (text), .fewest = (least),           \
        .most = (greatest), .help = (words))
#define ITEMS(path, when, flag_name, rows, least, greatest, words)                                 \
    {                                                                                              \
        .name = (path),                                                                            \
        .needs_restart = NEEDS_##when,                                                             \
        .kind = &ITEM_KIND_##rows,                                                                 \
        .items = &ITEM_TABLE_##rows,                                                               \
        .flag = (flag_name),                                                                       \
        .has_flag = (flag_name) != NULL,                                                           \
        .is_list = true,                                                                           \
        .offset = offsetof(struct config_draft, rows),                                             \
        .size = sizeof(((struct config_draft *)NULL)->rows),                                       \
        .fewest = (least),                                                                         \
        .most = (greatest),                                                                        \
        .help = (words),                                                                           \
    },
// The kind of the first row, which an item that is plain text sets.
#define ITEM_KIND_backends config_kind_url
#define ITEM_KIND_pools config_kind_name
#define ITEM_KIND_tokenizers config_kind_file
#define ITEM_TABLE_backends config_backend_options
#define ITEM_TABLE_pools config_pool_options
#define ITEM_TABLE_tokenizers config_tokenizer_options

#define OPTIONS_OF_CONFIG
#define OWNER struct config
static const struct config_option rows_of_config[] = {
#include "config/option/options.def"
};
#undef OWNER
#undef OPTIONS_OF_CONFIG

#define OPTIONS_OF_BACKEND
#define OWNER struct config_backend_draft
static const struct config_option rows_of_backend[] = {
#include "config/option/options.def"
};
#undef OWNER
#undef OPTIONS_OF_BACKEND

#define OPTIONS_OF_POOL
#define OWNER struct config_pool
static const struct config_option rows_of_pool[] = {
#include "config/option/options.def"
};
#undef OWNER
#undef OPTIONS_OF_POOL

#define OPTIONS_OF_TOKENIZER
#define OWNER struct config_tokenizer
static const struct config_option rows_of_tokenizer[] = {
#include "config/option/options.def"
};
#undef OWNER
#undef OPTIONS_OF_TOKENIZER

#undef GROUP
#undef OPTION
#undef NAMED
#undef CHOICE
#undef LIST
#undef ITEMS
#define GROUP(key, heading, words) {.name = (key), .title = (heading), .text = (words)},
#define OPTION(path, when, type, field, text, least, greatest, words)
#define NAMED(path, when, flag_name, type, field, words)
#define CHOICE(path, when, field, text, list, words)
#define LIST(path, when, type, field, text, least, greatest, words)
#define ITEMS(path, when, flag_name, rows, least, greatest, words)
#define OPTIONS_OF_CONFIG
static const struct config_option_group groups[] = {
#include "config/option/options.def"
};
#undef OPTIONS_OF_CONFIG

#define TABLE(owner, list, type)                                                                   \
    {                                                                                              \
        .name = (owner), .rows = (list), .count = ARRAY_COUNT(list), .item_size = sizeof(type)     \
    }
const struct config_option_table config_options = TABLE("", rows_of_config, struct config);
const struct config_option_table config_backend_options =
    TABLE("backends", rows_of_backend, struct config_backend_draft);
const struct config_option_table config_pool_options =
    TABLE("pools", rows_of_pool, struct config_pool);
const struct config_option_table config_tokenizer_options =
    TABLE("tokenizers", rows_of_tokenizer, struct config_tokenizer);

const struct config_option_group *config_option_group_at(uint32_t index)
{
    return index < ARRAY_COUNT(groups) ? &groups[index] : NULL;
}

bool config_option_is_in(const struct config_option *option, const char *group)
{
    const char *dot = strchr(option->name, '.');
    size_t size = dot != NULL ? (size_t)(dot - option->name) : 0;
    return slice_is(slice_of(option->name, size), group);
}

const char *config_option_key(const struct config_option *option)
{
    const char *dot = strchr(option->name, '.');
    return dot != NULL ? dot + 1 : option->name;
}

const struct config_option *config_option_find(const struct config_option_table *table,
                                               const char *name)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (strcmp(table->rows[i].name, name) == 0) {
            return &table->rows[i];
        }
    }
    return NULL;
}

const struct config_option *config_option_find_flag(const struct config_option_table *table,
                                                    const char *flag)
{
    char own[config_flag_size_max];

    for (uint32_t i = 0; i < table->count; i++) {
        const struct config_option *option = &table->rows[i];
        if (!option->has_flag) {
            continue;
        }
        config_option_flag(option, own);
        if (strcmp(own + 2, flag) == 0) {
            return option;
        }
    }
    return NULL;
}

void config_option_flag(const struct config_option *option, char flag[config_flag_size_max])
{
    ASSERT(option->has_flag);

    const char *name = option->flag != NULL ? option->flag : option->name;
    int size = snprintf(flag, config_flag_size_max, "--%s", name);
    ASSERT(size > 2 && size < config_flag_size_max);
    for (char *at = flag; *at != '\0'; at++) {
        if (*at == '.' || *at == '_') {
            *at = '-';
        }
    }
}

void config_option_add_unknown(const struct config_option_table *table, const char *flag,
                               struct text *why)
{
    char flags[2][config_flag_size_max]; // the nearest so far, and the one on trial
    uint32_t trial = 0;
    struct config_nearest nearest = {.word = flag};

    for (uint32_t i = 0; i < table->count; i++) {
        if (!table->rows[i].has_flag) {
            continue;
        }
        config_option_flag(&table->rows[i], flags[trial]);
        const char *before = nearest.best;
        config_nearest_offer(&nearest, flags[trial]);
        trial = nearest.best != before ? 1 - trial : trial;
    }
    text_add_str(why, "unknown option");
    if (nearest.best != NULL) {
        text_add_format(why, "; did you mean %s?", nearest.best);
    }
}
