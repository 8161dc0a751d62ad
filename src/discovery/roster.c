// SPDX-License-Identifier: Apache-2.0

#include "discovery/roster.h"

#include "base/base.h"
#include "base/text.h"
#include "config/backend_events.h"
#include "config/config.h"
#include "config/endpoint.h"
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
    // After a failure, when to try again: DNS, or to find room in the fleet.
    retry_ms = 2000,
    url_size_max = 1024,
    endpoint_size_max = 512,
};

// Where a server publishes its KV events; see config_events.
struct events {
    char *endpoint;
    char *replay;
    char *topic;
};

struct origin {
    struct origin *next;
    struct roster *roster;
    char *url;
    char *host;
    char *pool_name;
    char *api_key; // its own, or else the configuration's; NULL: there is none
    uint16_t port;
    bool tls;
    bool has_own_key;
    bool from_config;
    bool in_new_config; // while a new configuration is applied
    bool is_name;
    bool has_resolved; // or failed to, once
    bool is_resolving;
    bool has_failed; // said so in the log
    bool is_crowded; // some backend does not fit; said so in the log
    bool is_gone;    // to be freed when its query comes back
    uint32_t weight;
    uint32_t pool;
    char **models;
    uint32_t model_count;
    uint32_t ranks;
    struct events own_events; // as written
    struct events events;     // what that comes to
    struct address address;   // unless is_name
    struct timer timer;
    struct backend **backends; // each rank of each address, the first rank of an address first
    uint32_t backend_count;
    uint32_t backend_count_max;
};

struct roster {
    struct loop *loop;
    struct fleet *fleet;
    struct prober *prober;
    struct scraper *scraper;
    struct kv_poller *poller;
    const struct config *config;
    void (*changed)(void *owner);
    void *owner;
    struct dns *dns; // made when the first name needs it
    struct origin *origins;
    struct origin *gone; // removed, each with a query under way
};

static char *copy_text(const char *text)
{
    char *copy = text == NULL ? NULL : strdup(text);
    ASSERT(text == NULL || copy != NULL);
    return copy;
}

static uint32_t ranks_of(const struct config_backend *spec)
{
    return spec->ranks > 0 ? spec->ranks : 1;
}

static void free_key(struct origin *origin)
{
    if (origin->api_key != NULL) {
        explicit_bzero(origin->api_key, strlen(origin->api_key));
    }
    free(origin->api_key);
    origin->api_key = NULL;
}

static void events_free(struct events *events)
{
    free(events->endpoint);
    free(events->replay);
    free(events->topic);
    *events = (struct events){0};
}

static void drop_backend(struct origin *origin, uint32_t index)
{
    struct roster *roster = origin->roster;
    struct backend *backend = origin->backends[index];

    log_info("backend %s leaves the fleet", backend->url);
    prober_forget(roster->prober, backend);
    if (roster->scraper != NULL) {
        scraper_forget(roster->scraper, backend);
    }
    if (roster->poller != NULL) {
        kv_poller_forget(roster->poller, backend);
    }
    fleet_remove(roster->fleet, backend);
    origin->backends[index] = origin->backends[--origin->backend_count];
}

static void note_crowd(struct origin *origin, const char *url)
{
    if (!origin->is_crowded) {
        log_error("backend %s does not fit: limits.backends is %u", url,
                  origin->roster->config->limits.backends);
    }
    origin->is_crowded = true;
}

// NULL when there is none.
static const struct backend *find_rank(const struct origin *origin, const struct address *address,
                                       uint32_t rank)
{
    for (uint32_t i = 0; i < origin->backend_count; i++) {
        const struct backend *backend = origin->backends[i];
        if (backend->rank == rank && address_equal(&backend->address, address)) {
            return backend;
        }
    }
    return NULL;
}

static void write_url(const struct origin *origin, const struct address *address, uint32_t rank,
                      char url[url_size_max])
{
    struct text text = text_over(url, url_size_max - 1);

    text_add_str(&text, origin->url);
    if (origin->is_name) {
        text_add_str(&text, "#");
        address_format_host(address, &text);
    }
    if (origin->ranks > 1) {
        text_add_format(&text, "#rank=%u", rank);
    }
    url[text.size] = '\0';
}

