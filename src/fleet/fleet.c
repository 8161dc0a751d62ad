// SPDX-License-Identifier: Apache-2.0

#include "fleet/fleet.h"

#include "base/base.h"
#include "base/hash.h"
#include "base/reclaim.h"
#include "base/text.h"
#include "fleet/fleet_internal.h"

#include <stdio.h>
#include <stdlib.h>

// A view or a backend that waits for its last reader.
struct retired {
    struct retired *next;
    uint64_t ticket;
    struct fleet_view *view;
    struct backend *backend;
};

// Out of memory for a name is not survivable.
static char *fleet_copy_text(const char *text)
{
    char *copy = strdup(text);
    ASSERT(copy != NULL);
    return copy;
}

static char *fleet_copy_if_any(const char *text)
{
    return text != NULL ? fleet_copy_text(text) : NULL;
}

// Frees a string of fleet_copy_text that a struct holds as const.
static void fleet_free_text(const char *text)
{
    char *copy;
    memcpy(&copy, &text, sizeof(copy));
    free(copy);
}

static void free_models(struct fleet_model **models, uint32_t *count)
{
    for (uint32_t i = 0; i < *count; i++) {
        fleet_free_text((*models)[i].name);
        fleet_free_text((*models)[i].document);
    }
    free(*models);
    *models = NULL;
    *count = 0;
}

static void backend_free(struct backend **backend_ptr)
{
    struct backend *backend = *backend_ptr;
    *backend_ptr = NULL;

    if (backend == NULL) {
        return;
    }
    ASSERT(atomic_load_explicit(&backend->shared.in_flight, memory_order_acquire) == 0);
    free(backend->url);
    free(backend->host);
    free(backend->authority);
    if (backend->authorization != NULL) {
        explicit_bzero(backend->authorization, strlen(backend->authorization));
    }
    free(backend->authorization);
    free(backend->events);
    free(backend->events_replay);
    free(backend->events_topic);
    free(backend);
}

struct fleet *fleet_create(const struct fleet_limits *limits, struct reclaim *reclaim)
{
    ASSERT(limits->backend_count_max > 0 && limits->pool_count > 0);

    struct fleet *fleet = aligned_alloc(64, sizeof(*fleet));
    if (fleet == NULL) {
        return NULL;
    }
    *fleet = (struct fleet){.limits = *limits, .reclaim = reclaim, .next_id = 1, .changed = true};
    fleet->entries = calloc(limits->backend_count_max, sizeof(*fleet->entries));
    fleet->slots = calloc(limits->backend_count_max, sizeof(struct backend *));
    fleet->pools = calloc(limits->pool_count, sizeof(*fleet->pools));
    if (fleet->entries == NULL || fleet->slots == NULL || fleet->pools == NULL ||
        !fleet_publish(fleet)) {
        fleet_destroy(&fleet);
    }
    return fleet;
}

void fleet_destroy(struct fleet **fleet_ptr)
{
    struct fleet *fleet = *fleet_ptr;
    *fleet_ptr = NULL;

    if (fleet == NULL) {
        return;
    }
    while (fleet->retired != NULL) {
        struct retired *retired = fleet->retired;
        fleet->retired = retired->next;
        fleet_view_destroy(&retired->view);
        backend_free(&retired->backend);
        free(retired);
    }
    for (uint32_t i = 0; i < fleet->entry_count; i++) {
        free_models(&fleet->entries[i].models, &fleet->entries[i].model_count);
        backend_free(&fleet->entries[i].member.backend);
    }
    for (uint32_t i = 0; fleet->pools != NULL && i < fleet->limits.pool_count; i++) {
        free_models(&fleet->pools[i].models, &fleet->pools[i].count);
    }
    struct fleet_view *view = atomic_load_explicit(&fleet->shared.view, memory_order_relaxed);
    fleet_view_destroy(&view);
    free(fleet->entries);
    free(fleet->slots);
    free(fleet->pools);
    free(fleet);
}

static struct fleet_entry *fleet_entry_of(const struct fleet *fleet, const struct backend *backend)
{
    for (uint32_t i = 0; i < fleet->entry_count; i++) {
        if (fleet->entries[i].member.backend == backend) {
            return &fleet->entries[i];
        }
    }
    ASSERT(false);
    return NULL;
}

