// SPDX-License-Identifier: Apache-2.0
//
// load -- sends a workload to an OpenAI endpoint, in real time, and reports the responses.
//
//     SIGINT, SIGTERM  end early, with the figures so far

#include "base/base.h"
#include "base/text.h"
#include "config/option/command.h"
#include "config/option/flags.h"
#include "drive/drive_endpoint.h"
#include "drive/drive_log.h"
#include "drive/drive_memory.h"
#include "drive/drive_progress.h"
#include "drive/drive_result.h"
#include "lab/trace_file.h"
#include "net/tcp.h"
#include "net/tls.h"
#include "sys/clock.h"
#include "sys/loop.h"
#include "sys/signals.h"
#include "sys/terminal.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    head_size_max = 16384,
    // Descriptors beside the connections.
    descriptors_beside = 32,
};

#define OWNER struct load_flags
static const struct config_option load_flags[] = {
    FLAG(url, any, NULL, "Where requests go: http://host:port, which a path may follow."),
    FLAG(model, text, NULL, "The model; otherwise the first that /v1/models names."),
    FLAG(workload, name, NULL, "The workload; they are listed below."),
    FLAG(trace, file, NULL, "Requests of a trace instead, one JSON object a line."),
    FLAG(users, amount, NULL, "Closed loop: users that wait for their responses."),
    FLAG(rate, real, NULL, "Open loop: requests a second, at random times."),
    RANGE(requests, amount, NULL, "0", "4000000", "Requests in all."),
    FLAG(duration, seconds, NULL, "Sends nothing after that time."),
    FLAG(share, real, NULL, "Fraction of each prompt shared with others."),
    FLAG(seed, amount, "1", "Equal seeds give equal requests."),
    FLAG(warm_up, any, NULL, "Does not count: 0.1 (a fraction), 200 (requests) or 10s (time)."),
    FLAG_ROW("api", api, choice, .fallback = "chat", .choices = "chat|completions|ids",
             .help = "With ids, prompts are token ids, which only simulated engines understand."),
    FLAG(no_stream, toggle, NULL, "Asks for responses that are not streamed."),
    FLAG(no_ignore_eos, toggle, NULL, "Leaves out ignore_eos, for servers that refuse it."),
    FLAG(sessions, toggle, NULL, "Names conversations, in `user`."),
    FLAG_LIST(header, any, "'NAME: VALUE', sent with each request; may be given several times."),
    FLAG(api_key, secret, NULL, "Sent as a bearer token."),
    FLAG(ca, file, NULL, "Certificates to trust for https, PEM; otherwise the system's."),
    FLAG(insecure, toggle, NULL, "Do not verify TLS certificates."),
    RANGE(timeout, seconds, "5m", "1ms", "24h", "For a request, up to its last byte."),
    RANGE(connections_max, amount, "8192", "1", "60000", "Requests in flight at most."),
    FLAG(json, file, NULL, "Writes all figures there; - is standard output."),
    FLAG(html, file, NULL, "Writes a page there."),
    FLAG(log, file, NULL, "Writes a line of JSON there for each request."),
    FLAG(label, any, NULL, "The name of the run in reports."),
    FLAG(quiet, toggle, NULL, "No progress."),
};
static const struct config_option_table load_table = FLAG_TABLE("load", load_flags);
#undef OWNER
_Static_assert(drive_requests_max == 4000000 && drive_connections_max == 60000, "bounds above");

struct load_command {
    struct load_flags flags;
    struct drive_endpoint endpoint;
    struct mooncake_trace trace;
    char trace_name[trace_file_name_size];
    struct workload *workload;
    struct drive_memory *memory;
    struct drive_log *log;
    struct loop *loop;
    struct signals *signals;
    struct tls_context *tls;
    struct drive_run *run;
    struct drive_progress progress;
    struct drive_shape shape;
    uint32_t connections_max;
    char authorization[config_secret_size_max + 16]; // empty: none
    char asked_model[drive_text_max];                // that the endpoint named
    char head[head_size_max];                        // of all requests
    double warm_up_s;
    uint64_t warm_up_requests;
    bool was_interrupted;
};

static bool load_complain(const char *what, const char *why)
{
    return command_fail("load", what, why);
}

// "0.1", "200" or "10s".
static bool read_warm_up(struct load_command *load, double total)
{
    static const struct config_option time = {.kind = &config_kind_seconds, .size = sizeof(double)};
    const char *word = load->flags.warm_up != NULL ? load->flags.warm_up : "0";
    char space[256];
    struct text why = text_over(space, sizeof(space));
    double value = 0;

    if (!time.kind->read(&time, word, &value, &why)) {
        return load_complain(
            "--warm-up needs a fraction such as 0.1, a number of requests or a time such as 10s",
            NULL);
    }
    // The last byte, since a number may have an exponent: 2e3.
    bool has_unit = strchr("0123456789.", word[strlen(word) - 1]) == NULL;
    bool is_timed = load->flags.duration > 0;
    if (has_unit) {
        load->warm_up_s = value;
    } else if (value < 1 && is_timed) {
        load->warm_up_s = value * load->flags.duration;
    } else {
        load->warm_up_requests = (uint64_t)(value < 1 ? value * total : value);
    }
    return true;
}

