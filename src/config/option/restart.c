// SPDX-License-Identifier: Apache-2.0

#include "config/option/restart.h"

#include "base/base.h"
#include "base/text.h"
#include "config/backend_events.h"
#include "config/config.h"
#include "config/option/option.h"

static bool strings_equal(const char *a, const char *b)
{
    return strcmp(a == NULL ? "" : a, b == NULL ? "" : b) == 0;
}

static bool restart_lists_equal(const struct config_list *a, const struct config_list *b)
{
    bool equal = a->count == b->count;
    for (uint32_t i = 0; equal && i < a->count; i++) {
        equal = strcmp(a->items[i], b->items[i]) == 0;
    }
    return equal;
}

// All other kinds are strings.
static bool is_number_kind(const struct config_kind *kind)
{
    return kind->number != NULL || kind == &config_kind_toggle || kind == &config_kind_offset ||
           kind == &config_kind_choice;
}

static bool fields_equal(const struct config_option *option, const void *a, const void *b)
{
    const void *left = (const char *)a + option->offset;
    const void *right = (const char *)b + option->offset;

    if (option->is_list) {
        return restart_lists_equal(left, right);
    }
    if (is_number_kind(option->kind)) {
        return memcmp(left, right, option->size) == 0;
    }
    return strings_equal(*(const char *const *)left, *(const char *const *)right);
}

static bool tokenizers_equal(const struct config *a, const struct config *b)
{
    bool equal = a->tokenizer_count == b->tokenizer_count;
    for (uint32_t i = 0; equal && i < a->tokenizer_count; i++) {
        for (uint32_t row = 0; equal && row < config_tokenizer_options.count; row++) {
            equal = fields_equal(&config_tokenizer_options.rows[row], &a->tokenizers[i],
                                 &b->tokenizers[i]);
        }
    }
    return equal;
}

static void restart_add_name(struct text *names, const char *name)
{
    text_add_str(names, names->size > 0 ? ", " : "");
    text_add_str(names, name);
}

void config_restart_add(const struct config *old, const struct config *changed, struct text *names)
{
    for (uint32_t i = 0; i < config_options.count; i++) {
        const struct config_option *option = &config_options.rows[i];
        if (!option->needs_restart) {
            continue;
        }
        // Items live outside of struct config; only tokenizers need a restart.
        ASSERT(option->items == NULL || option->items == &config_tokenizer_options);
        bool equal = option->items != NULL ? tokenizers_equal(old, changed)
                                           : fields_equal(option, old, changed);
        if (!equal) {
            restart_add_name(names, option->name);
        }
    }
    if (config_hears_events(old) != config_hears_events(changed)) {
        restart_add_name(names, "whether KV events are received at all");
    }
}
