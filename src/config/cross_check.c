// SPDX-License-Identifier: Apache-2.0

#include "config/cross_check.h"

#include "base/base.h"
#include "config/backend_events.h"
#include "config/draft_internal.h"
#include "config/endpoint.h"
#include "config/option/nearest.h"

static struct config_place cross_check_place_of(struct config_draft *draft, const char *name)
{
    struct config_binding program = config_draft_binding(draft);
    return config_place_of(&program, name);
}

// The place of `name` in one backend or pool; of the item itself for NULL.
static struct config_place item_place(struct config_draft *draft, const char *list, uint32_t index,
                                      const char *name)
{
    const struct config_option *option = config_option_find(&config_options, list);
    struct config_binding item = config_item_binding(draft, option, index);
    return config_place_of(&item, name);
}

static enum status check_tls(struct config_draft *draft)
{
    const struct config *config = draft->config;

    if (config->tls.certificate != NULL && config->tls.key == NULL) {
        return config_refuse(draft, cross_check_place_of(draft, "tls.certificate"),
                             "tls.certificate needs tls.key");
    }
    if (config->tls.key != NULL && config->tls.certificate == NULL) {
        return config_refuse(draft, cross_check_place_of(draft, "tls.key"),
                             "tls.key needs tls.certificate");
    }
    return STATUS_OK;
}

static enum status check_cluster_identity(struct config_draft *draft)
{
    const struct config *config = draft->config;
    uint32_t files = (config->cluster.certificate != NULL) + (config->cluster.key != NULL) +
                     (config->cluster.ca != NULL);

    if (config->cluster.secret != NULL &&
        strlen(config->cluster.secret) < config_cluster_secret_min) {
        return config_refuse(draft, cross_check_place_of(draft, "cluster.secret"),
                             "cluster.secret has %zu characters; it needs at least %d",
                             strlen(config->cluster.secret), (int)config_cluster_secret_min);
    }
    if (files != 0 && files != 3) {
        return config_refuse(draft, cross_check_place_of(draft, "cluster.certificate"),
                             "cluster.certificate, cluster.key and cluster.ca need each other");
    }
    if (files != 0 && config->cluster.secret != NULL) {
        return config_refuse(
            draft, cross_check_place_of(draft, "cluster.certificate"),
            "cluster.certificate takes the place of cluster.secret: set one of the "
            "two");
    }
    if (config->cluster.listen != NULL && files == 0 && config->cluster.secret == NULL) {
        return config_refuse(draft, cross_check_place_of(draft, "cluster.listen"),
                             "cluster.listen needs cluster.secret_file, or cluster.certificate, "
                             "cluster.key and cluster.ca: strangers must not steer requests");
    }
    return STATUS_OK;
}

static enum status check_cluster(struct config_draft *draft)
{
    const struct config *config = draft->config;

    if (config->cluster.listen != NULL && config->cluster.store != NULL) {
        return config_refuse(draft, cross_check_place_of(draft, "cluster.listen"),
                             "cluster.listen and cluster.store exclude each other");
    }
    if (config->cluster.listen == NULL && config->cluster.peers.count > 0) {
        return config_refuse(draft, cross_check_place_of(draft, "cluster.peers"),
                             "cluster.peers needs cluster.listen");
    }
    return check_cluster_identity(draft);
}

static enum status check_admin(struct config_draft *draft)
{
    const struct config *config = draft->config;

    if (config->admin.listen == NULL) {
        return STATUS_OK;
    }
    if (config->admin.token == NULL) {
        return config_refuse(draft, cross_check_place_of(draft, "admin.listen"),
                             "admin.listen needs admin.token or admin.token_file");
    }
    for (uint32_t i = 0; i < config->listen.count; i++) {
        if (strcmp(config->listen.items[i], config->admin.listen) == 0) {
            return config_refuse(draft, cross_check_place_of(draft, "admin.listen"),
                                 "admin.listen must not be an address of listen");
        }
    }
    return STATUS_OK;
}

