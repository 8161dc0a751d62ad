// SPDX-License-Identifier: Apache-2.0

#include "discovery/dns_source.h"

#include "base/base.h"
#include "config/config.h"
#include "net/dns.h"
#include "sys/log.h"
#include "sys/loop.h"

#include <stdlib.h>

enum { dns_retry_ms = 2000 };

struct dns_name {
    struct dns_source *source;
    struct dns_name *next_leaving;
    char *host;
    uint16_t port;
    dns_name_found_fn *found;
    void *owner;
    struct timer timer;
    uint32_t known_count; // addresses that were told last
    bool is_resolving;
    bool has_resolved;
    bool has_failed; // logged
    bool is_left;    // freed when its query ends
};

struct dns_source {
    struct loop *loop;
    const struct config *config;
    struct dns *dns; // made when the first name needs it
    struct dns_name *leaving;
};

struct dns_source *dns_source_create(struct loop *loop)
{
    struct dns_source *source = calloc(1, sizeof(*source));
    if (source != NULL) {
        source->loop = loop;
    }
    return source;
}

static void dns_name_free(struct dns_name *name)
{
    free(name->host);
    free(name);
}

void dns_source_destroy(struct dns_source **source_ptr)
{
    struct dns_source *source = *source_ptr;
    *source_ptr = NULL;

    if (source == NULL) {
        return;
    }
    dns_destroy(&source->dns); // drops the open queries
    while (source->leaving != NULL) {
        struct dns_name *name = source->leaving;
        source->leaving = name->next_leaving;
        dns_name_free(name);
    }
    free(source);
}

void dns_source_set_config(struct dns_source *source, const struct config *config)
{
    source->config = config;
}

uint32_t dns_source_leaving_count(const struct dns_source *source)
{
    uint32_t count = 0;
    for (const struct dns_name *name = source->leaving; name != NULL; name = name->next_leaving) {
        count++;
    }
    return count;
}

static void dns_name_end_leaving(struct dns_name *name)
{
    struct dns_name **link = &name->source->leaving;
    while (*link != name) {
        link = &(*link)->next_leaving;
    }
    *link = name->next_leaving;
    dns_name_free(name);
}

// Returns when to resolve the name again.
static uint32_t dns_name_take(struct dns_name *name, const struct dns_answer *answer)
{
    const struct config *config = name->source->config;
    uint32_t wait_ms = answer->ttl_ms;

    name->has_failed = false;
    name->known_count = answer->address_count;
    wait_ms = wait_ms < config->dns.ttl_min ? config->dns.ttl_min : wait_ms;
    wait_ms = wait_ms > config->dns.ttl_max ? config->dns.ttl_max : wait_ms;
    bool all_fit = name->found(name->owner, answer->addresses, answer->address_count);
    return all_fit || wait_ms < dns_retry_ms ? wait_ms : dns_retry_ms;
}

static void dns_name_done(void *owner, const struct dns_answer *answer)
{
    struct dns_name *name = owner;
    uint32_t wait_ms = dns_retry_ms;

    name->is_resolving = false;
    name->has_resolved = true;
    if (name->is_left) {
        dns_name_end_leaving(name);
        return;
    }
    if (answer->status == STATUS_OK) {
        wait_ms = dns_name_take(name, answer);
    } else if (!name->has_failed) {
        name->has_failed = true;
        log_warn_seldom((uintptr_t)name, "dns %s: not resolved: %s; %u known addresses stay",
                        name->host, answer->why, name->known_count);
    }
    loop_arm(name->source->loop, &name->timer, wait_ms);
}

void dns_name_resolve(struct dns_name *name)
{
    struct dns_source *source = name->source;
    char servers[config_dns_servers_size];

    loop_disarm(source->loop, &name->timer);
    if (name->is_resolving) {
        return;
    }
    if (source->dns == NULL) {
        struct dns_options options = {.servers = config_dns_servers(source->config, servers)};
        if (dns_create(source->loop, &options, &source->dns) != STATUS_OK) {
            log_error_seldom((uintptr_t)name, "dns %s: not resolved: resolver setup failed",
                             name->host);
            loop_arm(source->loop, &name->timer, dns_retry_ms);
            return;
        }
    }
    name->is_resolving = true;
    dns_resolve(source->dns, name->host, name->port, dns_name_done, name);
}

static void dns_name_fire(struct timer *timer)
{
    dns_name_resolve(CONTAINER_OF(timer, struct dns_name, timer));
}

struct dns_name *dns_name_follow(struct dns_source *source, const char *host, uint16_t port,
                                 dns_name_found_fn *found, void *owner)
{
    struct dns_name *name = calloc(1, sizeof(*name));
    ASSERT(name != NULL);
    *name = (struct dns_name){
        .source = source,
        .host = strdup(host),
        .port = port,
        .found = found,
        .owner = owner,
        .timer.fire = dns_name_fire,
    };
    ASSERT(name->host != NULL);
    return name;
}

void dns_name_leave(struct dns_name **name_ptr)
{
    struct dns_name *name = *name_ptr;
    *name_ptr = NULL;

    if (name == NULL) {
        return;
    }
    loop_disarm(name->source->loop, &name->timer);
    if (name->is_resolving) {
        name->is_left = true;
        name->next_leaving = name->source->leaving;
        name->source->leaving = name;
    } else {
        dns_name_free(name);
    }
}

bool dns_name_has_resolved(const struct dns_name *name)
{
    return name->has_resolved;
}
