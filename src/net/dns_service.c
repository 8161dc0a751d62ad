// SPDX-License-Identifier: Apache-2.0

#include "net/dns_service.h"

#include "base/base.h"
#include "net/dns_internal.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    class_internet = 1, // RFC 1035, section 3.2.4
    type_srv = 33,      // RFC 2782
    header_size = 12,   // RFC 1035, section 4.1.1
    fixed_size = 10,    // of a record, between its name and its data
    target_size_max = 1025,
};

// The owner of its open queries.  Freed after `done`, or by dns_destroy.
struct dns_service {
    struct dns *dns;
    struct dns_service *next; // of dns->services
    dns_done_fn *done;
    void *owner;
    uint32_t pending_count; // open targets, plus one while service_ask_targets runs
    struct dns_answer answer;
};

// The records that are used, in order of their priority.  They belong to c-ares.
struct service_records {
    const struct ares_srv_reply *items[dns_service_record_count_max];
    uint32_t count;
};

static void service_end(struct dns_service *service)
{
    struct dns_service **link = &service->dns->services;

    while (*link != service) {
        link = &(*link)->next;
    }
    *link = service->next;
    service->done(service->owner, &service->answer);
    free(service);
}

static void service_fail(struct dns_service *service, enum status status, const char *why)
{
    service->answer = (struct dns_answer){.status = status, .why = why};
}

// One of the pending is done.
static void service_settle(struct dns_service *service)
{
    service->pending_count--;
    if (service->pending_count > 0) {
        return;
    }
    if (service->answer.status == STATUS_OK && service->answer.address_count == 0) {
        service_fail(service, STATUS_CLOSED, "no target of the service has an address");
    }
    service_end(service);
}

static void service_target_done(void *owner, const struct dns_answer *target)
{
    struct dns_service *service = owner;
    struct dns_answer *answer = &service->answer;

    if (target->status == STATUS_CLOSED) {
        dns_ttl_shorten(&answer->ttl_ms, 0);
    } else if (target->status != STATUS_OK && answer->status == STATUS_OK) {
        service_fail(service, target->status, target->why);
    }
    if (answer->status == STATUS_OK && target->status == STATUS_OK) {
        for (uint32_t i = 0; i < target->address_count; i++) {
            dns_answer_insert(answer, &target->addresses[i]);
        }
        answer->ttl_ms = target->ttl_ms < answer->ttl_ms ? target->ttl_ms : answer->ttl_ms;
    }
    service_settle(service);
}

// By priority, then by host and port: servers rotate records, and the choice must stay the same.
static int service_record_compare(const struct ares_srv_reply *a, const struct ares_srv_reply *b)
{
    if (a->priority != b->priority) {
        return a->priority < b->priority ? -1 : 1;
    }
    int order = strcasecmp(a->host, b->host);
    return order != 0 ? order : (int)a->port - (int)b->port;
}

// Keeps the list sorted.  When it is full, the last in order is dropped.
static void service_records_insert(struct service_records *records,
                                   const struct ares_srv_reply *record)
{
    uint32_t at = records->count;

    while (at > 0 && service_record_compare(record, records->items[at - 1]) < 0) {
        at--;
    }
    bool is_known = at > 0 && service_record_compare(record, records->items[at - 1]) == 0;
    if (is_known || at == dns_service_record_count_max) {
        return;
    }
    if (records->count < dns_service_record_count_max) {
        records->count++;
    }
    for (uint32_t i = records->count - 1; i > at; i--) {
        records->items[i] = records->items[i - 1];
    }
    records->items[at] = record;
}

static bool service_record_is_usable(const struct ares_srv_reply *record)
{
    size_t size = strlen(record->host);
    bool is_root = size == 0 || strcmp(record->host, ".") == 0; // "not offered", RFC 2782
    return !is_root && record->port != 0 && size < target_size_max;
}

// Returns where the name at `at` ends, or `size` if it does not end in the message.
static size_t service_skip_name(const uint8_t *bytes, size_t size, size_t at)
{
    while (at < size && bytes[at] != 0) {
        if ((bytes[at] & 0xc0) == 0xc0) { // a pointer, which ends a name
            return at + 2 < size ? at + 2 : size;
        }
        at += 1U + bytes[at];
    }
    return at < size ? at + 1 : size;
}

