// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "base/text.h"
#include "cluster/mesh_internal.h"
#include "net/dns.h"
#include "net/tcp.h"
#include "sys/log.h"

enum {
    resolve_min_ms = 1000, // however short records live
    resolve_retry_ms = 2000,
};

static bool mesh_host_is_good(struct slice host)
{
    for (size_t i = 0; i < host.size; i++) {
        uint8_t byte = ascii_lower(host.bytes[i]);
        bool is_good = (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') ||
                       byte == '-' || byte == '_' || byte == '.';
        if (!is_good) {
            return false;
        }
    }
    return host.size > 0 && host.size <= 253; // RFC 1035, section 2.3.4, as text
}

enum status mesh_name_parse(struct mesh_name *name, const char *text)
{
    const char *colon = strrchr(text, ':');
    struct address literal;
    uint64_t port;

    if (colon == NULL || !slice_parse_u64(slice_str(colon + 1), &port) || port == 0 ||
        port > UINT16_MAX) {
        return STATUS_MALFORMED;
    }
    struct slice host = slice_of(text, (size_t)(colon - text));
    bool is_bracketed = host.size > 2 && host.bytes[0] == '[' && host.bytes[host.size - 1] == ']';
    if (is_bracketed) {
        host = slice_of(host.bytes + 1, host.size - 2);
    }
    if (host.size == 0 || host.size >= sizeof(name->host)) {
        return STATUS_MALFORMED;
    }
    memcpy(name->host, host.bytes, host.size);
    name->host[host.size] = '\0';
    name->port = (uint16_t)port;
    name->is_literal = address_from_literal(name->host, name->port, &literal) == STATUS_OK;
    struct text copy = text_over(name->text, sizeof(name->text) - 1);
    text_add(&copy, slice_of(text, strnlen(text, sizeof(name->text) - 1)));
    name->text[copy.size] = '\0';
    bool is_v6 = strchr(name->host, ':') != NULL;
    bool is_good = is_v6 ? name->is_literal : name->is_literal || mesh_host_is_good(host);
    return is_good && is_v6 == is_bracketed ? STATUS_OK : STATUS_MALFORMED;
}

static uint32_t mesh_name_index(const struct mesh_name *name)
{
    return (uint32_t)(name - name->link->names);
}

static void mesh_name_resolved(void *owner, const struct dns_answer *answer)
{
    struct mesh_name *name = owner;
    uint32_t wait_ms = resolve_retry_ms;

    name->is_resolving = false;
    if (answer->status == STATUS_OK) {
        name->said.count = 0;
        wait_ms = answer->ttl_ms > resolve_min_ms ? answer->ttl_ms : resolve_min_ms;
        mesh_dial_set(name->link, mesh_name_index(name), answer->addresses, answer->address_count);
    } else if (mesh_said_is_new(&name->said, answer->why)) {
        log_warn("cluster: peer %s: not resolved: %s", name->text, answer->why);
    }
    // The servers say that there are none; without a word from them, known addresses stay.
    if (answer->status == STATUS_CLOSED) {
        mesh_dial_set(name->link, mesh_name_index(name), NULL, 0);
    }
    loop_arm(name->link->loop, &name->timer, wait_ms);
}

static void mesh_name_fire(struct timer *timer)
{
    struct mesh_name *name = CONTAINER_OF(timer, struct mesh_name, timer);

    if (name->is_literal) {
        struct address literal;
        enum status status = address_from_literal(name->host, name->port, &literal);
        ASSERT(status == STATUS_OK); // as it was when it was parsed
        mesh_dial_set(name->link, mesh_name_index(name), &literal, 1);
    } else if (!name->is_resolving) {
        name->is_resolving = true;
        dns_resolve(name->link->dns, name->host, name->port, mesh_name_resolved, name);
    }
}

void mesh_name_start(struct mesh_name *name)
{
    name->timer.fire = mesh_name_fire;
    loop_arm(name->link->loop, &name->timer, 0);
}

void mesh_name_stop(struct mesh_name *name)
{
    loop_disarm(name->link->loop, &name->timer);
}
