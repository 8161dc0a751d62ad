// SPDX-License-Identifier: Apache-2.0
//
// The command `serve`: the router.  Its main thread is the keeper, which owns the configuration and
// the fleet, probes backends, handles signals and serves the admin API; workers serve clients.
//
//     SIGHUP           reload the configuration (an invalid one is ignored), reopen the recording
//     SIGUSR1          reopen the request logs, after a rotation
//     SIGTERM, SIGINT  stop accepting, finish requests in flight, exit; a second one exits at once

#include "admin/admin.h"
#include "base/base.h"
#include "base/reclaim.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "config/backend_events.h"
#include "config/config.h"
#include "config/option/command.h"
#include "config/option/command_line.h"
#include "config/option/restart.h"
#include "discovery/roster.h"
#include "feed/certifier.h"
#include "feed/kv/kv_feeder.h"
#include "feed/kv_poller.h"
#include "feed/prober.h"
#include "feed/scraper.h"
#include "feed/stall_watch.h"
#include "fleet/fleet.h"
#include "keeper/dialects.h"
#include "keeper/members.h"
#include "keeper/recording.h"
#include "knowledge/knowledge.h"
#include "net/tcp.h"
#include "proxy/proxy.h"
#include "scribe/scribe.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/loop.h"
#include "sys/process.h"
#include "sys/signals.h"
#include "sys/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    // Listening waits at most this long for the first probe of every backend.
    first_round_ms = 1000,
    tick_ms = 100,
    members_ms = 1000,
    weight_max = 256,  // as backends.weight allows
    member_max = 4096, // as many as limits.backends allows
};

struct keeper {
    struct reclaim reclaim; // the widest first: it is aligned to cache lines
    struct config_source source;
    struct config *config;
    struct config *old_config; // before the last reload, as long as a worker may see it
    struct loop *loop;
    struct fleet *fleet;
    struct prober *prober;
    struct scraper *scraper;
    struct kv_poller *poller;
    struct roster *roster;
    struct recording *recording;  // NULL: no recording
    struct dialect_set *dialects; // NULL: no model has a tokenizer
    struct certifier *certifier;  // NULL without dialects
    struct proxy *proxy;
    struct kv_feeder *feeder; // NULL: no backend publishes KV events
    struct cluster *cluster;  // NULL: this router is alone
    struct scribe *scribe;    // NULL: no log, traces or admin API
    uint64_t members_reported_ms;
    struct admin *admin;
    struct signals *signals;
    struct timer tick;
    uint64_t descriptor_count_max;
    bool fleet_changed;
    bool reload_pending;
    bool draining;
    bool stopping;
    uint64_t drain_until_ms; // UINT64_MAX: no limit
};

enum { config_line_size = 1024 };

static const char *keeper_config_line(const struct config_error *error, char line[config_line_size])
{
    struct text text = text_over(line, config_line_size - 1);
    config_error_write(error, &text);
    line[text.size] = '\0';
    return line;
}

static void keeper_set_log(const struct config *config)
{
    static const enum log_level levels[] = {
        [CONFIG_LOG_ERROR] = LOG_LEVEL_ERROR,
        [CONFIG_LOG_WARN] = LOG_LEVEL_WARN,
        [CONFIG_LOG_INFO] = LOG_LEVEL_INFO,
        [CONFIG_LOG_DEBUG] = LOG_LEVEL_DEBUG,
    };
    log_set_level(levels[config->log_level]);
    log_set_format(config->log_format == CONFIG_LOG_JSON ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT);
}

// CLOSED: KV events are off.
static enum status keeper_push_events(void *owner, uint64_t backend_id, struct slice json)
{
    struct keeper *keeper = owner;
    return keeper->feeder == NULL ? STATUS_CLOSED
                                  : kv_feeder_push(keeper->feeder, backend_id, json);
}

static void keeper_fleet_has_news(void *owner)
{
    struct keeper *keeper = owner;
    keeper->fleet_changed = true;
}

static void keeper_publish(void *owner)
{
    struct keeper *keeper = owner;
    keeper->fleet_changed = !fleet_publish(keeper->fleet);
    if (keeper->proxy != NULL) {
        proxy_wake(keeper->proxy);
    }
    if (keeper->feeder != NULL) {
        kv_feeder_wake(keeper->feeder);
    }
    if (keeper->cluster != NULL) {
        cluster_wake(keeper->cluster);
    }
}

