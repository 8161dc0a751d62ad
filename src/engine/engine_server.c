// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_server.h"

#include "base/base.h"
#include "base/hash.h"
#include "base/text.h"
#include "engine/engine_site_internal.h"
#include "net/tcp.h"
#include "sys/mutex.h"
#include "sys/thread.h"

#include <stdio.h>
#include <stdlib.h>

// An order for every site of a thread.
struct order {
    struct order *next;
    bool is_clear;
    size_t size;
    uint8_t body[];
};

struct engine_crew {
    struct engine_group group;
    struct engine_server *server;
    struct thread *thread;
    uint32_t index;
    struct mutex mutex;   // of the orders, which any crew adds and this one takes
    struct order *orders; // the oldest first
    struct order **orders_end;
};

struct engine_server {
    struct engine_server_options options;
    struct profile profile;
    struct engine_site *sites;
    struct engine_crew *crews;
    uint32_t crew_count;
    uint32_t site_count;
};

static struct engine_site *site_of(const struct engine_crew *crew, uint32_t number)
{
    uint32_t index = crew->index + number * crew->server->crew_count;
    return index < crew->server->site_count ? &crew->server->sites[index] : NULL;
}

static void site_apply_order(struct engine_site *site, const struct order *order)
{
    char error[engine_faults_error_size];
    if (order->is_clear) {
        engine_site_clear_faults(site);
        return;
    }
    // The site that sent it has checked the body.
    enum status status = engine_site_order(site, slice_of(order->body, order->size), error);
    ASSERT(status == STATUS_OK);
}

static void crew_apply_order(struct engine_crew *crew, const struct order *order)
{
    struct engine_site *site = NULL;
    for (uint32_t i = 0; (site = site_of(crew, i)) != NULL; i++) {
        site_apply_order(site, order);
    }
}

static struct order *crew_take_orders(struct engine_crew *crew)
{
    mutex_lock(&crew->mutex);
    struct order *oldest = crew->orders;
    crew->orders = NULL;
    crew->orders_end = &crew->orders;
    mutex_unlock(&crew->mutex);
    return oldest;
}

static void crew_turn(void *owner)
{
    struct engine_crew *crew = owner;
    struct order *order = crew_take_orders(crew);
    while (order != NULL) {
        struct order *next = order->next;
        crew_apply_order(crew, order);
        free(order);
        order = next;
    }
}

static void crew_send_order(struct engine_crew *crew, struct slice body, bool is_clear)
{
    struct order *order = malloc(sizeof(*order) + body.size);
    ASSERT(order != NULL);
    order->is_clear = is_clear;
    order->size = body.size;
    if (body.size > 0) {
        memcpy(order->body, body.bytes, body.size);
    }
    order->next = NULL;
    mutex_lock(&crew->mutex);
    *crew->orders_end = order;
    crew->orders_end = &order->next;
    mutex_unlock(&crew->mutex);
    loop_wake(crew->group.loop);
}

static void tell_all(void *owner, struct slice body, bool is_clear)
{
    const struct engine_crew *crew = owner;
    for (uint32_t i = 0; i < crew->server->crew_count; i++) {
        crew_send_order(&crew->server->crews[i], body, is_clear);
    }
}

static void crew_run(void *owner)
{
    struct engine_crew *crew = owner;
    loop_run(crew->group.loop, crew_turn, crew);
}

static enum status crew_init(struct engine_crew *crew, struct engine_server *server, uint32_t index)
{
    struct engine_group *group = &crew->group;

    crew->server = server;
    crew->index = index;
    crew->orders_end = &crew->orders;
    mutex_init(&crew->mutex);
    group->tell_all = tell_all;
    group->owner = crew;
    group->scratch_size = 65536 + engine_response_document_room(server->profile.context_max) +
                          (size_t)server->options.rank_count * engine_metrics_rank_room;
    group->scratch = malloc(group->scratch_size);
    group->reader = prompt_reader_create();
    if (group->scratch == NULL || group->reader == NULL) {
        return STATUS_EXHAUSTED;
    }
    return loop_create(&group->loop);
}