// The parser of c-ares drops the times to live of SRV records.  It has accepted this message; if we
// still cannot read one, the default applies.
static void service_read_ttl(struct dns_answer *answer, const uint8_t *bytes, size_t size)
{
    uint32_t record_count = (uint32_t)bytes[6] << 8 | bytes[7];
    size_t at =
        service_skip_name(bytes, size, header_size) + 4; // the type and class of the question

    for (uint32_t i = 0; i < record_count; i++) {
        at = service_skip_name(bytes, size, at);
        if (at + fixed_size > size) {
            dns_ttl_shorten(&answer->ttl_ms, 0);
            return;
        }
        const uint8_t *ttl = bytes + at + 4;
        uint32_t ttl_s = (uint32_t)ttl[0] << 24 | (uint32_t)ttl[1] << 16 | (uint32_t)ttl[2] << 8 |
                         (uint32_t)ttl[3];
        dns_ttl_shorten(&answer->ttl_ms, (int)ttl_s); // with its top bit it is zero: RFC 2181
        at += fixed_size + ((size_t)bytes[at + 8] << 8 | bytes[at + 9]);
    }
}

static void service_ask_targets(struct dns_service *service, const struct service_records *records)
{
    service->pending_count = records->count + 1;
    for (uint32_t i = 0; i < records->count; i++) {
        const struct ares_srv_reply *record = records->items[i];
        char host[target_size_max + 1];
        bool is_complete = record->host[strlen(record->host) - 1] == '.';
        // With a dot at the end c-ares does not apply the search list.
        snprintf(host, sizeof(host), "%s%s", record->host, is_complete ? "" : ".");
        dns_resolve(service->dns, host, record->port, service_target_done, service);
    }
    service_settle(service);
}

static void service_asked(void *owner, int result, int timeouts, unsigned char *bytes, int size)
{
    struct dns_service *service = owner;
    struct ares_srv_reply *found = NULL;
    struct service_records records = {.count = 0};
    (void)timeouts;

    if (result == ARES_EDESTRUCTION) {
        return; // dns_service_drop_all frees it
    }
    if (result != ARES_SUCCESS) {
        service_fail(service, dns_status_of(result), ares_strerror(result));
        service_end(service);
        return;
    }
    result = ares_parse_srv_reply(bytes, size, &found);
    result = result == ARES_SUCCESS && found == NULL ? ARES_ENODATA : result;
    if (result != ARES_SUCCESS) {
        // EBADNAME is a malformed response here, which does not prove that the service is gone.
        enum status status = result == ARES_ENODATA ? STATUS_CLOSED : STATUS_IO;
        service_fail(service, status, ares_strerror(result));
        service_end(service);
        return;
    }
    service_read_ttl(&service->answer, bytes, (size_t)size);
    for (const struct ares_srv_reply *record = found; record != NULL; record = record->next) {
        if (service_record_is_usable(record)) {
            service_records_insert(&records, record);
        }
    }
    if (records.count == 0) {
        service_fail(service, STATUS_CLOSED, "the service is not offered");
        service_end(service);
    } else {
        service_ask_targets(service, &records);
    }
    ares_free_data(found);
}

void dns_resolve_service(struct dns *dns, const char *name, dns_done_fn *done, void *owner)
{
    struct dns_service *service = calloc(1, sizeof(*service));
    if (service == NULL) {
        struct dns_answer answer = {.status = STATUS_EXHAUSTED, .why = "no memory"};
        done(owner, &answer);
        return;
    }
    *service = (struct dns_service){
        .dns = dns,
        .next = dns->services,
        .done = done,
        .owner = owner,
        .answer = {.why = "", .ttl_ms = dns_ttl_max_ms},
    };
    dns->services = service;
    dns_enter(dns);
    ares_query(dns->channel, name, class_internet, type_srv, service_asked, service);
    dns_leave(dns);
}

void dns_service_drop_all(struct dns *dns)
{
    while (dns->services != NULL) {
        struct dns_service *service = dns->services;
        dns->services = service->next;
        free(service);
    }
}
