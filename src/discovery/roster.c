// SPDX-License-Identifier: Apache-2.0

#include "discovery/roster.h"

#include "base/base.h"
#include "base/text.h"
#include "config/backend_events.h"
#include "config/config.h"
#include "config/endpoint.h"
#include "discovery/dns_source.h"
#include "feed/kv_poller.h"
#include "feed/prober.h"
#include "feed/scraper.h"
#include "fleet/fleet.h"
#include "net/dns.h"
#include "net/tcp.h"
#include "sys/log.h"
#include "sys/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    room_retry_ms = 2000, // when to look for room in the fleet again
    url_size_max = 1024,
    endpoint_size_max = 512,
};

// The source that lists an origin.  A further source (a watched file, Kubernetes) is a value here
// and calls roster_merge with its list whenever the list changes.
enum origin_source { SOURCE_CONFIG, SOURCE_ADMIN };

// Where a server publishes its KV events; see config_events.
struct origin_events {
    char *endpoint;
    char *replay;
    char *topic;
};

struct backend_origin {
    struct backend_origin *next;
    struct roster *roster;
    enum origin_source source;
    bool is_listed; // while its source is merged
    bool has_own_key;
    bool is_crowded; // some backend does not fit; logged
    bool tls;
    uint16_t port;
    char *url;
    char *host;
    char *pool_name;
    char *api_key; // its own, or else the configuration's; NULL: none
    uint32_t weight;
    uint32_t pool;
    char **models;
    uint32_t model_count;
    uint32_t ranks;
    struct origin_events own_events; // as written
    struct origin_events events;     // own, completed from the configuration's
    struct dns_name *name;           // NULL: the host is an address
    struct address address;          // unless there is a name
    struct timer retry;              // for an address without room in the fleet
    struct backend **backends; // each rank of each address, the first rank of an address first
    uint32_t backend_count;
    uint32_t backend_count_max;
};

struct roster {
    struct roster_options options;
    struct dns_source *dns;
    struct backend_origin *origins; // in the order in which they were listed
};

static char *origin_copy_text(const char *text)
{
    char *copy = text == NULL ? NULL : strdup(text);
    ASSERT(text == NULL || copy != NULL);
    return copy;
}

