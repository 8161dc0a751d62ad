// SPDX-License-Identifier: Apache-2.0
//
// audit -- measures how well an existing fleet's caches are used, from its metrics pages alone.
//
//     scrape, wait, scrape, report          or with --live: and again, until Ctrl-C

#include "audit/audit_report.h"
#include "audit/audit_scrape.h"
#include "base/base.h"
#include "config/endpoint.h"
#include "config/option/command.h"
#include "config/option/flags.h"
#include "sim/engine/profile.h"
#include "sys/clock.h"
#include "sys/loop.h"
#include "sys/signals.h"
#include "sys/terminal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    // No page of an engine comes near.
    file_size_max = 1 << 20,
    title_size = 96,
};

struct audit_options {
    struct flag_list backends;
    struct flag_list files;
    const char *path;
    const char *api_key;
    const char *ca;
    const char *model;
    const char *json;
    double interval_s;
    double timeout_s;
    double achievable; // above 1: not given
    double gpu_hour_price;
    double gpus_per_replica;
    bool insecure;
    bool live;
    bool since_start;
};

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

static enum flags_verdict audit_read_flags(struct audit_options *options, int word_count,
                                           char **words)
{
    const struct flag flags[] = {
        {"backend", FLAG_LIST, &options->backends, "URL", "A replica; may be given several times."},
        {"interval", FLAG_DURATION, &options->interval_s, "TIME",
         "Between two looks at each replica; 30s."},
        {"live", FLAG_SWITCH, &options->live, "", "Look again and again, until Ctrl-C."},
        {"since-start", FLAG_SWITCH, &options->since_start, "",
         "Look once: everything since the engines started."},
        {"once", FLAG_LIST, &options->files, "FILE",
         "The same for pages that were saved, one of each replica."},
        {"achievable", FLAG_NUMBER, &options->achievable, "RATE",
         "Hit rate that good routing would reach, 0 to 1; guessed otherwise."},
        {"model", FLAG_TEXT, &options->model, "NAME",
         "Take the time of prefills from a profile instead of the engines' counters."},
        {"gpu-hour-price", FLAG_NUMBER, &options->gpu_hour_price, "DOLLARS",
         "1.25: an eighth of a node at 10 dollars an hour."},
        {"gpus-per-replica", FLAG_NUMBER, &options->gpus_per_replica, "N", "1."},
        {"json", FLAG_TEXT, &options->json, "FILE", "Write the figures there as well."},
        {"path", FLAG_TEXT, &options->path, "PATH", "Of the metrics; /metrics."},
        {"timeout", FLAG_DURATION, &options->timeout_s, "TIME", "For one response; 5s."},
        {"api-key", FLAG_TEXT, &options->api_key, "KEY", "Sent as a bearer token."},
        {"ca", FLAG_TEXT, &options->ca, "FILE", "Who vouches for replicas with https; PEM."},
        {"insecure", FLAG_SWITCH, &options->insecure, "", "Nobody has to vouch for them."},
    };
    return flags_read("audit", flags, ARRAY_COUNT(flags), word_count, words);
}

static bool is_twice(const struct flag_list *list, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(list->items[i], list->items[index]) == 0) {
            return true;
        }
    }
    return false;
}

// NULL: they are good.
static const char *url_problem(const struct flag_list *urls, const char **which)
{
    for (uint32_t i = 0; i < urls->count; i++) {
        struct config_endpoint endpoint;
        const char *problem = config_url_split(slice_str(urls->items[i]), &endpoint);
        *which = urls->items[i];
        if (problem != NULL || is_twice(urls, i)) {
            return problem != NULL ? problem : "is named twice";
        }
    }
    return NULL;
}

static bool audit_is_text(const char *word)
{
    for (; *word != '\0'; word++) {
        if (*word <= ' ' || *word > '~') {
            return false;
        }
    }
    return true;
}

// NULL: nothing is wrong.  `*which` is the word that is.
static const char *problem_of(const struct audit_options *options, const char **which)
{
    bool looks_once = options->since_start || options->files.count > 0;
    *which = "--backend";
    if (options->backends.count == 0 && options->files.count == 0) {
        return "name at least one replica";
    }
    if (options->backends.count > 0 && options->files.count > 0) {
        return "goes without --once";
    }
    *which = "--live";
    if (options->live && looks_once) {
        return "goes without --once and --since-start";
    }
    *which = "--achievable";
    if (options->achievable > 1 && options->achievable != HUGE_VAL) {
        return "is a rate from 0 to 1";
    }
    *which = "--interval";
    if (options->interval_s < 0.1 || options->interval_s > 86400) {
        return "is from 100ms to 24h";
    }
    *which = "--timeout";
    if (options->timeout_s < 0.001 || options->timeout_s > 3600) {
        return "is from 1ms to 1h";
    }
    *which = "--path";
    if (options->path[0] != '/' || strlen(options->path) > 4096 || !audit_is_text(options->path)) {
        return "begins with / and has no blanks";
    }
    *which = "--api-key";
    if (options->api_key != NULL &&
        (strlen(options->api_key) > 4096 || !audit_is_text(options->api_key))) {
        return "has at most 4096 printable characters";
    }
    return url_problem(&options->backends, which);
}

