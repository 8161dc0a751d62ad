// SPDX-License-Identifier: Apache-2.0

#include "feed/certifier.h"

#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "dialect/certify.h"
#include "feed/backend_peer.h"
#include "fleet/fleet.h"
#include "net/tls.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/loop.h"

#include <stdlib.h>

enum {
    // How often it looks for a backend to examine.
    look_ms = 100,
    question_timeout_ms = 10000,
    // Templates may print the date: no examination runs over midnight.
    examination_max_s = 30,
    question_size_max = 65536,
    // Of a case after rendering.
    text_size_max = 65536,
};

// The state of one backend and one dialect.
struct record {
    uint64_t id; // of the backend; 0: never asked
    uint32_t life;
    bool is_examined;
    bool has_complained;
    bool has_result;   // of this life or an earlier one
    uint32_t result;   // features
    uint64_t again_ms; // not before
};

struct certifier {
    struct certifier_options options;
    struct timer timer;
    struct tls_context *tls; // made when first needed
    struct token_thread *thread;
    struct token_reader *reader;
    struct record *records[dialect_max]; // by slot of the backend
    uint32_t slot_count;
    uint8_t *question_space;

    // The present examination.
    struct fetch *fetch;
    struct certify certify;
    struct certify_question question;
    uint64_t backend_id; // 0: no examination
    uint32_t dialect;
};

static void certifier_look(struct timer *timer);

struct certifier *certifier_create(const struct certifier_options *options)
{
    struct certifier *certifier = calloc(1, sizeof(*certifier));
    if (certifier == NULL) {
        return NULL;
    }
    certifier->options = *options;
    certifier->timer.fire = certifier_look;
    certifier->slot_count = options->config->limits.backends;
    certifier->thread = token_thread_create(options->set, options->thread);
    certifier->reader =
        certifier->thread != NULL ? token_reader_create(certifier->thread, text_size_max) : NULL;
    certifier->question_space = malloc(question_size_max);
    bool complete = certifier->reader != NULL && certifier->question_space != NULL;
    for (uint32_t i = 0; complete && i < options->set->count; i++) {
        certifier->records[i] = calloc(certifier->slot_count, sizeof(struct record));
        complete = certifier->records[i] != NULL;
    }
    if (!complete) {
        certifier_destroy(&certifier);
        return NULL;
    }
    loop_arm(options->loop, &certifier->timer, 0);
    return certifier;
}

void certifier_destroy(struct certifier **certifier_ptr)
{
    struct certifier *certifier = *certifier_ptr;
    *certifier_ptr = NULL;

    if (certifier == NULL) {
        return;
    }
    fetch_cancel(&certifier->fetch);
    loop_disarm(certifier->options.loop, &certifier->timer);
    tls_context_destroy(&certifier->tls);
    token_reader_destroy(&certifier->reader);
    token_thread_destroy(&certifier->thread);
    for (uint32_t i = 0; i < dialect_max; i++) {
        free(certifier->records[i]);
    }
    free(certifier->question_space);
    free(certifier);
}

void certifier_set_config(struct certifier *certifier, const struct config *config)
{
    certifier->options.config = config;
    tls_context_destroy(&certifier->tls); // backend_tls may have changed
}

static struct dialect *certifier_dialect(const struct certifier *certifier)
{
    return certifier->options.set->dialects[certifier->dialect];
}

static struct record *record_of(const struct certifier *certifier, uint32_t dialect,
                                const struct backend *backend)
{
    return backend->slot < certifier->slot_count ? &certifier->records[dialect][backend->slot]
                                                 : NULL;
}

// The name under which the backend serves a model of the dialect.  False: it serves none of its
// models.
static bool model_of(const struct certifier *certifier, const struct dialect *dialect,
                     const struct backend *backend, struct slice *out)
{
    const struct fleet *fleet = certifier->options.fleet;
    const char *name;

    // Its models are unknown, and models.learn is off.
    if (fleet_model_name(fleet, backend, 0) == NULL && !certifier->options.config->models.learn) {
        *out = dialect->model_count > 0 ? dialect->models[0] : (struct slice){0};
        return true;
    }
    for (uint32_t i = 0; (name = fleet_model_name(fleet, backend, i)) != NULL; i++) {
        if (dialect_speaks_for(dialect, slice_str(name))) {
            *out = slice_str(name);
            return true;
        }
    }
    return false;
}