static struct backend *backend_make(const struct fleet_spec *spec)
{
    struct backend *backend = aligned_alloc(64, sizeof(*backend));
    if (backend == NULL) {
        return NULL;
    }
    *backend = (struct backend){
        .pool = spec->pool,
        .url = fleet_copy_text(spec->url),
        .host = fleet_copy_text(spec->host),
        .port = spec->port,
        .tls = spec->tls,
        .address = spec->address,
        .identity = hash_bytes(slice_str(spec->url), 0),
        .rank = spec->rank,
        .rank_count = spec->rank_count > 0 ? spec->rank_count : 1,
        .events = fleet_copy_if_any(spec->events),
        .events_replay = fleet_copy_if_any(spec->events_replay),
        .events_topic = fleet_copy_text(spec->events_topic != NULL ? spec->events_topic : ""),
    };
    load_init(&backend->load);
    bool is_v6 = strchr(spec->host, ':') != NULL;
    ASSERT(asprintf(&backend->authority, "%s%s%s:%u", is_v6 ? "[" : "", spec->host,
                    is_v6 ? "]" : "", spec->port) != -1);
    if (spec->api_key != NULL) {
        ASSERT(asprintf(&backend->authorization, "Bearer %s", spec->api_key) != -1);
    }
    return backend;
}

// Makes documents for configured models.
static struct fleet_model *describe_models(const char *const *names, uint32_t count)
{
    struct fleet_model *models = calloc(count + 1, sizeof(*models));
    ASSERT(models != NULL);
    for (uint32_t i = 0; i < count; i++) {
        char space[1024];
        struct text document = text_over(space, sizeof(space) - 1);
        text_add_str(&document, "{\"id\":");
        text_add_json(&document, slice_str(names[i]));
        text_add_str(&document, ",\"object\":\"model\",\"created\":0,\"owned_by\":\"warmpath\"}");
        space[document.size] = '\0';
        models[i] = (struct fleet_model){
            .name = fleet_copy_text(names[i]),
            .document = fleet_copy_text(document.overflow ? "{}" : space),
        };
    }
    return models;
}

struct backend *fleet_add(struct fleet *fleet, const struct fleet_spec *spec)
{
    ASSERT(spec->pool < fleet->limits.pool_count && spec->weight > 0);
    ASSERT(spec->rank == 0 || spec->rank < spec->rank_count);

    uint32_t slot = 0;
    while (slot < fleet->limits.backend_count_max && fleet->slots[slot] != NULL) {
        slot++;
    }
    if (slot == fleet->limits.backend_count_max) {
        return NULL;
    }
    struct backend *backend = backend_make(spec);
    if (backend == NULL) {
        return NULL;
    }
    backend->slot = slot;
    backend->id = fleet->next_id++;
    backend->server = spec->server != 0 ? spec->server : backend->id;
    fleet->slots[slot] = backend;
    fleet->entries[fleet->entry_count++] =
        (struct fleet_entry){.member = {backend, slot, spec->weight, false}};
    fleet->changed = true;
    if (spec->model_count > 0) {
        struct fleet_entry *entry = &fleet->entries[fleet->entry_count - 1];
        entry->models = describe_models(spec->models, spec->model_count);
        entry->model_count = spec->model_count;
        entry->models_fixed = true;
    }
    return backend;
}

static void fleet_retire(struct fleet *fleet, struct fleet_view *view, struct backend *backend)
{
    struct retired *retired = malloc(sizeof(*retired));
    // Out of memory: the object is leaked, which is better than freed too early.
    if (retired == NULL) {
        return;
    }
    *retired = (struct retired){
        .next = fleet->retired,
        .ticket = view != NULL ? reclaim_ticket(fleet->reclaim) : 0,
        .view = view,
        .backend = backend,
    };
    fleet->retired = retired;
}

void fleet_remove(struct fleet *fleet, struct backend *backend)
{
    struct fleet_entry *entry = fleet_entry_of(fleet, backend);
    uint32_t at = (uint32_t)(entry - fleet->entries);

    free_models(&entry->models, &entry->model_count);
    memmove(entry, entry + 1, (fleet->entry_count - at - 1) * sizeof(*entry));
    fleet->entry_count--;
    fleet->changed = true;
    atomic_store_explicit(&backend->shared.removed, true, memory_order_release);
    fleet_retire(fleet, NULL, backend); // its ticket is drawn when a view without it is published
}

void fleet_set_weight(struct fleet *fleet, struct backend *backend, uint32_t weight)
{
    ASSERT(weight > 0);
    fleet_entry_of(fleet, backend)->member.weight = weight;
    fleet->changed = true;
}

void fleet_set_draining(struct fleet *fleet, struct backend *backend, bool draining)
{
    fleet_entry_of(fleet, backend)->member.draining = draining;
    fleet->changed = true;
}

void fleet_set_pool_models(struct fleet *fleet, uint32_t pool, const char *const *names,
                           uint32_t count)
{
    ASSERT(pool < fleet->limits.pool_count);

    struct fleet_pool_models *to = &fleet->pools[pool];
    free_models(&to->models, &to->count);
    to->models = describe_models(names, count);
    to->count = count;
    fleet->changed = true;
}

static bool models_equal(const struct fleet_entry *entry, const struct fleet_model *models,
                         uint32_t count)
{
    bool equal = entry->model_count == count;
    for (uint32_t i = 0; equal && i < count; i++) {
        equal = strcmp(entry->models[i].name, models[i].name) == 0 &&
                strcmp(entry->models[i].document, models[i].document) == 0;
    }
    return equal;
}