// Publishes all changes of one turn as one view.
static void keeper_turn(void *owner)
{
    struct keeper *keeper = owner;
    if (keeper->fleet_changed) {
        keeper_publish(keeper);
    }
    if (keeper->draining && !keeper->stopping && proxy_is_drained(keeper->proxy)) {
        keeper->stopping = true;
        log_info("all requests have ended");
        loop_stop(keeper->loop);
    }
}

static void keeper_warn_of_restart(const struct config *old, const struct config *changed)
{
    char space[1024];
    struct text names = text_over(space, sizeof(space));

    config_restart_add(old, changed, &names);
    if (names.size > 0) {
        log_warn("reload: changes that take effect at the next start: %.*s", (int)names.size,
                 space);
    }
}

static void keeper_reload(struct keeper *keeper)
{
    struct config *config = NULL;
    struct config_error error;
    char line[config_line_size];
    char why[proxy_error_size];

    if (keeper->source.path == NULL) {
        if (keeper->recording == NULL) {
            log_warn(
                "SIGHUP: warmpath was started without a configuration file; nothing to reload");
        }
        return;
    }
    if (config_load(&keeper->source, &config, &error) != STATUS_OK) {
        log_error("%s; the old configuration stays in force", keeper_config_line(&error, line));
        return;
    }
    enum status status = proxy_replan(keeper->proxy, config, why);
    if (status == STATUS_AGAIN) {
        keeper->reload_pending = true; // the last change is still being taken up
        config_destroy(&config);
        return;
    }
    if (status != STATUS_OK) {
        log_error("%s; the old configuration stays in force", why);
        config_destroy(&config);
        return;
    }
    keeper_warn_of_restart(keeper->config, config);
    keeper->old_config = keeper->config; // freed when no worker sees it; see keeper_tick
    keeper->config = config;
    keeper_set_log(config);
    prober_set_config(keeper->prober, config);
    scraper_set_config(keeper->scraper, config);
    kv_poller_set_config(keeper->poller, config);
    roster_set_config(keeper->roster, config);
    if (keeper->certifier != NULL) {
        certifier_set_config(keeper->certifier, config);
    }
    if (keeper->scribe != NULL) {
        scribe_set_config(keeper->scribe, config);
    }
    if (keeper->cluster != NULL) {
        cluster_set_config(keeper->cluster, config);
    }
    log_info("configuration reloaded");
}

// Gives the chronicle the members of the fleet.
static void keeper_report_members(struct keeper *keeper)
{
    static struct chronicle_member members[member_max]; // too many for the stack
    uint32_t count = members_of(keeper->fleet, loop_now_ms(keeper->loop), members, member_max);

    chronicle_set_members(scribe_lock(keeper->scribe), members, count);
    scribe_unlock(keeper->scribe);
}

static void keeper_reopen_recording(struct keeper *keeper)
{
    if (keeper->recording != NULL) {
        recording_drain(keeper->recording, loop_now_ms(keeper->loop)); // into the old file
        recording_reopen(keeper->recording, keeper->config->record.size_max);
    }
}

// Operators of other routers have set weights or drain backends: this router follows.
static void keeper_follow_setting(void *owner, uint64_t identity, enum setting_field field,
                                  uint64_t value)
{
    struct keeper *keeper = owner;
    const struct fleet_member *member;
    for (uint32_t i = 0; (member = fleet_member_at(keeper->fleet, i)) != NULL; i++) {
        struct backend *backend = member->backend;
        if (backend->identity != identity) {
            continue;
        }
        if (field == SETTING_DRAINING && member->draining != (value != 0)) {
            log_info("backend %s: %s: as another router says", backend->url,
                     value != 0 ? "draining" : "no longer draining");
            fleet_set_draining(keeper->fleet, backend, value != 0);
            keeper->fleet_changed = true;
        } else if (field == SETTING_WEIGHT && member->weight != value && value > 0 &&
                   value <= weight_max) {
            log_info("backend %s: weight %u: as another router says", backend->url,
                     (unsigned)value);
            fleet_set_weight(keeper->fleet, backend, (uint32_t)value);
            keeper->fleet_changed = true;
        }
    }
}