static bool origin_texts_equal(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static uint32_t ranks_of(const struct config_backend *spec)
{
    return spec->ranks > 0 ? spec->ranks : 1;
}

static void origin_free_key(struct backend_origin *origin)
{
    if (origin->api_key != NULL) {
        explicit_bzero(origin->api_key, strlen(origin->api_key));
    }
    free(origin->api_key);
    origin->api_key = NULL;
}

static void origin_events_free(struct origin_events *events)
{
    free(events->endpoint);
    free(events->replay);
    free(events->topic);
    *events = (struct origin_events){0};
}

static void origin_set_events(struct backend_origin *origin, const struct config_events *events)
{
    origin_events_free(&origin->events);
    origin->events = (struct origin_events){
        .endpoint = origin_copy_text(events->endpoint),
        .replay = origin_copy_text(events->replay),
        .topic = origin_copy_text(events->topic),
    };
}

// NULL when the address has no such rank.
static const struct backend *origin_rank(const struct backend_origin *origin,
                                         const struct address *address, uint32_t rank)
{
    for (uint32_t i = 0; i < origin->backend_count; i++) {
        const struct backend *backend = origin->backends[i];
        if (backend->rank == rank && address_equal(&backend->address, address)) {
            return backend;
        }
    }
    return NULL;
}

static void write_backend_url(const struct backend_origin *origin, const struct address *address,
                              uint32_t rank, char url[url_size_max])
{
    struct text text = text_over(url, url_size_max - 1);

    text_add_str(&text, origin->url);
    if (origin->name != NULL) {
        text_add_str(&text, "#");
        address_format_host(address, &text);
    }
    if (origin->ranks > 1) {
        text_add_format(&text, "#rank=%u", rank);
    }
    url[text.size] = '\0';
}

// The endpoint of one rank, in `space`; NULL: it has none.
static const char *rank_endpoint(const char *endpoint, const struct address *address, uint32_t rank,
                                 char space[endpoint_size_max])
{
    struct config_socket socket;
    uint8_t host_space[64];
    struct text host = text_over(host_space, sizeof(host_space));
    struct text out = text_over(space, endpoint_size_max - 1);

    if (endpoint == NULL || config_events_are_polled(endpoint)) {
        return endpoint;
    }
    const char *wrong = config_socket_split(slice_str(endpoint), &socket);
    ASSERT(wrong == NULL); // the configuration's reader checked it
    address_format_host(address, &host);
    // An origin from the admin API may fall under a default without ports for its ranks.
    if (!config_socket_write(&socket, rank, text_slice(&host), &out)) {
        return NULL;
    }
    space[out.size] = '\0';
    return space;
}

static void origin_log_crowded(struct backend_origin *origin, const char *url)
{
    if (!origin->is_crowded) {
        log_error("backend %s: does not fit: limits.backends is %u", url,
                  origin->roster->options.config->limits.backends);
    }
    origin->is_crowded = true;
}

// False when it does not fit.
static bool origin_add_backend(struct backend_origin *origin, const struct address *address,
                               uint32_t rank)
{
    const struct roster_options *options = &origin->roster->options;
    const struct backend *first = origin_rank(origin, address, 0);
    char url[url_size_max];
    char events[endpoint_size_max];
    char replay[endpoint_size_max];

    write_backend_url(origin, address, rank, url);
    ASSERT(origin->backend_count < origin->backend_count_max);
    struct backend *backend =
        fleet_add(options->fleet,
                  &(struct fleet_spec){
                      .url = url,
                      .host = origin->host,
                      .api_key = origin->api_key,
                      .port = origin->port,
                      .tls = origin->tls,
                      .weight = origin->weight,
                      .pool = origin->pool,
                      .address = *address,
                      .server = first != NULL ? first->id : 0,
                      .rank = rank,
                      .rank_count = origin->ranks,
                      .events = rank_endpoint(origin->events.endpoint, address, rank, events),
                      .events_replay = rank_endpoint(origin->events.replay, address, rank, replay),
                      .events_topic = origin->events.topic,
                      .models = (const char *const *)origin->models,
                      .model_count = origin->model_count,
                  });
    if (backend == NULL) {
        origin_log_crowded(origin, url);
        return false;
    }
    origin->backends[origin->backend_count++] = backend;
    log_info("backend %s: added", url);
    prober_watch(options->prober, backend);
    if (options->scraper != NULL) {
        scraper_watch(options->scraper, backend);
    }
    if (options->poller != NULL) {
        kv_poller_watch(options->poller, backend);
    }
    return true;
}

static void origin_drop_backend(struct backend_origin *origin, uint32_t index)
{
    const struct roster_options *options = &origin->roster->options;
    struct backend *backend = origin->backends[index];

    log_info("backend %s: removed", backend->url);
    prober_forget(options->prober, backend);
    if (options->scraper != NULL) {
        scraper_forget(options->scraper, backend);
    }
    if (options->poller != NULL) {
        kv_poller_forget(options->poller, backend);
    }
    fleet_remove(options->fleet, backend);
    origin->backends[index] = origin->backends[--origin->backend_count];
}

static void origin_drop_backends(struct backend_origin *origin)
{
    while (origin->backend_count > 0) {
        origin_drop_backend(origin, origin->backend_count - 1);
    }
}

static void roster_tell(struct roster *roster)
{
    roster->options.changed(roster->options.owner);
}

static bool addresses_have(const struct address *addresses, uint32_t count,
                           const struct address *wanted)
{
    for (uint32_t i = 0; i < count; i++) {
        if (address_equal(&addresses[i], wanted)) {
            return true;
        }
    }
    return false;
}

// Makes the backends of an origin those of the addresses.  False when not all fit.
static bool origin_set_addresses(void *owner, const struct address *addresses, uint32_t count)
{
    struct backend_origin *origin = owner;
    bool all_fit = true;

    for (uint32_t i = origin->backend_count; i-- > 0;) {
        if (!addresses_have(addresses, count, &origin->backends[i]->address)) {
            origin_drop_backend(origin, i);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        bool fits = true;
        for (uint32_t rank = 0; fits && rank < origin->ranks; rank++) {
            fits = origin_rank(origin, &addresses[i], rank) != NULL ||
                   origin_add_backend(origin, &addresses[i], rank);
        }
        all_fit &= fits;
    }
    origin->is_crowded = !all_fit;
    roster_tell(origin->roster);
    return all_fit;
}

// Brings the backends of an origin into the fleet: now, or when its name is resolved, or when there
// is room.
static void origin_settle(struct backend_origin *origin)
{
    struct loop *loop = origin->roster->options.loop;

    if (origin->name != NULL) {
        dns_name_resolve(origin->name);
        return;
    }
    loop_disarm(loop, &origin->retry);
    if (!origin_set_addresses(origin, &origin->address, 1)) {
        loop_arm(loop, &origin->retry, room_retry_ms);
    }
}

static void origin_retry(struct timer *timer)
{
    origin_settle(CONTAINER_OF(timer, struct backend_origin, retry));
}

static struct backend_origin *origin_find(const struct roster *roster, const char *url)
{
    struct backend_origin *origin = roster->origins;
    while (origin != NULL && strcmp(origin->url, url) != 0) {
        origin = origin->next;
    }
    return origin;
}

static void origin_copy_models(struct backend_origin *origin, const struct config_list *models)
{
    origin->models = calloc(models->count + 1, sizeof(char *));
    ASSERT(origin->models != NULL);
    for (uint32_t i = 0; i < models->count; i++) {
        origin->models[origin->model_count++] = origin_copy_text(models->items[i]);
    }
}

// Follows the name, unless the host is an address.
static void origin_set_host(struct backend_origin *origin, const struct config_backend *spec)
{
    uint32_t address_count_max = 1;
    if (address_from_literal(spec->host, spec->port, &origin->address) != STATUS_OK) {
        address_count_max = dns_address_count_max;
        origin->name = dns_name_follow(origin->roster->dns, spec->host, spec->port,
                                       origin_set_addresses, origin);
    }
    origin->backend_count_max = origin->ranks * address_count_max;
    origin->backends = calloc(origin->backend_count_max, sizeof(struct backend *));
    ASSERT(origin->backends != NULL);
}

static struct backend_origin *origin_add(struct roster *roster, const struct config_backend *spec,
                                         enum origin_source source)
{
    const struct config *config = roster->options.config;
    struct config_events events = config_backend_events(config, spec);
    struct backend_origin *origin = calloc(1, sizeof(*origin));
    ASSERT(origin != NULL);
    *origin = (struct backend_origin){
        .roster = roster,
        .source = source,
        .url = origin_copy_text(spec->url),
        .host = origin_copy_text(spec->host),
        .pool_name = origin_copy_text(config->pools[spec->pool].name),
        .api_key = origin_copy_text(spec->api_key != NULL ? spec->api_key : config->api_key),
        .port = spec->port,
        .tls = spec->tls,
        .has_own_key = spec->api_key != NULL,
        .weight = spec->weight,
        .pool = spec->pool,
        .ranks = ranks_of(spec),
        .own_events = {.endpoint = origin_copy_text(spec->events),
                       .replay = origin_copy_text(spec->events_replay),
                       .topic = origin_copy_text(spec->events_topic)},
        .retry.fire = origin_retry,
    };
    origin_copy_models(origin, &spec->models);
    origin_set_events(origin, &events);
    origin_set_host(origin, spec);
    // At the end, so that backends keep the order of the configuration.
    struct backend_origin **link = &roster->origins;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = origin;
    origin_settle(origin);
    return origin;
}

static void origin_free(struct backend_origin *origin)
{
    for (uint32_t i = 0; i < origin->model_count; i++) {
        free(origin->models[i]);
    }
    free(origin->models);
    free(origin->url);
    free(origin->host);
    free(origin->pool_name);
    origin_free_key(origin);
    origin_events_free(&origin->own_events);
    origin_events_free(&origin->events);
    free(origin->backends);
    free(origin);
}

static void origin_remove(struct backend_origin *origin)
{
    struct roster *roster = origin->roster;
    struct backend_origin **link = &roster->origins;

    while (*link != origin) {
        link = &(*link)->next;
    }
    *link = origin->next;
    origin_drop_backends(origin);
    dns_name_leave(&origin->name);
    loop_disarm(roster->options.loop, &origin->retry);
    origin_free(origin);
}

static bool origin_has_key(const struct backend_origin *origin, const char *key)
{
    return strcmp(origin->api_key == NULL ? "" : origin->api_key, key == NULL ? "" : key) == 0;
}

static bool origin_has_events(const struct backend_origin *origin,
                              const struct config_events *events)
{
    return origin_texts_equal(origin->events.endpoint, events->endpoint) &&
           origin_texts_equal(origin->events.replay, events->replay) &&
           origin_texts_equal(origin->events.topic, events->topic);
}

// Whether the backends of an origin can stay as they are under a new line of configuration.
static bool origin_matches(const struct backend_origin *origin, const struct config_backend *spec)
{
    const struct config *config = origin->roster->options.config;
    const char *key = spec->api_key != NULL ? spec->api_key : config->api_key;
    struct config_events events = config_backend_events(config, spec);
    bool same = origin->pool == spec->pool && origin->model_count == spec->models.count &&
                origin->ranks == ranks_of(spec) && origin_has_events(origin, &events);
    for (uint32_t i = 0; same && i < spec->models.count; i++) {
        same = strcmp(origin->models[i], spec->models.items[i]) == 0;
    }
    return same && origin_has_key(origin, key);
}

static void roster_merge_one(struct roster *roster, const struct config_backend *spec,
                             enum origin_source source)
{
    struct backend_origin *origin = origin_find(roster, spec->url);

    if (origin != NULL && !origin_matches(origin, spec)) {
        origin_remove(origin);
        origin = NULL;
    }
    if (origin == NULL) {
        origin = origin_add(roster, spec, source);
    }
    for (uint32_t i = 0; origin->weight != spec->weight && i < origin->backend_count; i++) {
        fleet_set_weight(roster->options.fleet, origin->backends[i], spec->weight);
    }
    origin->weight = spec->weight;
    origin->has_own_key = spec->api_key != NULL;
    origin->source = source;
    origin->is_listed = true;
}

// Makes the origins of a source those of its new list.  An origin that another source listed
// becomes its own.
static void roster_merge(struct roster *roster, enum origin_source source,
                         const struct config_backend *list, uint32_t count)
{
    for (struct backend_origin *origin = roster->origins; origin != NULL; origin = origin->next) {
        origin->is_listed = false;
    }
    for (uint32_t i = 0; i < count; i++) {
        roster_merge_one(roster, &list[i], source);
    }
    struct backend_origin *next = NULL;
    for (struct backend_origin *origin = roster->origins; origin != NULL; origin = next) {
        next = origin->next;
        if (origin->source == source && !origin->is_listed) {
            origin_remove(origin);
        }
    }
}

static uint32_t pool_find(const struct config *config, const char *name)
{
    uint32_t pool = 0;
    while (pool < config->pool_count && strcmp(config->pools[pool].name, name) != 0) {
        pool++;
    }
    return pool;
}

// An origin from the admin API stays in the pool of its name, which may have another number now,
// with the key and events that now hold.  Backends are immutable, so they are replaced if any of
// these differ.
static void origin_follow_config(struct backend_origin *origin)
{
    const struct config *config = origin->roster->options.config;
    uint32_t pool = pool_find(config, origin->pool_name);
    struct config_events events =
        config_backend_events(config, &(struct config_backend){
                                          .events = origin->own_events.endpoint,
                                          .events_replay = origin->own_events.replay,
                                          .events_topic = origin->own_events.topic,
                                      });

    if (pool == config->pool_count) {
        log_warn("backend %s: removed: its pool %s is no longer configured", origin->url,
                 origin->pool_name);
        origin_remove(origin);
        return;
    }
    if (pool == origin->pool && (origin->has_own_key || origin_has_key(origin, config->api_key)) &&
        origin_has_events(origin, &events)) {
        return;
    }
    origin->pool = pool;
    origin_set_events(origin, &events);
    if (!origin->has_own_key) {
        origin_free_key(origin);
        origin->api_key = origin_copy_text(config->api_key);
    }
    origin_drop_backends(origin);
    origin_settle(origin);
}

// Clears the models of a pool that a reload has removed.
static void roster_set_pool_models(const struct roster *roster)
{
    static const struct config_list none;
    const struct config *config = roster->options.config;

    for (uint32_t i = 0; i < fleet_pool_count_max; i++) {
        const struct config_list *models =
            i < config->pool_count ? &config->pools[i].models : &none;
        fleet_set_pool_models(roster->options.fleet, i, (const char *const *)models->items,
                              models->count);
    }
}

static void roster_set_any_name(const struct roster *roster)
{
    static const enum fleet_any_name any_names[] = {
        [CONFIG_ANY_NAME_AUTO] = FLEET_ANY_NAME_AUTO,
        [CONFIG_ANY_NAME_ON] = FLEET_ANY_NAME_ON,
        [CONFIG_ANY_NAME_OFF] = FLEET_ANY_NAME_OFF,
    };
    fleet_set_any_name(roster->options.fleet, any_names[roster->options.config->models.any_name]);
}

void roster_set_config(struct roster *roster, const struct config *config)
{
    roster->options.config = config;
    dns_source_set_config(roster->dns, config);
    roster_set_any_name(roster);
    roster_set_pool_models(roster);
    roster_merge(roster, SOURCE_CONFIG, config->backends, config->backend_count);
    struct backend_origin *next = NULL;
    for (struct backend_origin *origin = roster->origins; origin != NULL; origin = next) {
        next = origin->next;
        if (origin->source != SOURCE_CONFIG) {
            origin_follow_config(origin);
        }
    }
    roster_tell(roster);
}

struct roster *roster_create(const struct roster_options *options)
{
    struct roster *roster = calloc(1, sizeof(*roster));
    struct dns_source *dns = dns_source_create(options->loop);
    if (roster == NULL || dns == NULL) {
        free(roster);
        dns_source_destroy(&dns);
        return NULL;
    }
    *roster = (struct roster){.options = *options, .dns = dns};
    roster_set_config(roster, options->config);
    return roster;
}

void roster_destroy(struct roster **roster_ptr)
{
    struct roster *roster = *roster_ptr;
    *roster_ptr = NULL;

    if (roster == NULL) {
        return;
    }
    while (roster->origins != NULL) {
        origin_remove(roster->origins);
    }
    dns_source_destroy(&roster->dns);
    free(roster);
}

static bool roster_is_full(const struct roster *roster)
{
    uint32_t count = dns_source_leaving_count(roster->dns);
    for (const struct backend_origin *origin = roster->origins; origin != NULL;
         origin = origin->next) {
        count++;
    }
    return count >= roster->options.config->limits.backends;
}

enum status roster_add(struct roster *roster, const struct config_backend *spec,
                       struct backend **out)
{
    if (origin_find(roster, spec->url) != NULL) {
        return STATUS_MALFORMED;
    }
    if (roster_is_full(roster)) {
        return STATUS_EXHAUSTED;
    }
    struct backend_origin *origin = origin_add(roster, spec, SOURCE_ADMIN);
    if (origin->name == NULL && origin->backend_count < origin->ranks) {
        origin_remove(origin);
        return STATUS_EXHAUSTED;
    }
    *out = origin->backend_count > 0 ? origin->backends[0] : NULL;
    roster_tell(roster);
    return STATUS_OK;
}

static bool origin_owns(const struct backend_origin *origin, const struct backend *backend)
{
    for (uint32_t i = 0; i < origin->backend_count; i++) {
        if (origin->backends[i] == backend) {
            return true;
        }
    }
    return false;
}

// `origin` may be NULL.  A name of the configuration stays: its records decide.
static enum status roster_remove_origin(struct roster *roster, struct backend_origin *origin)
{
    if (origin == NULL || (origin->name != NULL && origin->source == SOURCE_CONFIG)) {
        return STATUS_MALFORMED;
    }
    origin_remove(origin);
    roster_tell(roster);
    return STATUS_OK;
}

enum status roster_remove(struct roster *roster, struct backend *backend)
{
    struct backend_origin *origin = roster->origins;
    while (origin != NULL && !origin_owns(origin, backend)) {
        origin = origin->next;
    }
    return roster_remove_origin(roster, origin);
}

bool roster_has(const struct roster *roster, const char *url)
{
    return origin_find(roster, url) != NULL;
}

enum status roster_remove_url(struct roster *roster, const char *url)
{
    return roster_remove_origin(roster, origin_find(roster, url));
}

bool roster_has_resolved_all(const struct roster *roster)
{
    for (const struct backend_origin *origin = roster->origins; origin != NULL;
         origin = origin->next) {
        if (origin->name != NULL && !dns_name_has_resolved(origin->name)) {
            return false;
        }
    }
    return true;
}
