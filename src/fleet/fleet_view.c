// SPDX-License-Identifier: Apache-2.0
//
// A view is built in four passes: members and pools; the models that anyone names, each once; for
// each model its pool and the members that serve it; the document that lists them.  The keeper does
// this when something changed, never a worker, so it may take its time.

#include "base/base.h"
#include "base/hash.h"
#include "base/text.h"
#include "fleet/fleet_internal.h"

#include <stdio.h>
#include <stdlib.h>

static const char list_open[] = "{\"object\":\"list\",\"data\":[";
static const char list_close[] = "]}";

static uint64_t hash_name(struct slice name)
{
    return hash_bytes(name, 0);
}

static bool is_healthy(const struct backend *backend)
{
    return atomic_load_explicit(&backend->shared.probe, memory_order_relaxed) != BACKEND_PROBE_DOWN;
}

static bool entry_serves(const struct fleet_entry *entry, const char *name)
{
    for (uint32_t i = 0; i < entry->model_count; i++) {
        if (strcmp(entry->models[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

struct sizes {
    uint32_t names;      // of models, repeated ones included
    size_t strings_size; // bytes of names and documents
};

static struct sizes measure(const struct fleet_view_source *source)
{
    struct sizes sizes = {0};

    for (uint32_t i = 0; i < source->entry_count; i++) {
        const struct fleet_entry *entry = &source->entries[i];
        for (uint32_t m = 0; m < entry->model_count; m++) {
            sizes.names++;
            sizes.strings_size += strlen(entry->models[m].name) + 1;
            sizes.strings_size += strlen(entry->models[m].document) + 1;
        }
    }
    for (uint32_t p = 0; p < source->pool_count; p++) {
        for (uint32_t m = 0; m < source->pools[p].count; m++) {
            sizes.names++;
            sizes.strings_size += strlen(source->pools[p].models[m].name) + 1;
            sizes.strings_size += strlen(source->pools[p].models[m].document) + 1;
        }
    }
    return sizes;
}

static struct fleet_view *view_allocate(const struct fleet_view_source *source, struct sizes sizes)
{
    uint32_t table_size = 16;
    while (table_size < sizes.names * 2) {
        table_size *= 2;
    }
    // Each model lists at most all members; so does each pool, and the group of those that serve any.
    size_t list_size = (size_t)source->entry_count * (sizes.names + 2) + 1;
    struct fleet_view *view = calloc(1, sizeof(*view));
    if (view == NULL) {
        return NULL;
    }
    view->members = calloc(source->entry_count + 1, sizeof(*view->members));
    view->pools = calloc(source->pool_count, sizeof(*view->pools));
    view->models = calloc(table_size, sizeof(*view->models));
    view->lists = malloc(list_size * sizeof(*view->lists));
    view->strings = malloc(sizes.strings_size + 1);
    view->models_document =
        malloc(sizes.strings_size + sizes.names + sizeof(list_open) + sizeof(list_close));
    view->pool_count = source->pool_count;
    view->model_mask = table_size - 1;
    view->generation = source->generation;
    if (view->members == NULL || view->pools == NULL || view->models == NULL ||
        view->lists == NULL || view->strings == NULL || view->models_document == NULL) {
        fleet_view_destroy(&view);
    }
    return view;
}

static void add_members(struct fleet_view *view, const struct fleet_view_source *source,
                        uint32_t *list_at)
{
    for (uint32_t i = 0; i < source->entry_count; i++) {
        const struct fleet_entry *entry = &source->entries[i];
        view->members[view->member_count++] = (struct fleet_member){
            .backend = entry->backend, .weight = entry->weight, .draining = entry->draining};
        view->has_healthy |= is_healthy(entry->backend);
    }
    for (uint32_t p = 0; p < source->pool_count; p++) {
        view->pools[p] = (struct fleet_group){.pool = p, .first = *list_at};
        for (uint32_t i = 0; i < view->member_count; i++) {
            if (view->members[i].backend->pool == p) {
                view->lists[(*list_at)++] = i;
            }
        }
        view->pools[p].count = *list_at - view->pools[p].first;
    }
}

static struct fleet_view_model *place_of(const struct fleet_view *view, struct slice name)
{
    uint64_t hash = hash_name(name);
    uint32_t at = (uint32_t)hash & view->model_mask;

    // The table is at most half full, so this ends.
    while (view->models[at].name != NULL &&
           (view->models[at].hash != hash || !slice_is(name, view->models[at].name))) {
        at = (at + 1) & view->model_mask;
    }
    return &view->models[at];
}

static const char *keep_string(char **strings, const char *text)
{
    size_t size = strlen(text) + 1;
    char *kept = *strings;
    memcpy(kept, text, size);
    *strings += size;
    return kept;
}

static struct fleet_view_model *add_model(struct fleet_view *view, char **strings, const char *name)
{
    struct fleet_view_model *model = place_of(view, slice_str(name));
    if (model->name == NULL) {
        *model = (struct fleet_view_model){
            .name = keep_string(strings, name),
            .hash = hash_name(slice_str(name)),
            .group = {.pool = UINT32_MAX},
        };
    }
    return model;
}

static bool pool_is_healthy(const struct fleet_view_source *source, uint32_t pool)
{
    for (uint32_t i = 0; i < source->entry_count; i++) {
        if (source->entries[i].backend->pool == pool && is_healthy(source->entries[i].backend)) {
            return true;
        }
    }
    return false;
}

static void describe(struct fleet_view_model *model, uint32_t pool, const char *document,
                     char **strings)
{
    model->group.pool = model->group.pool == UINT32_MAX ? pool : model->group.pool;
    if (model->document == NULL && document != NULL) {
        model->document = keep_string(strings, document);
    }
}

// What a backend says of its models; what the configuration gave to a pool stays there, the rest
// goes to the first pool that serves it.
static void add_learned(struct fleet_view *view, const struct fleet_view_source *source,
                        uint32_t pool, char **strings)
{
    for (uint32_t i = 0; i < source->entry_count; i++) {
        const struct fleet_entry *entry = &source->entries[i];
        for (uint32_t m = 0; entry->backend->pool == pool && m < entry->model_count; m++) {
            describe(add_model(view, strings, entry->models[m].name), pool,
                     is_healthy(entry->backend) ? entry->models[m].document : NULL, strings);
        }
    }
}

static void add_models(struct fleet_view *view, const struct fleet_view_source *source)
{
    char *strings = view->strings;

    for (uint32_t p = 0; p < source->pool_count; p++) {
        for (uint32_t m = 0; m < source->pools[p].count; m++) {
            describe(add_model(view, &strings, source->pools[p].models[m].name), p, NULL, &strings);
        }
    }
    for (uint32_t p = 0; p < source->pool_count; p++) {
        add_learned(view, source, p, &strings);
    }
    // A pool's own models that no backend describes, described by us.
    for (uint32_t p = 0; p < source->pool_count; p++) {
        for (uint32_t m = 0; pool_is_healthy(source, p) && m < source->pools[p].count; m++) {
            const struct fleet_model *named = &source->pools[p].models[m];
            describe(add_model(view, &strings, named->name), p, named->document, &strings);
        }
    }
}

static void add_groups(struct fleet_view *view, const struct fleet_view_source *source,
                       uint32_t *list_at)
{
    for (uint32_t at = 0; at <= view->model_mask; at++) {
        struct fleet_view_model *model = &view->models[at];
        if (model->name == NULL) {
            continue;
        }
        model->group.first = *list_at;
        for (uint32_t i = 0; i < source->entry_count; i++) {
            const struct fleet_entry *entry = &source->entries[i];
            if (entry->backend->pool == model->group.pool &&
                (!entry->models_known || entry_serves(entry, model->name))) {
                view->lists[(*list_at)++] = i;
            }
        }
        model->group.count = *list_at - model->group.first;
        if (model->group.count == 0) {
            model->group = view->pools[model->group.pool]; // the configuration insists
        }
    }
}

// The first pool in which some member serves who knows what.
static void add_any(struct fleet_view *view, const struct fleet_view_source *source,
                    uint32_t *list_at)
{
    view->any_model.first = *list_at;
    for (uint32_t p = 0; p < source->pool_count && view->any_model.count == 0; p++) {
        view->any_model.pool = p;
        for (uint32_t i = 0; i < source->entry_count; i++) {
            if (source->entries[i].backend->pool == p && !source->entries[i].models_known) {
                view->lists[(*list_at)++] = i;
                view->any_model.count++;
            }
        }
    }
}

// Writes a model's document once, however many serve it.
static void list_model(struct fleet_view *view, const char *name, bool *listed, struct text *out)
{
    const struct fleet_view_model *model = place_of(view, slice_str(name));
    if (model->document == NULL || listed[model - view->models]) {
        return;
    }
    listed[model - view->models] = true;
    text_add_str(out, out->size > sizeof(list_open) - 1 ? "," : "");
    text_add_str(out, model->document);
}

// In the order of the backends, so that the list does not change its order with every hash.
static void write_document(struct fleet_view *view, const struct fleet_view_source *source,
                           size_t capacity)
{
    struct text out = text_over(view->models_document, capacity);
    bool *listed = calloc(view->model_mask + 1, sizeof(bool));
    ASSERT(listed != NULL);

    text_add_str(&out, list_open);
    for (uint32_t i = 0; i < source->entry_count; i++) {
        for (uint32_t m = 0; m < source->entries[i].model_count; m++) {
            list_model(view, source->entries[i].models[m].name, listed, &out);
        }
    }
    for (uint32_t p = 0; p < source->pool_count; p++) {
        for (uint32_t m = 0; m < source->pools[p].count; m++) {
            list_model(view, source->pools[p].models[m].name, listed, &out);
        }
    }
    text_add_str(&out, list_close);
    ASSERT(!out.overflow);
    view->models_document[out.size] = '\0';
    free(listed);
}

struct fleet_view *fleet_view_build(const struct fleet_view_source *source)
{
    struct sizes sizes = measure(source);
    struct fleet_view *view = view_allocate(source, sizes);
    uint32_t list_at = 0;

    if (view == NULL) {
        return NULL;
    }
    add_members(view, source, &list_at);
    add_models(view, source);
    add_groups(view, source, &list_at);
    add_any(view, source, &list_at);
    write_document(view, source, sizes.strings_size + sizes.names + sizeof(list_open) + 1);
    return view;
}

void fleet_view_destroy(struct fleet_view **view_ptr)
{
    struct fleet_view *view = *view_ptr;
    *view_ptr = NULL;

    if (view == NULL) {
        return;
    }
    free(view->members);
    free(view->pools);
    free(view->models);
    free(view->lists);
    free(view->strings);
    free(view->models_document);
    free(view);
}

const struct fleet_view_model *fleet_view_model(const struct fleet_view *view, struct slice model)
{
    const struct fleet_view_model *found = place_of(view, model);
    return found->name == NULL ? NULL : found;
}

const struct fleet_group *fleet_view_find(const struct fleet_view *view, struct slice model)
{
    const struct fleet_view_model *found = fleet_view_model(view, model);
    if (found != NULL) {
        return &found->group;
    }
    return view->any_model.count > 0 ? &view->any_model : NULL;
}