// The endpoint of one rank, in `space`; NULL: it has none.
static const char *endpoint_of(const char *endpoint, const struct address *address, uint32_t rank,
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
    ASSERT(wrong == NULL); // who read the configuration saw to it
    address_format_host(address, &host);
    // What operators added may come under defaults that have no ports for its ranks.
    if (!config_socket_write(&socket, rank, text_slice(&host), &out)) {
        return NULL;
    }
    space[out.size] = '\0';
    return space;
}

// False when it does not fit.
static bool add_backend(struct origin *origin, const struct address *address, uint32_t rank)
{
    struct roster *roster = origin->roster;
    const struct backend *first = find_rank(origin, address, 0);
    char url[url_size_max];
    char events[endpoint_size_max];
    char replay[endpoint_size_max];

    write_url(origin, address, rank, url);
    ASSERT(origin->backend_count < origin->backend_count_max);
    struct backend *backend =
        fleet_add(roster->fleet,
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
                      .events = endpoint_of(origin->events.endpoint, address, rank, events),
                      .events_replay = endpoint_of(origin->events.replay, address, rank, replay),
                      .events_topic = origin->events.topic,
                      .models = (const char *const *)origin->models,
                      .model_count = origin->model_count,
                  });
    if (backend == NULL) {
        note_crowd(origin, url);
        return false;
    }
    origin->backends[origin->backend_count++] = backend;
    log_info("backend %s joins the fleet", url);
    prober_watch(roster->prober, backend);
    if (roster->scraper != NULL) {
        scraper_watch(roster->scraper, backend);
    }
    if (roster->poller != NULL) {
        kv_poller_watch(roster->poller, backend);
    }
    return true;
}

// Adds the ranks of one address that are not there yet.  False when not all fit.
static bool add_ranks(struct origin *origin, const struct address *address)
{
    for (uint32_t rank = 0; rank < origin->ranks; rank++) {
        if (find_rank(origin, address, rank) == NULL && !add_backend(origin, address, rank)) {
            return false;
        }
    }
    return true;
}

static bool answer_has(const struct dns_answer *answer, const struct address *address)
{
    for (uint32_t i = 0; i < answer->address_count; i++) {
        if (address_equal(&answer->addresses[i], address)) {
            return true;
        }
    }
    return false;
}

// False when not all fit.
static bool follow(struct origin *origin, const struct dns_answer *answer)
{
    bool all_fit = true;

    for (uint32_t i = origin->backend_count; i-- > 0;) {
        if (!answer_has(answer, &origin->backends[i]->address)) {
            drop_backend(origin, i);
        }
    }
    for (uint32_t i = 0; i < answer->address_count; i++) {
        all_fit &= add_ranks(origin, &answer->addresses[i]);
    }
    origin->is_crowded = !all_fit;
    origin->roster->changed(origin->roster->owner);
    return all_fit;
}

static void unlink_from(struct origin **link, const struct origin *origin)
{
    while (*link != origin) {
        link = &(*link)->next;
    }
    *link = origin->next;
}

static void origin_free(struct origin *origin)
{
    loop_disarm(origin->roster->loop, &origin->timer);
    for (uint32_t i = 0; i < origin->model_count; i++) {
        free(origin->models[i]);
    }
    free(origin->models);
    free(origin->url);
    free(origin->host);
    free(origin->pool_name);
    free_key(origin);
    events_free(&origin->own_events);
    events_free(&origin->events);
    free(origin->backends);
    free(origin);
}

static void resolved(void *owner, const struct dns_answer *answer)
{
    struct origin *origin = owner;
    const struct config *config = origin->roster->config;
    uint32_t wait_ms = retry_ms;

    origin->is_resolving = false;
    origin->has_resolved = true;
    if (origin->is_gone) {
        unlink_from(&origin->roster->gone, origin);
        origin_free(origin);
        return;
    }
    if (answer->status == STATUS_OK) {
        origin->has_failed = false;
        wait_ms = answer->ttl_ms;
        wait_ms = wait_ms < config->dns.ttl_min ? config->dns.ttl_min : wait_ms;
        wait_ms = wait_ms > config->dns.ttl_max ? config->dns.ttl_max : wait_ms;
        // Room is made soon after a backend has left.
        if (!follow(origin, answer) && wait_ms > retry_ms) {
            wait_ms = retry_ms;
        }
    } else if (!origin->has_failed) {
        origin->has_failed = true;
        log_warn_seldom((uintptr_t)origin, "%s does not resolve: %s; %u known addresses stay",
                        origin->host, answer->why, origin->backend_count);
    }
    loop_arm(origin->roster->loop, &origin->timer, wait_ms);
}

