// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "base/text.h"
#include "cluster/mesh_internal.h"
#include "config/endpoint.h"
#include "net/dns_service.h"
#include "net/tcp.h"
#include "sys/log.h"

enum {
    resolve_min_ms = 1000, // however short records live
    resolve_retry_ms = 2000,
};

const char *mesh_name_parse(struct mesh_name *name, const char *text)
{
    struct config_endpoint parts;
    struct address literal;
    const char *wrong = config_peer_split(slice_str(text), &parts);

    if (wrong != NULL) {
        return wrong;
    }
    ASSERT(parts.host.size < sizeof(name->host)); // a name has at most 253 bytes
    memcpy(name->host, parts.host.bytes, parts.host.size);
    name->host[parts.host.size] = '\0';
    name->port = parts.port;
    name->is_literal =
        name->port != 0 && address_from_literal(name->host, name->port, &literal) == STATUS_OK;
    struct text copy = text_over(name->text, sizeof(name->text) - 1);
    text_add(&copy, slice_of(text, strnlen(text, sizeof(name->text) - 1)));
    name->text[copy.size] = '\0';
    return NULL;
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
        if (name->port == 0) {
            dns_resolve_service(name->link->dns, name->host, mesh_name_resolved, name);
        } else {
            dns_resolve(name->link->dns, name->host, name->port, mesh_name_resolved, name);
        }
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