static uint32_t life_of(const struct backend *backend)
{
    return atomic_load_explicit(&backend->shared.lives, memory_order_relaxed);
}

static bool certifier_is_due(const struct certifier *certifier, const struct record *record,
                             const struct backend *backend)
{
    bool is_another = record->id != backend->id || record->life != life_of(backend);
    bool is_time = loop_now_ms(certifier->options.loop) >= record->again_ms;
    bool is_first_rank = backend->server == backend->id; // other ranks are the same process
    return is_first_rank && (is_another || (!record->is_examined && is_time));
}

static void certifier_log_failure(struct certifier *certifier, const struct backend *backend,
                                  struct record *record, const char *why)
{
    if (!record->has_complained) {
        log_warn_seldom(
            backend->id,
            "tokenizer %s: backend %s cannot be asked for its tokens: %s; its models are routed by "
            "text until a backend can",
            certifier_dialect(certifier)->name, backend->url, why);
    }
    record->has_complained = true;
}

// The features on which all examined backends of the fleet agree.
static uint32_t certify_by_all(const struct certifier *certifier, uint32_t index)
{
    uint32_t common = 0;
    bool is_first = true;
    struct backend *backend;

    for (uint32_t i = 0; (backend = fleet_at(certifier->options.fleet, i)) != NULL; i++) {
        const struct record *record = record_of(certifier, index, backend);
        if (record != NULL && record->id == backend->id && record->has_result) {
            common = is_first ? record->result : common & record->result;
            is_first = false;
        }
    }
    struct dialect *dialect = certifier->options.set->dialects[index];
    atomic_store_explicit(&dialect->shared.certified, common, memory_order_relaxed);
    return common;
}

static void certifier_conclude(struct certifier *certifier, const struct backend *backend)
{
    const struct certify *certify = &certifier->certify;
    struct dialect *dialect = certifier_dialect(certifier);
    struct record *record = record_of(certifier, certifier->dialect, backend);
    char space[1024];
    struct text names = text_over(space, sizeof(space));

    record->has_result = true;
    record->result = certify_result(certify);
    uint32_t after = certify_by_all(certifier, certifier->dialect);
    dialect_add_shapes(after, &names);
    if (certify->differed_count > 0) {
        log_warn_seldom(
            backend->id,
            "tokenizer %s: backend %s computes other tokens in %u of %u cases: %s; certified for: "
            "%.*s; everything else is routed by text",
            dialect->name, backend->url, certify->differed_count,
            certify->differed_count + certify->agreed_count, certify->why,
            after == 0 ? 7 : (int)names.size, after == 0 ? "nothing" : space);
    } else {
        log_info_seldom(backend->id,
                        "tokenizer %s: backend %s agrees in %u cases; certified for: %.*s",
                        dialect->name, backend->url, certify->agreed_count, (int)names.size, space);
    }
}

// `why` is NULL when the examination is complete.
static void certifier_end(struct certifier *certifier, const char *why)
{
    struct backend *backend = fleet_find(certifier->options.fleet, certifier->backend_id);

    certifier->backend_id = 0;
    if (backend != NULL) {
        struct record *record = record_of(certifier, certifier->dialect, backend);
        record->is_examined = why == NULL;
        record->again_ms = loop_now_ms(certifier->options.loop) +
                           certifier->options.config->tokens.certify_interval;
        if (why != NULL) {
            certifier_log_failure(certifier, backend, record, why);
        } else {
            certifier_conclude(certifier, backend);
        }
    }
    if (certifier->options.saw_end != NULL) {
        certifier->options.saw_end(certifier->options.owner, &certifier->certify, why);
    }
    loop_arm(certifier->options.loop, &certifier->timer, 0);
}

static void certifier_ask(struct certifier *certifier);