static void keeper_tick(struct timer *timer)
{
    struct keeper *keeper = CONTAINER_OF(timer, struct keeper, tick);

    fleet_reclaim(keeper->fleet);
    if (proxy_reclaim(keeper->proxy)) {
        config_destroy(&keeper->old_config);
    }
    if (keeper->reload_pending && !keeper->draining) {
        keeper->reload_pending = false;
        keeper_reload(keeper);
        if (!keeper->reload_pending) {
            keeper_reopen_recording(keeper);
        }
    }
    if (keeper->recording != NULL) {
        recording_drain(keeper->recording, loop_now_ms(keeper->loop));
    }
    if (keeper->cluster != NULL) {
        cluster_take_settings(keeper->cluster, keeper_follow_setting, keeper);
    }
    stall_watch_look(keeper->fleet, keeper->config->health.stall_time, loop_now_ms(keeper->loop));
    if (keeper->scribe != NULL &&
        loop_now_ms(keeper->loop) >= keeper->members_reported_ms + members_ms) {
        keeper->members_reported_ms = loop_now_ms(keeper->loop);
        keeper_report_members(keeper);
    }
    if (keeper->draining && loop_now_ms(keeper->loop) >= keeper->drain_until_ms) {
        log_warn("drain: requests that have not ended in time are reset");
        keeper->stopping = true;
        loop_stop(keeper->loop);
    }
    loop_arm(keeper->loop, timer, tick_ms);
}

static void keeper_heard(void *owner, enum signal_kind kind)
{
    struct keeper *keeper = owner;

    if (keeper->proxy == NULL) {
        keeper->stopping |= kind == SIGNAL_STOP;
        return;
    }
    if (kind == SIGNAL_RELOAD) {
        if (!keeper->draining) {
            keeper_reload(keeper);
        }
        keeper_reopen_recording(keeper);
        return;
    }
    if (kind == SIGNAL_REOPEN) {
        if (keeper->scribe != NULL) {
            scribe_reopen(keeper->scribe);
        }
        log_info("files reopened");
        return;
    }
    if (keeper->draining) {
        log_warn("second signal: stopping at once");
        keeper->stopping = true;
        loop_stop(keeper->loop);
        return;
    }
    uint32_t limit_ms = keeper->config->timeouts.drain;
    log_info("draining: no new connections, %u ms for requests in flight", limit_ms);
    keeper->draining = true;
    keeper->drain_until_ms = limit_ms == 0 ? UINT64_MAX : loop_now_ms(keeper->loop) + limit_ms;
    proxy_drain(keeper->proxy);
}

// Backends that respond are known before the first client comes; one that hangs is not waited for.
static void keeper_first_round(struct keeper *keeper)
{
    uint64_t until_ms = loop_now_ms(keeper->loop) + first_round_ms;

    while (!keeper->stopping && loop_now_ms(keeper->loop) < until_ms &&
           !(roster_has_resolved_all(keeper->roster) && prober_has_asked_all(keeper->prober))) {
        loop_turn(keeper->loop, 50);
    }
    keeper_turn(keeper); // publishes the first view
}

static bool keeper_set_up(struct keeper *keeper, uint32_t worker_count)
{
    const struct config *config = keeper->config;

    // More readers: the feeder thread, and that of the cluster.
    reclaim_init(&keeper->reclaim, worker_count + 2);
    if (loop_create(&keeper->loop) != STATUS_OK ||
        signals_open(keeper->loop, keeper_heard, keeper, &keeper->signals) != STATUS_OK) {
        return false;
    }
    keeper->fleet =
        fleet_create(&(struct fleet_limits){.backend_count_max = config->limits.backends,
                                            .pool_count = fleet_pool_count_max},
                     &keeper->reclaim);
    if (keeper->fleet == NULL) {
        return false;
    }
    keeper->prober = prober_create(&(struct prober_options){.loop = keeper->loop,
                                                            .fleet = keeper->fleet,
                                                            .config = config,
                                                            .changed = keeper_fleet_has_news,
                                                            .owner = keeper});
    keeper->scraper =
        scraper_create(&(struct scraper_options){.loop = keeper->loop, .config = config});
    keeper->poller = kv_poller_create(&(struct kv_poller_options){
        .loop = keeper->loop, .config = config, .push = keeper_push_events, .owner = keeper});
    if (keeper->prober == NULL || keeper->scraper == NULL || keeper->poller == NULL) {
        return false;
    }
    keeper->roster = roster_create(&(struct roster_options){.loop = keeper->loop,
                                                            .fleet = keeper->fleet,
                                                            .prober = keeper->prober,
                                                            .scraper = keeper->scraper,
                                                            .poller = keeper->poller,
                                                            .config = config,
                                                            .changed = keeper_fleet_has_news,
                                                            .owner = keeper});
    return keeper->roster != NULL;
}

