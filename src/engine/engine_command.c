// SPDX-License-Identifier: Apache-2.0
//
// engine -- simulated inference servers, in real time, until a signal ends them.

#include "base/base.h"
#include "base/text.h"
#include "config/option/command.h"
#include "config/option/flags.h"
#include "engine/engine_server.h"
#include "lab/calibration_file.h"
#include "net/tcp.h"
#include "sim/engine/kv_event_writer.h"
#include "sys/loop.h"
#include "sys/signals.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The options of the command line.
struct wishes {
    const char *host;
    const char *model; // NULL: the default, or the only one of the file
    const char *calibration;
    uint32_t count;
    uint32_t ranks;
    uint32_t port;
    uint32_t threads;
    uint32_t output;
    uint32_t seed;
    double speed;
    double kv_tokens;
    double host_tokens;
    double host_speed; // GB/s
    uint32_t block_tokens;
    uint32_t sequences;
    uint32_t step_tokens;
    uint32_t context;
    struct flag_list adapters;
    uint32_t events_port;
    uint32_t replay_port;
    const char *events_format;
    double events_drop; // percent
};

static enum flags_verdict engine_read_flags(int word_count, char **words, struct wishes *wishes)
{
    const struct flag flags[] = {
        {"count", FLAG_COUNT, &wishes->count, "N", "How many engines (1)."},
        {"ranks", FLAG_COUNT, &wishes->ranks, "N",
         "Data-parallel ranks behind each port, with a cache each (1)."},
        {"host", FLAG_TEXT, &wishes->host, "ADDRESS", "Where they listen (127.0.0.1)."},
        {"port", FLAG_COUNT, &wishes->port, "PORT",
         "Port of the first one, the others follow (9001); 0: any that are free."},
        {"model", FLAG_TEXT, &wishes->model, "NAME",
         "A shipped model (codellama-13b), or one of the calibration file."},
        {"calibration", FLAG_TEXT, &wishes->calibration, "FILE",
         "Measured step times of other models; see docs/calibration.md."},
        {"lora", FLAG_LIST, &wishes->adapters, "A,B", "Adapters that are served beside it."},
        {"speed", FLAG_NUMBER, &wishes->speed, "X", "How many times faster than life (1)."},
        {"output", FLAG_COUNT, &wishes->output, "N",
         "Tokens of a response when the client sets no limit (128)."},
        {"kv-tokens", FLAG_NUMBER, &wishes->kv_tokens, "N", "Tokens that the KV cache holds."},
        {"block-tokens", FLAG_COUNT, &wishes->block_tokens, "N", "Tokens of one of its blocks."},
        {"host-tokens", FLAG_NUMBER, &wishes->host_tokens, "N",
         "Tokens of a second tier of cache in host memory (0)."},
        {"host-speed", FLAG_NUMBER, &wishes->host_speed, "GB/S",
         "How fast tokens come back from there (50)."},
        {"sequences", FLAG_COUNT, &wishes->sequences, "N", "Most sequences in one batch."},
        {"step-tokens", FLAG_COUNT, &wishes->step_tokens, "N", "Most tokens in one step."},
        {"context", FLAG_COUNT, &wishes->context, "N", "Longest prompt and response together."},
        {"kv-events-port", FLAG_COUNT, &wishes->events_port, "PORT",
         "Where the first one publishes its KV events over ZeroMQ, the others follow (none)."},
        {"kv-replay-port", FLAG_COUNT, &wishes->replay_port, "PORT",
         "Where it replays them, the others follow (none)."},
        {"kv-events-format", FLAG_TEXT, &wishes->events_format, "NAME",
         "How they are written: vllm, vllm-0.22, sglang, trtllm and more (vllm)."},
        {"kv-events-drop", FLAG_NUMBER, &wishes->events_drop, "PERCENT",
         "So many of the batches do not reach subscribers; replays have them (0)."},
        {"threads", FLAG_COUNT, &wishes->threads, "N", "Threads that share the engines (1)."},
        {"seed", FLAG_COUNT, &wishes->seed, "N",
         "Seed of the text of responses and of random faults (0)."},
    };
    return flags_read("engine", flags, ARRAY_COUNT(flags), word_count, words);
}