// Pairs where the first must not exceed the second.
static enum status check_order(struct config_draft *draft)
{
    const struct config *config = draft->config;
    const struct {
        const char *small;
        const char *large;
        uint64_t small_value;
        uint64_t large_value;
    } pairs[] = {
        {"limits.uri_size", "limits.header_size", config->limits.uri_size,
         config->limits.header_size},
        {"limits.body_size", "limits.body_memory", config->limits.body_size,
         config->limits.body_memory},
        {"health.eject_time", "health.eject_time_max", config->health.eject_time,
         config->health.eject_time_max},
        {"dns.ttl_min", "dns.ttl_max", config->dns.ttl_min, config->dns.ttl_max},
    };

    for (size_t i = 0; i < ARRAY_COUNT(pairs); i++) {
        if (pairs[i].small_value <= pairs[i].large_value) {
            continue;
        }
        // At least one of them was written: the defaults are in order.
        struct config_place place = cross_check_place_of(draft, pairs[i].small);
        place = config_place_is_set(place) ? place : cross_check_place_of(draft, pairs[i].large);
        return config_refuse(draft, place, "%s must not be more than %s", pairs[i].small,
                             pairs[i].large);
    }
    return STATUS_OK;
}

static const struct config_tokenizer *tokenizer_at(const struct config_draft *draft, uint32_t index)
{
    ASSERT(index < draft->tokenizers.count);
    return (const struct config_tokenizer *)(const void *)draft->tokenizers.items + index;
}

// The first name that is in both lists, or NULL.
static const char *shared_name(const struct config_list *a, const struct config_list *b)
{
    for (uint32_t i = 0; i < a->count * b->count; i++) {
        const char *name = a->items[i / b->count];
        if (strcmp(name, b->items[i % b->count]) == 0) {
            return name;
        }
    }
    return NULL;
}

// A model of several tokenizers would be whichever comes first.
static enum status check_tokenizer_models(struct config_draft *draft, uint32_t index)
{
    const struct config_list *models = &tokenizer_at(draft, index)->models;

    if (models->count == 0 && draft->tokenizers.count > 1) {
        return config_refuse(draft, item_place(draft, "tokenizers", index, NULL),
                             "tokenizers.models: name them where there are several tokenizers");
    }
    for (uint32_t i = 0; i < index; i++) {
        const char *name = shared_name(models, &tokenizer_at(draft, i)->models);
        if (name != NULL) {
            return config_refuse(draft, item_place(draft, "tokenizers", index, "models"),
                                 "tokenizers.models: \"%.64s\" has a tokenizer already", name);
        }
    }
    return STATUS_OK;
}

static enum status finish_tokenizers(struct config_draft *draft)
{
    struct config *config = draft->config;
    uint32_t count = draft->tokenizers.count;

    config->tokenizers =
        config_memory_take(&draft->memory, (count + 1) * sizeof(config->tokenizers[0]));
    if (config->tokenizers == NULL) {
        return config_refuse_size(draft, cross_check_place_of(draft, "tokenizers"));
    }
    config->tokenizer_count = count;
    for (uint32_t i = 0; i < count; i++) {
        config->tokenizers[i] = *tokenizer_at(draft, i);
        enum status status = check_tokenizer_models(draft, i);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

static const struct config_pool *pool_at(const struct config_draft *draft, uint32_t index)
{
    return (const struct config_pool *)(const void *)draft->pools.items + index;
}

static const struct config_backend_draft *backend_at(const struct config_draft *draft,
                                                     uint32_t index)
{
    return (const struct config_backend_draft *)(const void *)draft->backends.items + index;
}

static enum status check_pool_models(struct config_draft *draft, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        const char *model = shared_name(&pool_at(draft, index)->models, &pool_at(draft, i)->models);
        if (model != NULL) {
            return config_refuse(draft, item_place(draft, "pools", index, "models"),
                                 "pools.models: \"%.64s\" already belongs to pool \"%.64s\"", model,
                                 pool_at(draft, i)->name);
        }
    }
    return STATUS_OK;
}

static enum status finish_pools(struct config_draft *draft)
{
    struct config *config = draft->config;
    uint32_t count = draft->pools.count > 0 ? draft->pools.count : 1;

