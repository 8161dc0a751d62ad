// SPDX-License-Identifier: Apache-2.0
//
// audit -- measures how well an existing fleet's caches are used, from its metrics pages alone.
//
//     scrape, wait, scrape, report          or with --live: and again, until Ctrl-C

#include "audit/audit_report.h"
#include "audit/audit_scrape.h"
#include "base/base.h"
#include "config/config_file.h"
#include "config/option/command.h"
#include "config/option/flags.h"
#include "sim/engine/profile.h"
#include "sys/clock.h"
#include "sys/loop.h"
#include "sys/signals.h"
#include "sys/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    // No page of an engine comes near.
    file_size_max = 1 << 20,
    title_size = 96,
};

struct audit_options {
    struct flag_list backend;
    struct flag_list once;
    const char *path;
    const char *api_key;
    const char *ca;
    const char *model;
    const char *json;
    double interval;
    double timeout;
    double achievable; // 0: not given
    double gpu_hour_price;
    double gpus_per_replica;
    bool insecure;
    bool live;
    bool since_start;
};

#define OWNER struct audit_options
static const struct config_option audit_flags[] = {
    FLAG_LIST(backend, url, "A replica; may be given several times."),
    RANGE(interval, seconds, "30s", "100ms", "24h", "Between two reads of each replica."),
    FLAG(live, toggle, NULL, "Read again and again, until Ctrl-C."),
    FLAG(since_start, toggle, NULL, "Read once: everything since the engines started."),
    FLAG_LIST(once, file, "The same for pages that were saved, one of each replica."),
    RANGE(achievable, real, "0", "0", "1",
          "Hit rate that good routing would reach; 0: it is estimated."),
    FLAG(model, text, NULL,
         "Take the time of prefills from a profile instead of the engines' counters."),
    FLAG(gpu_hour_price, real, "1.25", "In dollars; an eighth of a node at 10 dollars an hour."),
    FLAG(gpus_per_replica, real, "1", "GPUs of one replica."),
    FLAG(json, file, NULL, "Write the figures there as well."),
    FLAG(path, path, "/metrics", "The path of the metrics."),
    RANGE(timeout, seconds, "5s", "1ms", "1h", "For one response."),
    FLAG(api_key, secret, NULL, "Sent as a bearer token."),
    FLAG(ca, file, NULL, "Certificates to trust for https, PEM."),
    FLAG(insecure, toggle, NULL, "Do not verify TLS certificates."),
};
static const struct config_option_table audit_table = FLAG_TABLE("audit", audit_flags);
#undef OWNER

struct audit {
    struct audit_options options;
    struct profile profile;
    struct audit_terms terms;
    struct loop *loop;
    struct signals *signals;
    struct audit_scrape *scrape;
    struct timer timer;
    uint64_t due_ms; // for the next round
    uint32_t round_count;
    bool is_stopping;
    bool has_failed;
    struct audit_replica replicas[audit_replica_max];
    uint32_t replica_count;
};

// The first word that is in the list twice, or NULL.
static const char *find_twice(const struct flag_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(list->items[i], list->items[k]) == 0) {
                return list->items[i];
            }
        }
    }
    return NULL;
}

static bool audit_is_good(const struct audit_options *options)
{
    const char *twice = find_twice(&options->backend);
    if (options->backend.count == 0 && options->once.count == 0) {
        return command_fail("audit", "--backend", "name at least one replica");
    }
    if (options->backend.count > 0 && options->once.count > 0) {
        return command_fail("audit", "--backend", "goes without --once");
    }
    if (options->live && (options->since_start || options->once.count > 0)) {
        return command_fail("audit", "--live", "goes without --once and --since-start");
    }
    return twice == NULL || command_fail("audit", twice, "is named twice");
}

static bool audit_find_model(struct audit *audit)
{
    const char *name = audit->options.model;
    if (name == NULL || profile_find(name, &audit->profile)) {
        audit->terms.model = name != NULL ? &audit->profile : NULL;
        return true;
    }
    return command_fail_name("audit", "model", name, profile_name);
}