static bool audit_find_model(struct audit *audit)
{
    const char *name = audit->options.model;
    if (name == NULL || profile_find(name, &audit->profile)) {
        audit->terms.model = name != NULL ? &audit->profile : NULL;
        return true;
    }
    fprintf(stderr, "warmpath audit: --model: unknown model %s; known ones are", name);
    for (uint32_t i = 0; profile_name(i) != NULL; i++) {
        fprintf(stderr, " %s", profile_name(i));
    }
    fprintf(stderr, "\n");
    return false;
}

static void write_json(struct audit *audit, const struct audit_report *report)
{
    const char *path = audit->options.json;
    FILE *file = path != NULL ? fopen(path, "we") : NULL;
    if (path == NULL) {
        return;
    }
    bool is_good = file != NULL;
    if (is_good) {
        audit_report_json(file, report);
        is_good = !ferror(file);
        is_good = fclose(file) == 0 && is_good;
    }
    if (!is_good) {
        fprintf(stderr, "warmpath audit: %s: %s\n", path, strerrordesc_np(errno));
        audit->has_failed = true;
    }
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
    snprintf(title, sizeof(title), "the last %.4g s", audit->options.interval_s);
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
                audit->options.interval_s);
    } else {
        report_live(audit);
    }
    audit->due_ms += (uint64_t)(audit->options.interval_s * 1000);
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
                   .urls = options->backends.items,
                   .url_count = options->backends.count,
                   .path = options->path,
                   .timeout_ms = (uint32_t)(options->timeout_s * 1000),
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
        loop_turn(audit->loop, 0); // what was put off to the end of a turn is freed there
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
             audit->options.interval_s);
    return report_all(audit, title);
}

static int audit_backends(struct audit *audit)
{
    int status = COMMAND_FAILED;
    if (!open_all(audit)) {
        fprintf(stderr, "warmpath audit: cannot start: memory or descriptors are short\n");
    } else {
        loop_arm(audit->loop, &audit->timer, 0);
        loop_run(audit->loop, NULL, NULL);
        if (audit->is_stopping && !audit->options.live) {
            fprintf(stderr, "warmpath audit: stopped before anything was measured\n");
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
    static char space[file_size_max + 1];
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return strerrordesc_np(errno);
    }
    size_t size = fread(space, 1, sizeof(space), file);
    bool is_good = !ferror(file);
    fclose(file);
    if (!is_good || size > file_size_max) {
        return is_good ? "it is too large" : "it cannot be read";
    }
    engine_counters_read(slice_of(space, size), out);
    return NULL;
}

static int audit_files(struct audit *audit)
{
    const struct flag_list *files = &audit->options.files;
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
    const char *which = NULL;
    const char *problem = problem_of(&audit->options, &which);
    if (problem != NULL) {
        fprintf(stderr, "warmpath audit: %s: %s\n", which, problem);
        return COMMAND_USAGE;
    }
    const struct audit_options *options = &audit->options;
    audit->terms = (struct audit_terms){
        .achievable = options->achievable > 1 ? -1 : options->achievable,
        .gpu_hour_price = options->gpu_hour_price,
        .gpus_per_replica = options->gpus_per_replica,
    };
    if (!audit_find_model(audit)) {
        return COMMAND_USAGE;
    }
    int status = options->files.count > 0 ? audit_files(audit) : audit_backends(audit);
    return audit->has_failed ? COMMAND_FAILED : status;
}

int command_audit(int word_count, char **words)
{
    struct audit *audit = calloc(1, sizeof(*audit));
    if (audit == NULL) {
        fprintf(stderr, "warmpath audit: memory is short\n");
        return COMMAND_FAILED;
    }
    audit->options = (struct audit_options){
        .path = "/metrics",
        .interval_s = 30,
        .timeout_s = 5,
        .achievable = HUGE_VAL,
        .gpu_hour_price = 1.25,
        .gpus_per_replica = 1,
    };
    enum flags_verdict verdict = audit_read_flags(&audit->options, word_count, words);
    int status = verdict == FLAGS_GOOD ? audit_run(audit) : COMMAND_OK;
    free(audit);
    return verdict == FLAGS_BAD ? COMMAND_USAGE : status;
}