static bool keeper_open_dialects(struct keeper *keeper, uint32_t worker_count)
{
    // The keeper is one more thread: it explains and certifies.
    if (dialects_open(keeper->config, worker_count + 1, &keeper->dialects) != STATUS_OK) {
        return false;
    }
    if (keeper->dialects == NULL) {
        return true;
    }
    keeper->certifier = certifier_create(&(struct certifier_options){
        .loop = keeper->loop,
        .fleet = keeper->fleet,
        .config = keeper->config,
        .set = keeper->dialects,
        .thread = worker_count,
    });
    if (keeper->certifier == NULL) {
        fprintf(stderr, "warmpath: out of memory for the tokenizers\n");
    }
    return keeper->certifier != NULL;
}

static bool keeper_open_recording(struct keeper *keeper, uint32_t worker_count)
{
    const struct config *config = keeper->config;
    struct recording_options options = {.path = config->record.file,
                                        .size_max = config->record.size_max,
                                        .worker_count = worker_count,
                                        .span_tokens = config->record.block_tokens};
    if (options.path == NULL || recording_open(&options, &keeper->recording) == STATUS_OK) {
        return true;
    }
    fprintf(stderr, "warmpath: cannot record to %s: %s\n", options.path, strerrordesc_np(errno));
    return false;
}

// The scribe is needed for a log, for traces, and for the admin API.
static bool keeper_open_scribe(struct keeper *keeper, uint32_t worker_count)
{
    const struct config *config = keeper->config;
    char error[scribe_error_size];
    bool is_asked_for = config->access_log.file != NULL || config->access_log.slow_file != NULL ||
                        config->tracing.endpoint != NULL;
    bool is_wanted = is_asked_for || config->admin.listen != NULL;

    if (!config->metrics.enabled && is_asked_for) {
        log_warn("metrics.enabled is off: nothing is written to access_log.file and "
                 "access_log.slow_file, and tracing.endpoint gets no spans");
    }
    if (!config->metrics.enabled || !is_wanted ||
        scribe_start(&(struct scribe_options){.config = config, .worker_count = worker_count},
                     &keeper->scribe, error) == STATUS_OK) {
        return true;
    }
    fprintf(stderr, "warmpath: %s\n", error);
    return false;
}

static struct receipt_ring *keeper_ring_of(void *owner, uint32_t worker)
{
    return scribe_ring(owner, worker);
}

static bool keeper_open_admin(struct keeper *keeper)
{
    struct admin_options options = {
        .loop = keeper->loop,
        .listen = keeper->config->admin.listen,
        .metrics_listen = keeper->config->metrics.listen,
        .fleet = keeper->fleet,
        .roster = keeper->roster,
        .config = &keeper->config,
        .proxy = &keeper->proxy,
        .recorded = keeper->recording != NULL ? recording_totals(keeper->recording) : NULL,
        .changed = keeper_publish,
        .push_events = keeper_push_events,
        .feeder = &keeper->feeder,
        .cluster = &keeper->cluster,
        .scribe = &keeper->scribe,
        .process_start_ms = process_start_ms(),
        .owner = keeper,
    };
    char error[admin_error_size];
    bool is_wanted = options.listen != NULL || options.metrics_listen != NULL;
    if (!is_wanted || admin_open(&options, &keeper->admin, error) == STATUS_OK) {
        return true;
    }
    fprintf(stderr, "warmpath: %s\n", error);
    return false;
}

// Starts the thread that receives KV events, if there is a source of them.
static bool keeper_open_feeder(struct keeper *keeper, uint32_t worker_count)
{
    const struct config *config = keeper->config;
    struct prefix_ledger *ledger = knowledge_ledger(proxy_knowledge(keeper->proxy));
    char error[kv_feeder_error_size];

    if (ledger == NULL) {
        reclaim_leave(&keeper->reclaim, worker_count);
        return true;
    }
    if (kv_feeder_start(
            &(struct kv_feeder_options){
                .fleet = keeper->fleet,
                .reclaim = &keeper->reclaim,
                .reader = worker_count,
                .ledger = ledger,
                .names_memory = config_events_memory(config).names,
                .is_set = config->events.copies == CONFIG_COPIES_SET,
                .bind = config->events.bind.items,
                .bind_count = config->events.bind.count,
            },
            &keeper->feeder, error) == STATUS_OK) {
        return true;
    }
    fprintf(stderr, "warmpath: %s\n", error);
    return false;
}

