// SPDX-License-Identifier: Apache-2.0
//
// bench_load -- load and stand-in backends in one process, driven line by line.
//
//     $ bench_load --origin 9001 --origin2 9002
//     ready
//     mode open port 8080 rate 1000 measure-ms 2000        <- standard input
//     begin
//     end
//     {"answers":2000,...}
//
// A run in mode `idle` or `streams` says `holding` and lasts until the next line, whatever it says.
// The backends respond between the runs, too.  Ends with standard input.

#include "base/base.h"
#include "base/text.h"
#include "flags.h"
#include "load.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { line_size_max = 1024, words_max = 32 };

static const char *const mode_names[] = {
    [LOAD_CLOSED] = "closed",
    [LOAD_OPEN] = "open",
    [LOAD_IDLE] = "idle",
    [LOAD_STREAMS] = "streams",
};

struct commander {
    enum watched watched;
    struct load *load;
    bool running;
    bool ended;
    size_t line_size;
    char line[line_size_max];
    char words[line_size_max]; // the current run's, which its options point into
};

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void times_print(const char *name, const struct histogram *times)
{
    printf(",\"%s_p50_us\":%.3f,\"%s_p99_us\":%.3f,\"%s_max_us\":%.3f", name,
           (double)histogram_quantile(times, 0.5) / 1000, name,
           (double)histogram_quantile(times, 0.99) / 1000, name, (double)times->max_ns / 1000);
}

static void result_print(const struct load_result *result)
{
    printf("{\"answers\":%" PRIu64 ",\"missing\":%" PRIu64 ",\"seconds\":%.6f,\"failures\":%" PRIu64
           ",\"reconnects\":%" PRIu64 ",\"answer_bytes\":%" PRIu64 ",\"reads\":%" PRIu64
           ",\"events\":%" PRIu64 ",\"server_ran\":%.6f,\"server_waited\":%.6f"
           ",\"load_ran\":%.6f,\"load_waited\":%.6f",
           result->answers, result->missing, (double)result->measured_ns / 1e9, result->failures,
           result->reconnects, result->answer_bytes, result->reads, result->events.count,
           (double)result->server.ran_ns / 1e9, (double)result->server.waited_ns / 1e9,
           (double)result->self.ran_ns / 1e9, (double)result->self.waited_ns / 1e9);
    times_print("whole", &result->whole);
    times_print("first", &result->first);
    times_print("event", &result->events);
    puts("}");
    fflush(stdout);
}

static bool mode_read(const char *name, enum load_mode *out)
{
    for (size_t i = 0; i < ARRAY_COUNT(mode_names); i++) {
        if (strcmp(name, mode_names[i]) == 0) {
            *out = (enum load_mode)i;
            return true;
        }
    }
    return false;
}

// Cuts a line into `words` at its spaces; returns their count.
static int words_cut(char *line, char *words[static words_max])
{
    int count = 0;
    bool inside = false;
    for (char *at = line; *at; at++) {
        if (*at == ' ') {
            *at = '\0';
            inside = false;
        } else if (!inside && count < words_max) {
            words[count++] = at;
            inside = true;
        }
    }
    return count;
}

static bool options_read(char *line, struct load_options *out)
{
    const char *mode = "closed";
    struct load_options options = {
        .connections = 64,
        .body_size = 2048,
        .measure_ms = 1000,
        .path = "/v1/chat/completions",
        .watch = "",
    };
    const struct flag flags[] = {
        {.name = "mode", .text = &mode},
        {.name = "path", .text = &options.path},
        {.name = "watch", .text = &options.watch},
        {.name = "port", .number = &options.port},
        {.name = "connections", .number = &options.connections},
        {.name = "body", .number = &options.body_size},
        {.name = "chats", .number = &options.chats},
        {.name = "rate", .number = &options.rate},
        {.name = "spin", .number = &options.spin},
        {.name = "warmup-ms", .number = &options.warmup_ms},
        {.name = "measure-ms", .number = &options.measure_ms},
    };
    char *words[words_max];
    int count = words_cut(line, words);
    if (!flags_read(flags, ARRAY_COUNT(flags), count, words) || !mode_read(mode, &options.mode)) {
        return false;
    }
    *out = options;
    return options.connections > 0 && options.connections <= load_connections_max &&
           options.body_size >= 128 && options.body_size <= 32768 &&
           (options.mode != LOAD_OPEN || options.rate > 0);
}