static void certifier_tell_case(const struct certifier *certifier, enum certify_verdict verdict)
{
    static const char *const words[] = {
        [CERTIFY_AGREED] = "agrees",
        [CERTIFY_DIFFERED] = "differs",
        [CERTIFY_SKIPPED] = "skipped",
    };
    if (certifier->options.saw_case != NULL && verdict <= CERTIFY_SKIPPED) {
        certifier->options.saw_case(certifier->options.owner, certifier->question.name,
                                    words[verdict],
                                    verdict == CERTIFY_AGREED ? "" : certifier->certify.why);
    }
}

static void certifier_heard(void *owner, const struct fetch_result *result)
{
    struct certifier *certifier = owner;

    certifier->fetch = NULL;
    if (result->status == 0) {
        certifier_end(certifier, result->why);
        return;
    }
    enum certify_verdict verdict =
        certify_response(&certifier->certify, result->status, result->body);
    certifier_tell_case(certifier, verdict);
    if (verdict == CERTIFY_IMPOSSIBLE) {
        certifier_end(certifier, certifier->certify.why);
        return;
    }
    certifier_ask(certifier);
}

static void certifier_ask(struct certifier *certifier)
{
    struct text space = text_over(certifier->question_space, question_size_max);
    const struct backend *backend = fleet_find(certifier->options.fleet, certifier->backend_id);

    if (backend == NULL) {
        certifier_end(certifier, "it was removed");
        return;
    }
    if (!certify_question(&certifier->certify, &space, &certifier->question)) {
        bool was_asked = certifier->certify.agreed_count + certifier->certify.differed_count > 0;
        certifier_end(certifier, was_asked ? NULL : "it refuses every case");
        return;
    }
    struct fetch_peer peer = backend_peer(backend);
    certifier->fetch = fetch_start(&(struct fetch_options){
        .loop = certifier->options.loop,
        .peer = &peer,
        .tls = backend_peer_tls(&peer, certifier->options.config, &certifier->tls),
        .path = certifier->question.path,
        .body = certifier->question.body,
        .timeout_ms = question_timeout_ms,
        .done = certifier_heard,
        .owner = certifier,
    });
    if (certifier->fetch == NULL) {
        certifier_end(certifier, "out of memory or file descriptors");
    }
}

// Begins the examination of a backend that is due; false when there is none to examine.
static bool certifier_begin(struct certifier *certifier, uint32_t index)
{
    const struct dialect_set *set = certifier->options.set;
    struct backend *backend;
    uint64_t wall_s = clock_wall_ms() / 1000;

    for (uint32_t i = 0; (backend = fleet_at(certifier->options.fleet, i)) != NULL; i++) {
        struct record *record = record_of(certifier, index, backend);
        struct slice model = {0};
        if (record == NULL || !certifier_is_due(certifier, record, backend) ||
            backend_tier(backend, loop_now_ms(certifier->options.loop)) == BACKEND_DOWN ||
            !model_of(certifier, set->dialects[index], backend, &model) ||
            dialect_is_midnight(set->dialects[index], wall_s, examination_max_s)) {
            continue;
        }
        if (record->id != backend->id) {
            *record = (struct record){.id = backend->id};
        }
        record->life = life_of(backend);
        record->is_examined = false;
        certifier->backend_id = backend->id;
        certifier->dialect = index;
        certify_begin(&certifier->certify, set->dialects[index], certifier->reader, model, wall_s);
        certifier_ask(certifier);
        return true;
    }
    return false;
}

static void certifier_look(struct timer *timer)
{
    struct certifier *certifier = CONTAINER_OF(timer, struct certifier, timer);
    const struct dialect_set *set = certifier->options.set;

    loop_arm(certifier->options.loop, timer, look_ms);
    for (uint32_t i = 0; certifier->backend_id == 0 && i < set->count; i++) {
        if (set->dialects[i]->is_trusted) {
            continue;
        }
        certify_by_all(certifier, i); // backends may have been removed
        if (certifier_begin(certifier, i)) {
            return;
        }
    }
}