// Starts the thread that shares with other routers, if there are any.
static bool keeper_open_cluster(struct keeper *keeper, uint32_t worker_count)
{
    char error[cluster_error_size];

    if (!config_has_cluster(keeper->config)) {
        reclaim_leave(&keeper->reclaim, worker_count + 1);
        return true;
    }
    if (cluster_start(&(struct cluster_options){.config = keeper->config,
                                                .fleet = keeper->fleet,
                                                .reclaim = &keeper->reclaim,
                                                .reader = worker_count + 1,
                                                .knowledge = proxy_knowledge(keeper->proxy),
                                                .sender = worker_count + 1},
                      &keeper->cluster, error) == STATUS_OK) {
        return true;
    }
    fprintf(stderr, "warmpath: %s\n", error);
    return false;
}

static int keeper_run(struct keeper *keeper)
{
    uint32_t worker_count =
        keeper->config->workers > 0 ? keeper->config->workers : thread_core_count();
    char error[proxy_error_size];

    worker_count =
        worker_count < reclaim_reader_count_max - 1 ? worker_count : reclaim_reader_count_max - 2;
    if (!keeper_set_up(keeper, worker_count)) {
        fprintf(stderr, "warmpath: out of memory or file descriptors at start\n");
        return COMMAND_FAILED;
    }
    if (!keeper_open_dialects(keeper, worker_count) ||
        !keeper_open_recording(keeper, worker_count) || !keeper_open_scribe(keeper, worker_count) ||
        !keeper_open_admin(keeper)) {
        return COMMAND_FAILED;
    }
    keeper_first_round(keeper);
    if (proxy_start(
            &(struct proxy_options){.config = keeper->config,
                                    .fleet = keeper->fleet,
                                    .reclaim = &keeper->reclaim,
                                    .recorder = keeper->recording != NULL
                                                    ? recording_recorder(keeper->recording)
                                                    : NULL,
                                    .ring_of = keeper->scribe != NULL ? keeper_ring_of : NULL,
                                    .owner = keeper->scribe,
                                    .dialects = keeper->dialects,
                                    .worker_count = worker_count,
                                    .descriptor_count_max = keeper->descriptor_count_max},
            &keeper->proxy, error) != STATUS_OK) {
        fprintf(stderr, "warmpath: %s\n", error);
        return COMMAND_FAILED;
    }
    if (!keeper_open_feeder(keeper, worker_count) || !keeper_open_cluster(keeper, worker_count)) {
        return COMMAND_FAILED;
    }
    for (uint32_t i = 0; i < keeper->config->listen.count; i++) {
        log_info("listening on %s with %u workers", keeper->config->listen.items[i], worker_count);
    }
    keeper->tick.fire = keeper_tick;
    loop_arm(keeper->loop, &keeper->tick, tick_ms);
    if (!keeper->stopping) {
        loop_run(keeper->loop, keeper_turn, keeper);
    }
    return COMMAND_OK;
}

static void keeper_tear_down(struct keeper *keeper)
{
    if (keeper->loop != NULL) {
        loop_disarm(keeper->loop, &keeper->tick);
    }
    admin_close(&keeper->admin);
    cluster_stop(&keeper->cluster);  // it writes to the index, which the proxy owns
    kv_feeder_stop(&keeper->feeder); // it writes to the ledger, which the proxy owns
    proxy_stop(&keeper->proxy);
    scribe_stop(&keeper->scribe); // writes the receipts that workers have left
    certifier_destroy(&keeper->certifier);
    dialects_close(&keeper->dialects);
    recording_close(&keeper->recording, keeper->loop != NULL ? loop_now_ms(keeper->loop) : 0);
    roster_destroy(&keeper->roster);
    prober_destroy(&keeper->prober);
    scraper_destroy(&keeper->scraper);
    kv_poller_destroy(&keeper->poller);
    if (keeper->loop != NULL) {
        loop_turn(keeper->loop, 0); // recycles closed connections
        signals_close(&keeper->signals, keeper->loop);
    }
    fleet_destroy(&keeper->fleet);
    loop_destroy(&keeper->loop);
    config_destroy(&keeper->config);
    config_destroy(&keeper->old_config);
}

int command_serve(int word_count, char **words)
{
    static struct keeper keeper; // too large for the stack
    struct config_error error;
    char line[config_line_size];
    const char **pairs = calloc((size_t)word_count * 2 + 1, sizeof(*pairs));
    int result = COMMAND_USAGE;

    ASSERT(pairs != NULL);
    if (config_command_line_read(words, word_count, pairs, &keeper.source, &error) != STATUS_OK ||
        config_load(&keeper.source, &keeper.config, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", keeper_config_line(&error, line));
    } else {
        keeper_set_log(keeper.config);
        keeper.descriptor_count_max = tcp_limit_raise();
        result = keeper_run(&keeper);
    }
    keeper_tear_down(&keeper);
    free(pairs);
    return result;
}