static const char *servers_of(const struct config *config, char *space, size_t size)
{
    struct text text = text_over(space, size - 1);
    for (uint32_t i = 0; i < config->dns.servers.count; i++) {
        text_add_str(&text, i > 0 ? "," : "");
        text_add_str(&text, config->dns.servers.items[i]);
    }
    space[text.size] = '\0';
    return text.size > 0 ? space : NULL;
}

static void resolve(struct origin *origin)
{
    struct roster *roster = origin->roster;
    char servers[1024];
    struct dns_options options = {.servers = servers_of(roster->config, servers, sizeof(servers))};

    if (roster->dns == NULL && dns_create(roster->loop, &options, &roster->dns) != STATUS_OK) {
        log_error_seldom((uintptr_t)origin, "DNS cannot be set up, %s waits", origin->host);
        loop_arm(roster->loop, &origin->timer, retry_ms);
        return;
    }
    origin->is_resolving = true;
    dns_resolve(roster->dns, origin->host, origin->port, resolved, origin);
}

// Brings the backends of an origin into the fleet: now, or when DNS has answered, or when there is
// room.
static void settle(struct timer *timer)
{
    struct origin *origin = CONTAINER_OF(timer, struct origin, timer);

    loop_disarm(origin->roster->loop, timer);
    if (origin->is_resolving) {
        return; // and will be settled by the answer
    }
    if (origin->is_name) {
        resolve(origin);
        return;
    }
    origin->has_resolved = true;
    if (add_ranks(origin, &origin->address)) {
        origin->is_crowded = false;
    } else {
        loop_arm(origin->roster->loop, timer, retry_ms);
    }
    origin->roster->changed(origin->roster->owner);
}

static struct origin *origin_find(const struct roster *roster, const char *url)
{
    struct origin *origin = roster->origins;
    while (origin != NULL && strcmp(origin->url, url) != 0) {
        origin = origin->next;
    }
    return origin;
}

static void copy_models(struct origin *origin, const struct config_list *models)
{
    origin->models = calloc(models->count + 1, sizeof(char *));
    ASSERT(origin->models != NULL);
    for (uint32_t i = 0; i < models->count; i++) {
        origin->models[origin->model_count++] = copy_text(models->items[i]);
    }
}

static void set_events(struct origin *origin, const struct config_events *events)
{
    events_free(&origin->events);
    origin->events = (struct events){
        .endpoint = copy_text(events->endpoint),
        .replay = copy_text(events->replay),
        .topic = copy_text(events->topic),
    };
}

static struct origin *origin_add(struct roster *roster, const struct config_backend *spec)
{
    const struct config *config = roster->config;
    struct config_events events = config_backend_events(config, spec);
    struct origin *origin = calloc(1, sizeof(*origin));
    ASSERT(origin != NULL);
    *origin = (struct origin){
        .roster = roster,
        .url = copy_text(spec->url),
        .host = copy_text(spec->host),
        .pool_name = copy_text(config->pools[spec->pool].name),
        .api_key = copy_text(spec->api_key != NULL ? spec->api_key : config->api_key),
        .port = spec->port,
        .tls = spec->tls,
        .has_own_key = spec->api_key != NULL,
        .weight = spec->weight,
        .pool = spec->pool,
        .ranks = ranks_of(spec),
        .own_events = {.endpoint = copy_text(spec->events),
                       .replay = copy_text(spec->events_replay),
                       .topic = copy_text(spec->events_topic)},
        .timer.fire = settle,
    };
    copy_models(origin, &spec->models);
    set_events(origin, &events);
    // At the end, so that backends keep the order of the configuration.
    struct origin **link = &roster->origins;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = origin;
    origin->is_name = address_from_literal(spec->host, spec->port, &origin->address) != STATUS_OK;
    origin->backend_count_max = origin->ranks * (origin->is_name ? dns_address_count_max : 1);
    origin->backends = calloc(origin->backend_count_max, sizeof(struct backend *));
    ASSERT(origin->backends != NULL);
    settle(&origin->timer);
    return origin;
}