static void write_json(struct audit *audit, const struct audit_report *report)
{
    const char *path = audit->options.json;
    FILE *file = path != NULL ? command_open_file("audit", path) : NULL;
    if (file != NULL) {
        audit_report_json(file, report);
    }
    bool is_open = path == NULL || file != NULL;
    audit->has_failed |= !is_open || !command_close_file("audit", path, &file);
}

static void judge(const struct audit *audit, const char *title, struct audit_result *result,
                  struct audit_report *out)
{
    audit_judge(audit->replicas, audit->replica_count, &audit->terms, result);
    *out = (struct audit_report){
        .title = title,
        .replicas = audit->replicas,
        .replica_count = audit->replica_count,
        .terms = &audit->terms,
        .result = result,
    };
}

// Table, verdict and JSON of what audit->replicas say; whether any could be read.
static bool report_all(struct audit *audit, const char *title)
{
    struct audit_result result;
    struct audit_report report;
    judge(audit, title, &result, &report);
    audit_report_table(stdout, &report);
    audit_report_verdict(stdout, &report);
    write_json(audit, &report);
    audit->has_failed |= fflush(stdout) != 0;
    return result.read_count > 0;
}

static void take_span(struct audit *audit, enum audit_span span)
{
    double wall_s = (double)clock_wall_ms() / 1000;
    audit->replica_count = audit_scrape_count(audit->scrape);
    for (uint32_t i = 0; i < audit->replica_count; i++) {
        const struct audit_scraped *scraped = audit_scrape_at(audit->scrape, i);
        audit_history_span(&scraped->history, span, wall_s, &audit->replicas[i]);
        audit->replicas[i].name = scraped->name;
    }
}

// The table of the last interval, and below it the fleet since we look.
static void report_live(struct audit *audit)
{
    struct audit_result result;
    struct audit_report report;
    char title[title_size];
    if (terminal_is(stdout)) {
        printf("\033[H\033[2J");
    }
    snprintf(title, sizeof(title), "the last %.4g s", audit->options.interval);
    take_span(audit, AUDIT_LAST);
    judge(audit, title, &result, &report);
    audit_report_table(stdout, &report);

    take_span(audit, AUDIT_WHOLE);
    judge(audit, "since the audit began", &result, &report);
    printf("\n");
    audit_report_fleet(stdout, &report);
    audit_report_verdict(stdout, &report);
    write_json(audit, &report);
    printf("\nCtrl-C ends it.\n");
    audit->has_failed |= fflush(stdout) != 0;
}

static void round_done(void *owner)
{
    struct audit *audit = owner;
    uint64_t now_ms = loop_now_ms(audit->loop);
    audit->round_count++;
    if (audit->options.since_start || (audit->round_count == 2 && !audit->options.live)) {
        loop_stop(audit->loop);
        return;
    }
    if (audit->round_count == 1) {
        fprintf(stderr, "%u replicas; looking again in %.4g s\n", audit_scrape_count(audit->scrape),
                audit->options.interval);
    } else {
        report_live(audit);
    }
    audit->due_ms += (uint64_t)(audit->options.interval * 1000);
    loop_arm(audit->loop, &audit->timer, audit->due_ms > now_ms ? audit->due_ms - now_ms : 0);
}

static void audit_on_timer(struct timer *timer)
{
    struct audit *audit = CONTAINER_OF(timer, struct audit, timer);
    audit->due_ms = loop_now_ms(audit->loop);
    audit_scrape_start(audit->scrape, round_done, audit);
}

static void audit_on_signal(void *owner, enum signal_kind kind)
{
    struct audit *audit = owner;
    if (kind == SIGNAL_STOP) {
        audit->is_stopping = true;
        loop_stop(audit->loop);
    }
}