static bool engine_complain(const char *what)
{
    fprintf(stderr, "warmpath engine: %s\n", what);
    return false;
}

static bool has_ports(uint32_t first, uint32_t count)
{
    return first <= UINT16_MAX && (first == 0 || first + count - 1 <= UINT16_MAX);
}

static bool find_format(const char *name)
{
    if (kv_event_format_find(name) != NULL) {
        return true;
    }
    fprintf(stderr, "warmpath engine: --kv-events-format: no format %s; there are", name);
    for (uint32_t i = 0; kv_event_format_at(i) != NULL; i++) {
        fprintf(stderr, "%s %s", i > 0 ? "," : "", kv_event_format_at(i)->name);
    }
    fprintf(stderr, "\n");
    return false;
}

static bool engine_check_numbers(const struct wishes *wishes)
{
    if (wishes->count < 1 || wishes->count > engine_server_count_max) {
        return engine_complain("--count must be from 1 to 4096");
    }
    if (wishes->ranks < 1 || wishes->ranks > engine_server_rank_max) {
        return engine_complain("--ranks must be from 1 to 64");
    }
    uint32_t engines = wishes->count * wishes->ranks;
    if (!has_ports(wishes->port, wishes->count) || !has_ports(wishes->events_port, engines) ||
        !has_ports(wishes->replay_port, engines)) {
        return engine_complain("--port: there are not so many ports");
    }
    if (!find_format(wishes->events_format)) {
        return false;
    }
    if (wishes->threads < 1 || wishes->threads > engine_server_thread_max) {
        return engine_complain("--threads must be from 1 to 256");
    }
    if (!(wishes->speed >= 0.001 && wishes->speed <= 1000)) {
        return engine_complain("--speed must be from 0.001 to 1000");
    }
    if (!(wishes->host_speed >= 0.1)) {
        return engine_complain("--host-speed must be at least 0.1");
    }
    if (!(wishes->events_drop >= 0 && wishes->events_drop <= 100)) {
        return engine_complain("--kv-events-drop must be from 0 to 100");
    }
    if (wishes->output < 1) {
        return engine_complain("--output must be at least 1");
    }
    if (wishes->adapters.count > engine_adapter_max) {
        return engine_complain("--lora: at most 64 adapters");
    }
    return true;
}

static bool make_profile(const struct wishes *wishes, struct profile *out)
{
    enum { block_tokens_max = prefix_block_size_max / 4, context_max = 1 << 24 };

    const char *name = wishes->model;

    if (name == NULL && wishes->calibration == NULL) {
        name = "codellama-13b";
    }
    if (!calibration_file_profile("engine", wishes->calibration, name, out)) {
        return false;
    }
    out->kv_tokens = wishes->kv_tokens > 0 ? (uint64_t)wishes->kv_tokens : out->kv_tokens;
    out->host_tokens = (uint64_t)wishes->host_tokens;
    out->host_token_ms = (double)out->kv_bytes_per_token / (wishes->host_speed * 1e6);
    out->block_tokens = wishes->block_tokens > 0 ? wishes->block_tokens : out->block_tokens;
    out->sequences_max = wishes->sequences > 0 ? wishes->sequences : out->sequences_max;
    out->step_tokens = wishes->step_tokens > 0 ? wishes->step_tokens : out->step_tokens;
    out->context_max = wishes->context > 0 ? wishes->context : out->context_max;
    if (out->block_tokens > block_tokens_max) {
        return engine_complain("--block-tokens must be at most 256");
    }
    if (out->kv_tokens < out->block_tokens || out->kv_tokens > UINT32_MAX ||
        out->host_tokens > UINT32_MAX ||
        (out->host_tokens > 0 && out->host_tokens < out->block_tokens)) {
        return engine_complain(
            "--kv-tokens and --host-tokens must hold a block, and be below 2^32");
    }
    if (out->context_max > context_max || out->sequences_max > 65536) {
        return engine_complain("--context must be at most 16m, --sequences 65536");
    }
    return true;
}