// Only the server knows which of the configured models are adapters.  True if that changed.
static bool learn_adapters(struct fleet_entry *entry, const struct fleet_model *models,
                           uint32_t count)
{
    bool is_news = false;

    for (uint32_t i = 0; i < entry->model_count; i++) {
        struct fleet_model *own = &entry->models[i];
        bool is_adapter = false;
        for (uint32_t k = 0; k < count; k++) {
            is_adapter |= models[k].is_adapter && strcmp(models[k].name, own->name) == 0;
        }
        is_news |= own->is_adapter != is_adapter;
        own->is_adapter = is_adapter;
    }
    return is_news;
}

void fleet_set_models(struct fleet *fleet, struct backend *backend,
                      const struct fleet_model *models, uint32_t model_count)
{
    struct fleet_entry *entry = fleet_entry_of(fleet, backend);
    if (entry->models_fixed) {
        fleet->changed |= learn_adapters(entry, models, model_count);
        return;
    }
    if (models_equal(entry, models, model_count)) {
        return;
    }
    struct fleet_model *copy = calloc(model_count + 1, sizeof(*copy));
    if (copy == NULL) {
        return; // asked again at the next round
    }
    free_models(&entry->models, &entry->model_count);
    entry->models = copy;
    for (uint32_t i = 0; i < model_count; i++) {
        copy[entry->model_count].name = fleet_copy_text(models[i].name);
        copy[entry->model_count].document = fleet_copy_text(models[i].document);
        copy[entry->model_count].is_adapter = models[i].is_adapter;
        copy[entry->model_count].ignores_name = models[i].ignores_name;
        entry->model_count++;
    }
    fleet->changed = true;
}

void fleet_set_any_name(struct fleet *fleet, enum fleet_any_name any_name)
{
    fleet->changed |= fleet->any_name != any_name;
    fleet->any_name = any_name;
}

void fleet_touch(struct fleet *fleet)
{
    fleet->changed = true;
}

bool fleet_publish(struct fleet *fleet)
{
    if (!fleet->changed) {
        return true;
    }
    struct fleet_view *view = fleet_view_build(fleet);
    if (view == NULL) {
        return false;
    }
    fleet->generation++;
    fleet->changed = false;
    struct fleet_view *old =
        atomic_exchange_explicit(&fleet->shared.view, view, memory_order_acq_rel);
    if (old == NULL) {
        return true;
    }
    uint64_t ticket = reclaim_ticket(fleet->reclaim);
    fleet_retire(fleet, old, NULL);
    for (struct retired *retired = fleet->retired; retired != NULL; retired = retired->next) {
        retired->ticket = retired->ticket == 0 ? ticket : retired->ticket;
    }
    return true;
}

static bool retired_is_free(const struct fleet *fleet, const struct retired *retired)
{
    if (retired->ticket == 0 || !reclaim_is_past(fleet->reclaim, retired->ticket)) {
        return false;
    }
    return retired->backend == NULL ||
           atomic_load_explicit(&retired->backend->shared.in_flight, memory_order_acquire) == 0;
}

void fleet_reclaim(struct fleet *fleet)
{
    struct retired **link = &fleet->retired;

    while (*link != NULL) {
        struct retired *retired = *link;
        if (!retired_is_free(fleet, retired)) {
            link = &retired->next;
            continue;
        }
        *link = retired->next;
        if (retired->backend != NULL) {
            fleet->slots[retired->backend->slot] = NULL;
        }
        fleet_view_destroy(&retired->view);
        backend_free(&retired->backend);
        free(retired);
    }
}

struct backend *fleet_at(const struct fleet *fleet, uint32_t position)
{
    return position < fleet->entry_count ? fleet->entries[position].member.backend : NULL;
}

const struct fleet_member *fleet_member_at(const struct fleet *fleet, uint32_t position)
{
    return position < fleet->entry_count ? &fleet->entries[position].member : NULL;
}

struct backend *fleet_find(const struct fleet *fleet, uint64_t id)
{
    for (uint32_t i = 0; i < fleet->entry_count; i++) {
        if (fleet->entries[i].member.backend->id == id) {
            return fleet->entries[i].member.backend;
        }
    }
    return NULL;
}

const struct fleet_member *fleet_member(const struct fleet *fleet, const struct backend *backend)
{
    return &fleet_entry_of(fleet, backend)->member;
}

const char *fleet_model_name(const struct fleet *fleet, const struct backend *backend,
                             uint32_t position)
{
    const struct fleet_entry *entry = fleet_entry_of(fleet, backend);
    return position < entry->model_count ? entry->models[position].name : NULL;
}

const struct fleet_view *fleet_view(const struct fleet *fleet)
{
    return atomic_load_explicit(&fleet->shared.view, memory_order_acquire);
}