static bool open_all(struct audit *audit)
{
    const struct audit_options *options = &audit->options;
    audit->timer.fire = audit_on_timer;
    return loop_create(&audit->loop) == STATUS_OK &&
           signals_open(audit->loop, audit_on_signal, audit, &audit->signals) == STATUS_OK &&
           audit_scrape_create(
               &(struct audit_scrape_options){
                   .loop = audit->loop,
                   .urls = options->backend.items,
                   .url_count = options->backend.count,
                   .path = options->path,
                   .timeout_ms = (uint32_t)(options->timeout * 1000),
                   .api_key = options->api_key,
                   .ca = options->ca,
                   .insecure = options->insecure,
               },
               &audit->scrape) == STATUS_OK;
}

static void close_all(struct audit *audit)
{
    audit_scrape_destroy(&audit->scrape);
    if (audit->loop != NULL) {
        loop_turn(audit->loop, 0); // frees what was deferred to the end of the turn
        signals_close(&audit->signals, audit->loop);
        loop_destroy(&audit->loop);
    }
}

// Whether any replica could be read.
static bool report_end(struct audit *audit)
{
    char title[title_size];
    if (audit->options.since_start) {
        take_span(audit, AUDIT_EVER);
        return report_all(audit, "since the engines started");
    }
    take_span(audit, AUDIT_WHOLE);
    snprintf(title, sizeof(title), audit->options.live ? "since the audit began" : "%.4g s",
             audit->options.interval);
    return report_all(audit, title);
}

static int audit_backends(struct audit *audit)
{
    int status = COMMAND_FAILED;
    if (!open_all(audit)) {
        command_fail("audit", "start", "memory or descriptors are short");
    } else {
        loop_arm(audit->loop, &audit->timer, 0);
        loop_run(audit->loop, NULL, NULL);
        if (audit->is_stopping && !audit->options.live) {
            command_fail("audit", "stopped before anything was measured", NULL);
        } else if (report_end(audit)) {
            status = COMMAND_OK;
        }
    }
    close_all(audit);
    return status;
}

// Why the page of a file is not there, or NULL.
static const char *read_page(const char *path, struct engine_counters *out)
{
    static char space[file_size_max];
    size_t size = 0;
    enum status status = config_file_read(path, space, sizeof(space), &size);
    if (status != STATUS_OK) {
        return status == STATUS_IO ? strerrordesc_np(errno) : status_text(status);
    }
    engine_counters_read(slice_of(space, size), out);
    return NULL;
}

static int audit_files(struct audit *audit)
{
    const struct flag_list *files = &audit->options.once;
    for (uint32_t i = 0; i < files->count; i++) {
        struct audit_history history = {0};
        struct audit_page page = {0};
        const char *why = read_page(files->items[i], &page.counters);
        if (why != NULL) {
            audit_history_fail(&history, why);
        } else {
            audit_history_note(&history, &page);
        }
        // A saved page has no date, so the time since the engine's start is not known.
        audit_history_span(&history, AUDIT_EVER, -1, &audit->replicas[i]);
        audit->replicas[i].name = files->items[i];
    }
    audit->replica_count = files->count;
    return report_all(audit, "since the engines started") ? COMMAND_OK : COMMAND_FAILED;
}

static int audit_run(struct audit *audit)
{
    const struct audit_options *options = &audit->options;
    if (!audit_is_good(options)) {
        return COMMAND_USAGE;
    }
    audit->terms = (struct audit_terms){
        .achievable = options->achievable > 0 ? options->achievable : -1,
        .gpu_hour_price = options->gpu_hour_price,
        .gpus_per_replica = options->gpus_per_replica,
    };
    if (!audit_find_model(audit)) {
        return COMMAND_USAGE;
    }
    int status = options->once.count > 0 ? audit_files(audit) : audit_backends(audit);
    return audit->has_failed ? COMMAND_FAILED : status;
}

int command_audit(int word_count, char **words)
{
    struct audit *audit = calloc(1, sizeof(*audit));
    if (audit == NULL) {
        command_fail("audit", "memory is short", NULL);
        return COMMAND_FAILED;
    }
    int status = flags_read(&audit_table, word_count, words, &audit->options);
    status = status == FLAGS_READ ? audit_run(audit) : status;
    free(audit);
    return status;
}