static void drop_backends(struct origin *origin)
{
    while (origin->backend_count > 0) {
        drop_backend(origin, origin->backend_count - 1);
    }
}

static void origin_remove(struct origin *origin)
{
    struct roster *roster = origin->roster;

    unlink_from(&roster->origins, origin);
    drop_backends(origin);
    loop_disarm(roster->loop, &origin->timer);
    if (origin->is_resolving) {
        origin->is_gone = true; // freed when the query comes back
        origin->next = roster->gone;
        roster->gone = origin;
    } else {
        origin_free(origin);
    }
}

static bool texts_equal(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool has_key(const struct origin *origin, const char *key)
{
    return strcmp(origin->api_key == NULL ? "" : origin->api_key, key == NULL ? "" : key) == 0;
}

static bool has_events(const struct origin *origin, const struct config_events *events)
{
    return texts_equal(origin->events.endpoint, events->endpoint) &&
           texts_equal(origin->events.replay, events->replay) &&
           texts_equal(origin->events.topic, events->topic);
}

// Whether the backends of an origin can stay as they are under a new line of configuration.
static bool is_same(const struct origin *origin, const struct config_backend *spec)
{
    const char *key = spec->api_key != NULL ? spec->api_key : origin->roster->config->api_key;
    struct config_events events = config_backend_events(origin->roster->config, spec);
    bool same = origin->pool == spec->pool && origin->model_count == spec->models.count &&
                origin->ranks == ranks_of(spec) && has_events(origin, &events);
    for (uint32_t i = 0; same && i < spec->models.count; i++) {
        same = strcmp(origin->models[i], spec->models.items[i]) == 0;
    }
    return same && has_key(origin, key);
}

static void apply(struct roster *roster, const struct config_backend *spec)
{
    struct origin *origin = origin_find(roster, spec->url);

    if (origin != NULL && !is_same(origin, spec)) {
        origin_remove(origin);
        origin = NULL;
    }
    if (origin == NULL) {
        origin = origin_add(roster, spec);
    }
    for (uint32_t i = 0; origin->weight != spec->weight && i < origin->backend_count; i++) {
        fleet_set_weight(roster->fleet, origin->backends[i], spec->weight);
    }
    origin->weight = spec->weight;
    origin->has_own_key = spec->api_key != NULL;
    origin->from_config = true;
    origin->in_new_config = true;
}

static uint32_t pool_find(const struct config *config, const char *name)
{
    uint32_t pool = 0;
    while (pool < config->pool_count && strcmp(config->pools[pool].name, name) != 0) {
        pool++;
    }
    return pool;
}

// What an operator added stays, in the pool of that name, which may have another number now, and
// with the key and the events that now hold.  Backends do not change, so they are replaced where that differs.
static void keep_added(struct origin *origin)
{
    const struct config *config = origin->roster->config;
    uint32_t pool = pool_find(config, origin->pool_name);
    struct config_events events =
        config_backend_events(config, &(struct config_backend){
                                          .events = origin->own_events.endpoint,
                                          .events_replay = origin->own_events.replay,
                                          .events_topic = origin->own_events.topic,
                                      });

    if (pool == config->pool_count) {
        log_warn("backend %s goes with its pool %s", origin->url, origin->pool_name);
        origin_remove(origin);
        return;
    }
    if (pool == origin->pool && (origin->has_own_key || has_key(origin, config->api_key)) &&
        has_events(origin, &events)) {
        return;
    }
    origin->pool = pool;
    set_events(origin, &events);
    if (!origin->has_own_key) {
        free_key(origin);
        origin->api_key = copy_text(config->api_key);
    }
    drop_backends(origin);
    settle(&origin->timer);
}

// Pools that there were before and are not any more must not keep their models.
static void set_pool_models(const struct roster *roster)
{
    static const struct config_list none;

    for (uint32_t i = 0; i < fleet_pool_count_max; i++) {
        const struct config_list *models =
            i < roster->config->pool_count ? &roster->config->pools[i].models : &none;
        fleet_set_pool_models(roster->fleet, i, (const char *const *)models->items, models->count);
    }
}

void roster_set_config(struct roster *roster, const struct config *config)
{
    roster->config = config;
    for (struct origin *origin = roster->origins; origin != NULL; origin = origin->next) {
        origin->in_new_config = false;
    }
    set_pool_models(roster);
    for (uint32_t i = 0; i < config->backend_count; i++) {
        apply(roster, &config->backends[i]);
    }
    struct origin *origin = roster->origins;
    while (origin != NULL) {
        struct origin *next = origin->next;
        if (!origin->from_config) {
            keep_added(origin);
        } else if (!origin->in_new_config) {
            origin_remove(origin);
        }
        origin = next;
    }
    roster->changed(roster->owner);
}

struct roster *roster_create(const struct roster_options *options)
{
    struct roster *roster = calloc(1, sizeof(*roster));
    if (roster == NULL) {
        return NULL;
    }
    *roster = (struct roster){
        .loop = options->loop,
        .fleet = options->fleet,
        .prober = options->prober,
        .scraper = options->scraper,
        .poller = options->poller,
        .changed = options->changed,
        .owner = options->owner,
    };
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
    dns_destroy(&roster->dns); // drops the open queries: nobody comes back for those that are gone
    while (roster->gone != NULL) {
        struct origin *origin = roster->gone;
        roster->gone = origin->next;
        origin_free(origin);
    }
    while (roster->origins != NULL) {
        struct origin *origin = roster->origins;
        origin->is_resolving = false;
        origin_remove(origin);
    }
    free(roster);
}

// Names that are gone count until their queries have come back.
static bool is_full(const struct roster *roster)
{
    uint32_t count = 0;
    for (const struct origin *origin = roster->origins; origin != NULL; origin = origin->next) {
        count++;
    }
    for (const struct origin *origin = roster->gone; origin != NULL; origin = origin->next) {
        count++;
    }
    return count >= roster->config->limits.backends;
}

enum status roster_add(struct roster *roster, const struct config_backend *spec,
                       struct backend **out)
{
    if (origin_find(roster, spec->url) != NULL) {
        return STATUS_MALFORMED;
    }
    if (is_full(roster)) {
        return STATUS_EXHAUSTED;
    }
    struct origin *origin = origin_add(roster, spec);
    if (!origin->is_name && origin->backend_count < origin->ranks) {
        origin_remove(origin);
        return STATUS_EXHAUSTED;
    }
    *out = origin->backend_count > 0 ? origin->backends[0] : NULL;
    roster->changed(roster->owner);
    return STATUS_OK;
}

static bool origin_owns(const struct origin *origin, const struct backend *backend)
{
    for (uint32_t i = 0; i < origin->backend_count; i++) {
        if (origin->backends[i] == backend) {
            return true;
        }
    }
    return false;
}

// `origin` may be NULL.
static enum status remove_if_ours(struct roster *roster, struct origin *origin)
{
    if (origin == NULL || (origin->is_name && origin->from_config)) {
        return STATUS_MALFORMED;
    }
    origin_remove(origin);
    roster->changed(roster->owner);
    return STATUS_OK;
}

enum status roster_remove(struct roster *roster, struct backend *backend)
{
    struct origin *origin = roster->origins;
    while (origin != NULL && !origin_owns(origin, backend)) {
        origin = origin->next;
    }
    return remove_if_ours(roster, origin);
}

bool roster_has(const struct roster *roster, const char *url)
{
    return origin_find(roster, url) != NULL;
}

enum status roster_remove_url(struct roster *roster, const char *url)
{
    return remove_if_ours(roster, origin_find(roster, url));
}

bool roster_has_resolved_all(const struct roster *roster)
{
    for (const struct origin *origin = roster->origins; origin != NULL; origin = origin->next) {
        if (!origin->has_resolved) {
            return false;
        }
    }
    return true;
}