// A field of ours must not begin a second one, or the body.
static bool is_one_line(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if ((byte < ' ' && byte != '\t') || byte == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool is_field(const char *line)
{
    size_t name_size = strcspn(line, ": \t");
    return name_size > 0 && line[name_size] == ':' && is_one_line(line);
}

static bool load_write_head(struct load_command *load)
{
    const struct load_flags *flags = &load->flags;
    struct text out = text_over(load->head, sizeof(load->head) - 1);

    if (flags->api_key != NULL) {
        snprintf(load->authorization, sizeof(load->authorization), "Bearer %s", flags->api_key);
    }
    drive_endpoint_add_head(&load->endpoint, flags->api, load->authorization, &out);
    if (flags->log != NULL) {
        text_add_str(&out, "x-warmpath-decision: 1\r\n");
    }
    for (uint32_t i = 0; i < flags->header.count; i++) {
        if (!is_field(flags->header.items[i])) {
            return load_complain("--header needs 'NAME: VALUE'", flags->header.items[i]);
        }
        text_add_format(&out, "%s\r\n", flags->header.items[i]);
    }
    if (out.overflow) {
        return load_complain("the headers are too long", NULL);
    }
    load->head[out.size] = '\0';
    return true;
}

static bool read_trace(struct load_command *load)
{
    char error[trace_file_error_size];

    if (load->flags.trace == NULL) {
        return true;
    }
    trace_file_name(load->flags.trace, load->trace_name);
    return trace_file_read(load->flags.trace, &load->trace, error) || load_complain(error, NULL);
}

static bool make_workload(struct load_command *load)
{
    const struct load_flags *flags = &load->flags;
    char error[workload_error_size];
    uint32_t requests = flags->requests;

    if (requests == 0 && flags->duration > 0) {
        requests = drive_requests_max;
    }
    load->workload = workload_create(
        &(struct workload_options){
            .kind = flags->workload,
            .trace = flags->trace != NULL ? &load->trace : NULL,
            .rate = flags->rate,
            .users = flags->users,
            .requests = requests,
            .share = flags->share,
            .seed = flags->seed,
        },
        error);
    return load->workload != NULL || load_complain(error, NULL);
}

// Checks of the command line.
static bool understand(struct load_command *load)
{
    struct load_flags *flags = &load->flags;

    if (flags->url == NULL) {
        return load_complain("--url is missing", NULL);
    }
    const char *wrong = drive_endpoint_parse(flags->url, &load->endpoint);
    if (wrong != NULL) {
        return load_complain(flags->url, wrong);
    }
    if (flags->workload == NULL && flags->trace == NULL) {
        return load_complain("say --workload NAME or --trace FILE; --help lists the workloads",
                             NULL);
    }
    return load_write_head(load) && read_trace(load) && make_workload(load) &&
           read_warm_up(load, (double)workload_limit(load->workload));
}

static void load_on_signal(void *owner, enum signal_kind kind)
{
    struct load_command *load = owner;
    if (kind != SIGNAL_STOP) {
        return;
    }
    load->was_interrupted = true;
    if (load->run != NULL) {
        drive_run_stop(load->run);
    }
}

static bool reach(struct load_command *load)
{
    struct load_flags *flags = &load->flags;
    char error[drive_error_size];

    if (loop_create(&load->loop) != STATUS_OK ||
        signals_open(load->loop, load_on_signal, load, &load->signals) != STATUS_OK) {
        return load_complain("no memory or no descriptors to start with", NULL);
    }
    if (load->endpoint.tls) {
        struct tls_client_options options = {.ca = flags->ca, .verify = !flags->insecure};
        char why[tls_error_size];
        if (tls_client_create(&options, &load->tls, why) != STATUS_OK) {
            return load_complain(why, NULL);
        }
    }
    if (!drive_endpoint_resolve(&load->endpoint, load->loop, error) ||
        !drive_endpoint_ask(&load->endpoint, load->loop, load->tls, load->authorization,
                            load->asked_model, error)) {
        return load_complain(flags->url, error);
    }
    if (flags->model == NULL) {
        flags->model = load->asked_model;
    }
    return flags->model[0] != '\0' ||
           load_complain(flags->url, "does not say which models it has; use --model");
}

static void load_show(void *owner, const struct drive_run *run)
{
    struct drive_progress *progress = owner;
    drive_progress_show(progress, run);
}

static uint32_t connections_of(const struct load_flags *flags)
{
    uint64_t limit = tcp_limit_raise();
    uint64_t most = limit > descriptors_beside ? limit - descriptors_beside : 1;
    return flags->connections_max < most ? flags->connections_max : (uint32_t)most;
}

static bool write_file(const char *path, const struct drive_result *result,
                       void (*write)(const struct drive_result *result, FILE *out))
{
    if (path == NULL) {
        return true;
    }
    FILE *out = command_open_file("load", path);
    if (out == NULL) {
        return false;
    }
    write(result, out);
    return command_close_file("load", path, &out);
}

static int load_write_report(struct load_command *load, struct drive_result *result)
{
    const struct load_flags *flags = &load->flags;
    bool is_table = flags->json == NULL || strcmp(flags->json, "-") != 0;

    drive_run_sum(load->run, &result->figures);
    if (is_table) {
        drive_result_write_table(result, stdout);
    }
    bool is_written = command_flush();
    is_written &= write_file(flags->json, result, drive_result_write_json);
    is_written &= write_file(flags->html, result, drive_result_write_html);
    if (!drive_log_close(&load->log)) {
        is_written = load_complain(flags->log, "cannot be written");
    }
    if (result->tally->done > 0 && result->tally->responded == 0) {
        load_complain("no request succeeded", NULL);
        return COMMAND_FAILED;
    }
    return is_written ? COMMAND_OK : COMMAND_FAILED;
}

static bool make_run(struct load_command *load)
{
    const struct load_flags *flags = &load->flags;

    if (flags->log != NULL) {
        load->log = drive_log_open(flags->log);
        if (load->log == NULL) {
            return load_complain(flags->log, "cannot be written");
        }
    }
    load->shape = (struct drive_shape){
        .api = flags->api,
        .model = flags->model,
        .one_message = flags->trace != NULL,
        .stream = !flags->no_stream,
        .ignore_eos = !flags->no_ignore_eos,
        .names_sessions = flags->sessions,
    };
    load->connections_max = connections_of(flags);
    load->memory = drive_memory_create();
    load->progress = (struct drive_progress){
        .out = stderr,
        .is_terminal = terminal_is(stderr),
        .is_whole = flags->no_stream,
        .request_count = workload_limit(load->workload),
        .duration_s = flags->duration,
    };
    load->run = drive_run_create(&(struct drive_run_options){
        .client = {.loop = load->loop,
                   .addresses = load->endpoint.addresses,
                   .address_count = load->endpoint.address_count,
                   .host = load->endpoint.host,
                   .tls = load->tls,
                   .head = load->head,
                   .shape = &load->shape,
                   .memory = load->memory,
                   .connections_max = load->connections_max,
                   .timeout_ms = (uint32_t)(flags->timeout * 1000)},
        .workload = load->workload,
        .memory = load->memory,
        .log = load->log,
        .duration_s = flags->duration,
        .is_closed = flags->users > 0,
        .warm_up_requests = load->warm_up_requests,
        .warm_up_s = load->warm_up_s,
        .watch_ms = flags->quiet ? 0 : drive_progress_ms(&load->progress),
        .watch = load_show,
        .watch_owner = &load->progress,
    });
    return (load->run != NULL && load->memory != NULL) ||
           load_complain("no memory to start with", NULL);
}

static int load_measure(struct load_command *load)
{
    if (!make_run(load)) {
        return COMMAND_FAILED;
    }
    struct drive_result result = {
        .flags = &load->flags,
        .workload = load->flags.workload != NULL ? load->flags.workload : load->trace_name,
        .started_at_ms = clock_wall_ms(),
        .request_limit = workload_limit(load->workload),
        .warm_up_s = load->warm_up_s,
        .warm_up_requests = load->warm_up_requests,
        .connections_max = load->connections_max,
        .tally = drive_run_tally(load->run),
    };
    uint64_t cpu_ns = clock_cpu_ns();
    if (!load->was_interrupted) {
        drive_run(load->run);
    }
    if (!load->flags.quiet) {
        drive_progress_end(&load->progress);
    }
    result.cpu_s = (double)(clock_cpu_ns() - cpu_ns) / 1e9;
    result.counts = drive_run_counts(load->run);
    result.elapsed_s = drive_run_elapsed_s(load->run);
    result.was_interrupted = load->was_interrupted;
    return load_write_report(load, &result);
}

// Behind the help.
static void load_list_workloads(void)
{
    printf("\nWorkloads:\n");
    for (uint32_t i = 0; workload_kind_name(i) != NULL; i++) {
        printf("  %-28s %s\n", workload_kind_name(i), workload_kind_summary(i));
    }
}

static void load_tear_down(struct load_command *load)
{
    drive_run_destroy(&load->run);
    (void)drive_log_close(&load->log);
    drive_memory_destroy(&load->memory);
    workload_destroy(&load->workload);
    mooncake_destroy(&load->trace);
    tls_context_destroy(&load->tls);
    if (load->loop != NULL) {
        signals_close(&load->signals, load->loop);
    }
    loop_destroy(&load->loop);
}

int command_load(int word_count, char **words)
{
    struct load_command *load = calloc(1, sizeof(*load));
    if (load == NULL) {
        load_complain("no memory to start with", NULL);
        return COMMAND_FAILED;
    }
    int status = flags_read(&load_table, word_count, words, &load->flags);
    if (status == COMMAND_OK) {
        load_list_workloads();
    } else if (status == FLAGS_READ && understand(load)) {
        status = reach(load) ? load_measure(load) : COMMAND_FAILED;
    } else {
        status = COMMAND_USAGE;
    }
    load_tear_down(load);
    free(load);
    return status;
}