    config->pools = config_memory_take(&draft->memory, count * sizeof(config->pools[0]));
    if (config->pools == NULL) {
        return config_refuse_size(draft, (struct config_place){0});
    }
    config->pool_count = count;
    config->pools[0] = (struct config_pool){.name = "default", .policy = config->policy};
    for (uint32_t i = 0; i < draft->pools.count; i++) {
        config->pools[i] = *pool_at(draft, i);
        if (config->pools[i].policy == NULL) {
            config->pools[i].policy = config->policy;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(config->pools[i].name, config->pools[k].name) == 0) {
                return config_refuse(draft, item_place(draft, "pools", i, "name"),
                                     "pools.name: there are two pools \"%.64s\"",
                                     config->pools[i].name);
            }
        }
        enum status status = check_pool_models(draft, i);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

static enum status find_pool(struct config_draft *draft, uint32_t index, uint32_t *out)
{
    const struct config *config = draft->config;
    const char *name = backend_at(draft, index)->pool;
    struct config_nearest nearest = {.word = name};

    if (name == NULL) {
        *out = 0;
        return STATUS_OK;
    }
    for (uint32_t i = 0; i < config->pool_count; i++) {
        if (strcmp(config->pools[i].name, name) == 0) {
            *out = i;
            return STATUS_OK;
        }
        config_nearest_offer(&nearest, config->pools[i].name);
    }
    struct config_place place = item_place(draft, "backends", index, "pool");
    if (nearest.best != NULL) {
        return config_refuse(draft, place,
                             "backends.pool: unknown pool \"%.64s\"; did you mean \"%.64s\"?", name,
                             nearest.best);
    }
    return config_refuse(draft, place, "backends.pool: unknown pool \"%.64s\"", name);
}

static bool is_same_server(const struct config_backend *a, const struct config_backend *b)
{
    return a->port == b->port && a->tls == b->tls &&
           slice_equal_nocase(slice_str(a->host), slice_str(b->host));
}

static enum status finish_backend(struct config_draft *draft, uint32_t index)
{
    struct config *config = draft->config;
    struct config_backend *backend = &config->backends[index];
    struct config_endpoint parts;

    *backend = backend_at(draft, index)->backend;
    const char *why = config_url_split(slice_str(backend->url), &parts);
    ASSERT(why == NULL); // the kind of the row saw to it
    backend->host = config_memory_copy(&draft->memory, parts.host);
    if (backend->host == NULL) {
        return config_refuse_size(draft, item_place(draft, "backends", index, "url"));
    }
    backend->port = parts.port;
    backend->tls = parts.tls;
    for (uint32_t i = 0; i < index; i++) {
        if (is_same_server(backend, &config->backends[i])) {
            return config_refuse(draft, item_place(draft, "backends", index, "url"),
                                 "backends.url: \"%.200s\" is there already, as \"%.200s\"",
                                 backend->url, config->backends[i].url);
        }
    }
    return find_pool(draft, index, &backend->pool);
}

// The first backend that finds no slot, where each rank takes one; the number of backends if all
// do.
static uint32_t first_without_slot(const struct config_draft *draft, uint32_t *slots)
{
    uint32_t first = draft->backends.count;

    *slots = 0;
    for (uint32_t i = 0; i < draft->backends.count; i++) {
        *slots += backend_at(draft, i)->backend.ranks;
        first = *slots > draft->config->limits.backends && i < first ? i : first;
    }
    return first;
}

static enum status finish_backends(struct config_draft *draft)
{
    struct config *config = draft->config;
    uint32_t count = draft->backends.count;
    uint32_t slots;