static void crew_fini(struct engine_crew *crew)
{
    struct engine_site *site = NULL;

    if (crew->group.loop != NULL) {
        for (uint32_t i = 0; (site = site_of(crew, i)) != NULL; i++) {
            engine_site_disconnect(site);
        }
        // Runs work deferred to the end of a turn.
        loop_turn(crew->group.loop, 0);
        for (uint32_t i = 0; (site = site_of(crew, i)) != NULL; i++) {
            engine_site_close(site);
        }
        loop_turn(crew->group.loop, 0);
    }
    for (struct order *order = crew_take_orders(crew); order != NULL;) {
        struct order *next = order->next;
        free(order);
        order = next;
    }
    mutex_fini(&crew->mutex);
    loop_destroy(&crew->group.loop);
    prompt_reader_destroy(&crew->group.reader);
    free(crew->group.scratch);
}

static enum status start_all(struct engine_server *server, char error[engine_server_error_size])
{
    enum status status = STATUS_OK;

    snprintf(error, engine_server_error_size, "memory or descriptors are short");
    server->sites = calloc(server->options.count, sizeof(struct engine_site));
    server->crews = calloc(server->crew_count, sizeof(struct engine_crew));
    if (server->sites == NULL || server->crews == NULL) {
        return STATUS_EXHAUSTED;
    }
    for (uint32_t i = 0; i < server->crew_count && status == STATUS_OK; i++) {
        status = crew_init(&server->crews[i], server, i);
    }
    for (uint32_t i = 0; i < server->options.count && status == STATUS_OK; i++) {
        status = engine_site_open(&server->sites[i], &server->crews[i % server->crew_count].group,
                                  &server->options, i, error);
        server->site_count += status == STATUS_OK;
    }
    for (uint32_t i = 0; i < server->crew_count && status == STATUS_OK; i++) {
        status = thread_start("engines", crew_run, &server->crews[i], &server->crews[i].thread);
    }
    return status;
}

enum status engine_server_start(const struct engine_server_options *options,
                                struct engine_server **out, char error[engine_server_error_size])
{
    ASSERT(options->count > 0 && options->count <= engine_server_count_max);
    ASSERT(options->thread_count > 0 && options->thread_count <= engine_server_thread_max);
    ASSERT(options->rank_count > 0 && options->rank_count <= engine_server_rank_max);
    ASSERT(options->speed > 0);

    struct engine_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        snprintf(error, engine_server_error_size, "memory is short");
        return STATUS_EXHAUSTED;
    }
    server->options = *options;
    server->profile = *options->profile;
    server->options.profile = &server->profile;
    server->crew_count =
        options->thread_count < options->count ? options->thread_count : options->count;
    enum status status = start_all(server, error);
    if (status != STATUS_OK) {
        engine_server_stop(&server);
        return status;
    }
    *out = server;
    return STATUS_OK;
}

void engine_server_stop(struct engine_server **server_ptr)
{
    struct engine_server *server = *server_ptr;
    *server_ptr = NULL;

    if (server == NULL) {
        return;
    }
    for (uint32_t i = 0; server->crews != NULL && i < server->crew_count; i++) {
        if (server->crews[i].thread != NULL) {
            loop_stop(server->crews[i].group.loop);
            thread_join(&server->crews[i].thread);
        }
    }
    for (uint32_t i = 0; server->crews != NULL && i < server->crew_count; i++) {
        crew_fini(&server->crews[i]);
    }
    free(server->crews);
    free(server->sites);
    free(server);
}

void engine_server_write_address(const struct engine_server *server, uint32_t index,
                                 struct text *out)
{
    ASSERT(index < server->site_count);
    address_format(&server->sites[index].address, out);
}