static void print_ranges(const struct engine_server *server, const struct wishes *wishes,
                         const struct profile *profile)
{
    char space[2][64];
    uint32_t last = wishes->count - 1;

    // Ports that the kernel chose do not follow each other.
    for (uint32_t i = 0; i<wishes->count; i = wishes->port> 0 ? wishes->count : i + 1) {
        struct text from = text_over(space[0], sizeof(space[0]));
        struct text to = text_over(space[1], sizeof(space[1]));
        engine_server_write_address(server, i, &from);
        engine_server_write_address(server, wishes->port > 0 ? last : i, &to);
        bool is_one = from.size == to.size && memcmp(space[0], space[1], from.size) == 0;
        printf("http://%.*s%s%.*s: %s, ", (int)from.size, space[0], is_one ? "" : " to http://",
               is_one ? 0 : (int)to.size, space[1], profile->name);
        if (wishes->ranks > 1) {
            printf("%u ranks with ", wishes->ranks);
        }
        printf("%" PRIu64 " tokens of KV cache, speed %g\n", profile->kv_tokens, wishes->speed);
    }
    fflush(stdout);
}

static void engine_on_signal(void *owner, enum signal_kind kind)
{
    if (kind == SIGNAL_STOP) {
        loop_stop(owner);
    }
}

static int engine_serve(const struct wishes *wishes, const struct profile *profile)
{
    struct engine_server_options options = {
        .host = wishes->host,
        .port = (uint16_t)wishes->port,
        .count = wishes->count,
        .rank_count = wishes->ranks,
        .thread_count = wishes->threads,
        .speed = wishes->speed,
        .profile = profile,
        .adapters = wishes->adapters.items,
        .adapter_count = wishes->adapters.count,
        .output_tokens = wishes->output,
        .seed = wishes->seed,
        .events = wishes->events_port > 0 ? kv_event_format_find(wishes->events_format) : NULL,
        .events_port = (uint16_t)wishes->events_port,
        .replay_port = (uint16_t)wishes->replay_port,
        .events_loss = wishes->events_drop / 100,
    };
    char error[engine_server_error_size];
    struct engine_server *server = NULL;
    struct signals *signals = NULL;
    struct loop *loop = NULL;
    int exit_status = COMMAND_FAILED;

    if (loop_create(&loop) != STATUS_OK ||
        signals_open(loop, engine_on_signal, loop, &signals) != STATUS_OK) {
        engine_complain("cannot wait for signals");
        goto out;
    }
    if (engine_server_start(&options, &server, error) != STATUS_OK) {
        engine_complain(error);
        goto out;
    }
    print_ranges(server, wishes, profile);
    loop_run(loop, NULL, NULL);
    exit_status = COMMAND_OK;

out:
    engine_server_stop(&server);
    signals_close(&signals, loop);
    loop_destroy(&loop);
    return exit_status;
}

int command_engine(int word_count, char **words)
{
    struct wishes wishes = {
        .host = "127.0.0.1",
        .events_format = "vllm",
        .count = 1,
        .ranks = 1,
        .port = 9001,
        .threads = 1,
        .output = 128,
        .speed = 1,
        .host_speed = 50, // PCIe 5 with 16 lanes has 63
    };
    struct profile profile;

    switch (engine_read_flags(word_count, words, &wishes)) {
    case FLAGS_HELPED:
        return COMMAND_OK;
    case FLAGS_BAD:
        return COMMAND_USAGE;
    case FLAGS_GOOD:
        break;
    }
    if (!engine_check_numbers(&wishes) || !make_profile(&wishes, &profile)) {
        return COMMAND_USAGE;
    }
    (void)tcp_limit_raise();
    return engine_serve(&wishes, &profile);
}
