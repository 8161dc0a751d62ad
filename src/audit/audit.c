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

struct audit {
    // Flags.
    struct flag_list backend;
    struct flag_list once;
    const char *model;
    const char *json;
    double interval;
    bool live;
    bool since_start;
    struct audit_scrape_options scraping;
    struct audit_terms terms;
    // State.
    struct profile profile;
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

#define OWNER struct audit
static const struct config_option audit_flags[] = {
    FLAG_LIST(backend, url, "A replica; may be given several times."),
    RANGE(interval, seconds, "30s", "100ms", "24h", "Between two reads of each replica."),
    FLAG(live, toggle, NULL, "Read again and again, until Ctrl-C."),
    FLAG(since_start, toggle, NULL, "Read once: everything since the engines started."),
    FLAG_LIST(once, file, "The same for pages that were saved, one of each replica."),
    FLAG_ROW("achievable", terms.achievable, real, .low = "0", .high = "1",
             .help = "Hit rate that good routing would reach; 0: it is estimated."),
    FLAG(model, text, NULL,
         "Take the time of prefills from a profile instead of the engines' counters."),
    FLAG_ROW("gpu-hour-price", terms.gpu_hour_price, real, .fallback = "1.25",
             .help = "In dollars; an eighth of a node at 10 dollars an hour."),
    FLAG_ROW("gpus-per-replica", terms.gpus_per_replica, real, .fallback = "1",
             .help = "GPUs of one replica."),
    FLAG(json, file, NULL, "Write the figures there as well."),
    FLAG_ROW("path", scraping.path, path, .fallback = "/metrics",
             .help = "The path of the metrics."),
    FLAG_ROW("timeout", scraping.timeout_ms, milliseconds, .fallback = "5s", .low = "1ms",
             .high = "1h", .help = "For one response."),
    FLAG_ROW("api-key", scraping.api_key, secret, .help = "Sent as a bearer token."),
    FLAG_ROW("ca", scraping.ca, file, .help = "Certificates to trust for https, PEM."),
    FLAG_ROW("insecure", scraping.insecure, toggle, .help = "Do not verify TLS certificates."),
};
static const struct config_option_table audit_table = FLAG_TABLE("audit", audit_flags);
#undef OWNER

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

static bool audit_is_good(const struct audit *audit)
{
    const char *twice = find_twice(&audit->backend);
    if (audit->backend.count == 0 && audit->once.count == 0) {
        return command_fail("audit", "--backend", "name at least one replica");
    }
    if (audit->backend.count > 0 && audit->once.count > 0) {
        return command_fail("audit", "--backend", "goes without --once");
    }
    if (audit->live && (audit->since_start || audit->once.count > 0)) {
        return command_fail("audit", "--live", "goes without --once and --since-start");
    }
    return twice == NULL || command_fail("audit", twice, "is named twice");
}

static bool audit_find_model(struct audit *audit)
{
    const char *name = audit->model;
    if (name == NULL || profile_find(name, &audit->profile)) {
        audit->terms.model = name != NULL ? &audit->profile : NULL;
        return true;
    }
    return command_fail_name("audit", "model", name, profile_name);
}

static void write_json(struct audit *audit, const struct audit_report *report)
{
    const char *path = audit->json;
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
    snprintf(title, sizeof(title), "the last %.4g s", audit->interval);
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
    if (audit->since_start || (audit->round_count == 2 && !audit->live)) {
        loop_stop(audit->loop);
        return;
    }
    if (audit->round_count == 1) {
        fprintf(stderr, "%u replicas; looking again in %.4g s\n", audit_scrape_count(audit->scrape),
                audit->interval);
    } else {
        report_live(audit);
    }
    audit->due_ms += (uint64_t)(audit->interval * 1000);
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
    audit->timer.fire = audit_on_timer;
    audit->scraping.urls = audit->backend.items;
    audit->scraping.url_count = audit->backend.count;
    if (loop_create(&audit->loop) != STATUS_OK) {
        return false;
    }
    audit->scraping.loop = audit->loop;
    return signals_open(audit->loop, audit_on_signal, audit, &audit->signals) == STATUS_OK &&
           audit_scrape_create(&audit->scraping, &audit->scrape) == STATUS_OK;
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
    if (audit->since_start) {
        take_span(audit, AUDIT_EVER);
        return report_all(audit, "since the engines started");
    }
    take_span(audit, AUDIT_WHOLE);
    snprintf(title, sizeof(title), audit->live ? "since the audit began" : "%.4g s",
             audit->interval);
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
        if (audit->is_stopping && !audit->live) {
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
    const struct flag_list *files = &audit->once;
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
    if (!audit_is_good(audit) || !audit_find_model(audit)) {
        return COMMAND_USAGE;
    }
    if (audit->terms.achievable == 0) {
        audit->terms.achievable = -1;
    }
    int status = audit->once.count > 0 ? audit_files(audit) : audit_backends(audit);
    return audit->has_failed ? COMMAND_FAILED : status;
}

int command_audit(int word_count, char **words)
{
    struct audit *audit = calloc(1, sizeof(*audit));
    if (audit == NULL) {
        command_fail("audit", "memory is short", NULL);
        return COMMAND_FAILED;
    }
    int status = flags_read(&audit_table, word_count, words, audit);
    status = status == FLAGS_READ ? audit_run(audit) : status;
    free(audit);
    return status;
}