    if (count == 0 && config->admin.listen == NULL) {
        return config_refuse(draft, cross_check_place_of(draft, "backends"),
                             "no backends: name at least one, or set admin.listen to add them "
                             "later");
    }
    uint32_t crowded = first_without_slot(draft, &slots);
    if (crowded < count) {
        return config_refuse(draft, item_place(draft, "backends", crowded, NULL),
                             "%u %s are more than limits.backends, which is %u", slots,
                             slots > count ? "ranks of backends" : "backends",
                             config->limits.backends);
    }
    config->backends = config_memory_take(&draft->memory, count * sizeof(config->backends[0]));
    if (config->backends == NULL) {
        return config_refuse_size(draft, cross_check_place_of(draft, "backends"));
    }
    config->backend_count = count;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        status = finish_backend(draft, i);
    }
    return status;
}

// Where the row of a backend was written, or else the row of all that it follows, or else the
// backend.
static struct config_place events_place(struct config_draft *draft, uint32_t index, const char *row)
{
    bool is_replay = strcmp(row, "events_replay") == 0;
    struct config_place place = item_place(draft, "backends", index, row);

    if (!config_place_is_set(place)) {
        place = item_place(draft, "backends", index, "ranks");
    }
    if (!config_place_is_set(place)) {
        place = cross_check_place_of(draft, is_replay ? "events.replay" : "events.endpoint");
    }
    return config_place_is_set(place) ? place : item_place(draft, "backends", index, NULL);
}

static enum status check_events_of(struct config_draft *draft, uint32_t index)
{
    const struct config_backend *backend = &draft->config->backends[index];
    char space[256];
    struct text why = text_over(space, sizeof(space));
    const char *row;

    if (config_backend_events_check(draft->config, backend, &row, &why)) {
        return STATUS_OK;
    }
    return config_refuse(draft, events_place(draft, index, row), "backends.%s of \"%.200s\": %.*s",
                         row, backend->url, (int)why.size, space);
}

static enum status check_events(struct config_draft *draft)
{
    const struct config *config = draft->config;
    uint32_t count = config->backend_count;
    struct config_ports *ports = config_memory_take(&draft->memory, (count + 1) * sizeof(*ports));

    if (ports == NULL) {
        return config_refuse_size(draft, cross_check_place_of(draft, "backends"));
    }
    for (uint32_t i = 0; i < count; i++) {
        enum status status = check_events_of(draft, i);
        if (status != STATUS_OK) {
            return status;
        }
        ports[i] = config_backend_ports(config, &config->backends[i]);
        for (uint32_t k = 0; k < i; k++) {
            if (config_ports_collide(&ports[i], &ports[k])) {
                return config_refuse(draft, events_place(draft, i, "events"),
                                     "backends.events of \"%.150s\": \"%.150s\" publishes "
                                     "there already, with the same topic",
                                     config->backends[i].url, config->backends[k].url);
            }
        }
    }
    return STATUS_OK;
}

static enum status check_keys(struct config_draft *draft)
{
    const struct config *config = draft->config;

    if (config->authorization != CONFIG_AUTHORIZATION_REPLACE || config->api_key != NULL) {
        return STATUS_OK;
    }
    for (uint32_t i = 0; i < config->backend_count; i++) {
        if (config->backends[i].api_key == NULL) {
            return config_refuse(draft, cross_check_place_of(draft, "authorization"),
                                 "authorization: replace needs api_key or api_key_file, for all or "
                                 "for each backend; \"%.200s\" has none",
                                 config->backends[i].url);
        }
    }
    if (config->backend_count == 0) {
        return config_refuse(draft, cross_check_place_of(draft, "authorization"),
                             "authorization: replace needs api_key or api_key_file");
    }
    return STATUS_OK;
}

enum status config_cross_check(struct config_draft *draft)
{
    static enum status (*const steps[])(struct config_draft *) = {
        check_tls,    check_admin,   check_order,       finish_pools, finish_backends,
        check_events, check_cluster, finish_tokenizers, check_keys,
    };
    enum status status = STATUS_OK;

    for (size_t i = 0; i < ARRAY_COUNT(steps) && status == STATUS_OK; i++) {
        status = steps[i](draft);
    }
    return status;
}
