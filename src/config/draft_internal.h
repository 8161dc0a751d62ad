// SPDX-License-Identifier: Apache-2.0
//
// draft_internal.h -- a configuration that is being put together.
//
//     defaults -> file -> command line -> cross-checks -> struct config
//
// Each value that someone wrote has a place, so that a check that looks at several values together
// can still point at one.  Backends and pools are gathered here with their places, and move to
// their final form when everything was read: a backend may name a pool that the file defines later.
#pragma once

#include "config/config.h"
#include "config/config_memory.h"
#include "config/option/option.h"

// Where a value was written.  All zero: nowhere, it is a default.
struct config_place {
    const char *flag; // "--limits-body-size", or NULL for the file
    uint32_t line;
    uint32_t column;
};

struct config_value {
    const char *text;
    struct config_place place;
};

struct config_backend_draft {
    struct config_backend backend;
    const char *pool; // NULL: the first
};

// A list of things that have rows of their own.
struct config_items {
    uint8_t *items;              // of table->item_size each
    struct config_place *places; // table->count + 1 for each item: its rows, then the item itself
    uint32_t count;
};

struct config_draft {
    struct config *config;
    struct config_memory memory;
    const char *file; // in messages
    config_read_fn *read;
    struct config_error *error;
    struct config_place *places; // of the rows of config_options
    struct config_items backends;
    struct config_items pools;
    struct config_items tokenizers;
};

// One struct that rows are bound to: the configuration, a backend or a pool.
struct config_binding {
    struct config_draft *draft;
    const struct config_option_table *table;
    void *base;
    struct config_place *places; // by row
};

static inline bool config_place_is_set(struct config_place place)
{
    return place.flag != NULL || place.line != 0;
}

static inline struct config_binding config_draft_binding(struct config_draft *draft)
{
    return (struct config_binding){
        .draft = draft,
        .table = &config_options,
        .base = draft->config,
        .places = draft->places,
    };
}

// Fills draft->error and returns STATUS_MALFORMED.
enum status config_refuse(struct config_draft *draft, struct config_place place, const char *format,
                          ...) __attribute__((format(printf, 3, 4)));

// The same for a value of one option, whose name or flag goes in front.
enum status config_refuse_option(const struct config_binding *binding,
                                 const struct config_option *option, struct config_place place,
                                 const char *format, ...) __attribute__((format(printf, 4, 5)));

// The block is full.
enum status config_refuse_size(struct config_draft *draft, struct config_place place);

// Sets all rows that have a default.
enum status config_assign_defaults(const struct config_binding *binding);

// Sets one row from one value, or from many when it is a list, which stands at `place`.  Keeps the
// texts.
enum status config_assign(const struct config_binding *binding, const struct config_option *option,
                          const struct config_value *value);
enum status config_assign_list(const struct config_binding *binding,
                               const struct config_option *option, struct config_place place,
                               const struct config_value *values, uint32_t value_count);

// Makes room for `count` items with their defaults, in place of those there were.
enum status config_assign_items(struct config_draft *draft, const struct config_option *option,
                                struct config_place place, uint32_t count);

// How one of the items of a row that has a table is bound.
struct config_binding config_item_binding(struct config_draft *draft,
                                          const struct config_option *option, uint32_t index);

// Where the row called `name` was set; where the item itself begins for NULL.
struct config_place config_place_of(const struct config_binding *binding, const char *name);