static void line_run(struct commander *commander, uint64_t now_ns)
{
    if (commander->running) {
        load_release(commander->load);
        return;
    }
    memcpy(commander->words, commander->line, sizeof(commander->words));
    struct load_options options;
    if (!options_read(commander->words, &options)) {
        puts("{\"failures\":1,\"error\":\"not understood\"}");
        fflush(stdout);
        return;
    }
    commander->running = true;
    if (!load_start(commander->load, &options, now_ns)) {
        fputs("bench_load: a thread to watch is not there\n", stderr);
        load_release(commander->load);
    }
}

static void commander_read(struct commander *commander, uint64_t now_ns)
{
    size_t room = sizeof(commander->line) - 1 - commander->line_size;
    ssize_t got = read(STDIN_FILENO, commander->line + commander->line_size, room);
    if (got <= 0) {
        commander->ended = true;
        return;
    }
    commander->line_size += (size_t)got;
    char *end = memchr(commander->line, '\n', commander->line_size);
    if (end) {
        *end = '\0';
        line_run(commander, now_ns);
        commander->line_size = 0; // the driver waits for the result before the next line
    }
}

static void turn(struct commander *commander, struct origin *origin, int epoll)
{
    uint64_t now_ns = clock_ns();
    uint64_t left_ns = load_wait_ns(commander->load, now_ns);
    uint64_t origin_ns = origin_wait_ns(origin, now_ns);
    left_ns = origin_ns < left_ns ? origin_ns : left_ns;
    struct timespec wait = {.tv_sec = (time_t)(left_ns / 1000000000u),
                            .tv_nsec = (long)(left_ns % 1000000000u)};
    struct epoll_event events[256];
    int count = epoll_pwait2(epoll, events, ARRAY_COUNT(events), &wait, NULL);
    now_ns = clock_ns();
    for (int i = 0; i < count; i++) {
        enum watched *watched = events[i].data.ptr;
        if (watched == &commander->watched) {
            commander_read(commander, now_ns);
        } else if (*watched == WATCHED_OTHER) {
            load_wake(commander->load, watched, events[i].events, now_ns);
        } else {
            origin_wake(origin, watched, events[i].events, now_ns);
        }
    }
    origin_step(origin, now_ns);
    if (commander->running && !load_step(commander->load, now_ns)) {
        commander->running = false;
        result_print(load_result(commander->load));
    }
}

int main(int argc, char **argv)
{
    uint64_t ports[origin_ports_max] = {0};
    const struct flag flags[] = {
        {.name = "origin", .number = &ports[0]},  {.name = "origin2", .number = &ports[1]},
        {.name = "origin3", .number = &ports[2]}, {.name = "origin4", .number = &ports[3]},
        {.name = "origin5", .number = &ports[4]}, {.name = "origin6", .number = &ports[5]},
        {.name = "origin7", .number = &ports[6]}, {.name = "origin8", .number = &ports[7]},
    };
    if (!flags_read(flags, ARRAY_COUNT(flags), argc - 1, argv + 1)) {
        return 2;
    }
    flags_raise_descriptor_limit();
    prctl(PR_SET_TIMERSLACK, 1); // what is due is due within microseconds, not 50 of them
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    static struct commander commander;
    struct origin *origin = origin_create(epoll, ports);
    commander.load = load_create(epoll, origin);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &commander.watched};
    if (!origin || !commander.load || epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event) == -1) {
        perror("bench_load");
        return 1;
    }
    puts("ready");
    fflush(stdout);
    while (!commander.ended) {
        turn(&commander, origin, epoll);
    }
    return 0;
}
