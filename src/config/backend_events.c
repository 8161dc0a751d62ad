// SPDX-License-Identifier: Apache-2.0

#include "config/backend_events.h"

#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "config/endpoint.h"

bool config_events_are_polled(const char *endpoint)
{
    return strcmp(endpoint, "poll") == 0;
}

static const char *own_or_default(const char *own, const char *otherwise)
{
    const char *text = own != NULL ? own : otherwise;
    return text != NULL && strcmp(text, "none") == 0 ? NULL : text;
}

struct config_events config_backend_events(const struct config *config,
                                           const struct config_backend *backend)
{
    struct config_events events = {
        .endpoint = own_or_default(backend->events, config->events.endpoint),
        .replay = own_or_default(backend->events_replay, config->events.replay),
        .topic = backend->events_topic != NULL ? backend->events_topic : config->events.topic,
    };
    // An engine that connects to us has no endpoint, and may well have a replay.
    bool publishes = events.endpoint != NULL ? !config_events_are_polled(events.endpoint)
                                             : config->events.bind.count > 0;
    if (!publishes) {
        events.replay = NULL;
    }
    return events;
}

// The ports of one endpoint over all ranks.
static struct config_ports ports_of(const struct config_backend *backend, const char *endpoint)
{
    struct config_socket socket;

    if (endpoint == NULL || config_events_are_polled(endpoint)) {
        return (struct config_ports){0};
    }
    const char *wrong = config_socket_split(slice_str(endpoint), &socket);
    ASSERT(wrong == NULL); // the kind of the row saw to it
    if (socket.port == 0) {
        return (struct config_ports){.host = socket.path};
    }
    return (struct config_ports){
        .host = socket.host.size > 0 ? socket.host : slice_str(backend->host),
        .low = socket.port,
        .high = socket.port + backend->ranks - 1,
    };
}

static bool is_same_place(const struct config_ports *a, const struct config_ports *b)
{
    return a->host.size > 0 && a->low <= b->high && b->low <= a->high &&
           slice_equal_nocase(a->host, b->host);
}

bool config_ports_collide(const struct config_ports *a, const struct config_ports *b)
{
    return is_same_place(a, b) && slice_equal(a->topic, b->topic);
}

struct config_ports config_backend_ports(const struct config *config,
                                         const struct config_backend *backend)
{
    struct config_events events = config_backend_events(config, backend);
    struct config_ports ports = ports_of(backend, events.endpoint);
    ports.topic = events.topic != NULL ? slice_str(events.topic) : (struct slice){0};
    return ports;
}

static bool check_ranks(const struct config_backend *backend, const struct config_ports *ports,
                        struct text *why)
{
    if (ports->host.size > 0 && ports->low == 0 && backend->ranks > 1) {
        text_add_format(why, "ipc:// has no ports, and %u ranks need one each: use tcp://",
                        backend->ranks);
        return false;
    }
    if (ports->high > UINT16_MAX) {
        text_add_format(why, "port %u and %u ranks go beyond 65535", ports->low, backend->ranks);
        return false;
    }
    return true;
}

bool config_backend_events_check(const struct config *config, const struct config_backend *backend,
                                 const char **row, struct text *why)
{
    struct config_events events = config_backend_events(config, backend);
    struct config_ports ports = ports_of(backend, events.endpoint);
    struct config_ports replay = ports_of(backend, events.replay);

    *row = "events";
    if (!check_ranks(backend, &ports, why)) {
        return false;
    }
    *row = "events_replay";
    if (!check_ranks(backend, &replay, why)) {
        return false;
    }
    if (own_or_default(backend->events_replay, NULL) != NULL && events.replay == NULL) {
        text_add_str(why, "there is nothing to replay without events");
        return false;
    }
    if (!is_same_place(&ports, &replay)) {
        return true;
    }
    if (ports.low == 0) {
        text_add_str(why, "is where events are published");
    } else if (backend->ranks == 1) {
        text_add_format(why, "port %u is where events are published", replay.low);
    } else {
        text_add_format(why,
                        "with %u ranks its ports, %u to %u, overlap with those of events, "
                        "%u to %u",
                        backend->ranks, replay.low, replay.high, ports.low, ports.high);
    }
    return false;
}

struct config_events_memory config_events_memory(const struct config *config)
{
    enum { ledger_percent = 45 };
    size_t ledger = config->events.memory / 100 * ledger_percent;

    if (!config_hears_events(config)) {
        return (struct config_events_memory){0};
    }
    return (struct config_events_memory){.ledger = ledger, .names = config->events.memory - ledger};
}

bool config_hears_events(const struct config *config)
{
    bool hears = config->events.bind.count > 0 || config->admin.listen != NULL;
    for (uint32_t i = 0; !hears && i < config->backend_count; i++) {
        hears = config_backend_events(config, &config->backends[i]).endpoint != NULL;
    }
    return hears;
}
