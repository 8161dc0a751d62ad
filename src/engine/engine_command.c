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

struct engine_flags {
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
    struct flag_list lora;
    uint32_t kv_events_port;
    uint32_t kv_replay_port;
    const char *kv_events_format;
    double kv_events_drop; // percent
};

#define OWNER struct engine_flags
static const struct config_option engine_flags[] = {
    RANGE(count, amount, "1", "1", "4096", "How many engines."),
    RANGE(ranks, amount, "1", "1", "64",
          "Data-parallel ranks behind each port, with a cache each."),
    FLAG(host, text, "127.0.0.1", "The address that they listen on."),
    RANGE(port, amount, "9001", "0", "65535",
          "Port of the first engine, the others follow; 0: any that are free."),
    FLAG(model, text, NULL, "A shipped model (codellama-13b), or one of the calibration file."),
    FLAG(calibration, file, NULL, "Measured step times of other models; see docs/calibration.md."),
    FLAG_LIST(lora, text, "Adapters that are served beside the model."),
    RANGE(speed, real, "1", "0.001", "1000", "How many times faster than real time."),
    RANGE(output, amount, "128", "1", "4g", "Tokens of a response when the client sets no limit."),
    FLAG(kv_tokens, real, NULL, "Tokens that the KV cache holds."),
    FLAG(block_tokens, amount, NULL, "Tokens of one block of the cache."),
    FLAG(host_tokens, real, NULL, "Tokens of a second tier of cache in host memory."),
    // PCIe 5 with 16 lanes has 63.
    RANGE(host_speed, real, "50", "0.1", "1g", "GB/s at which tokens come back from there."),
    FLAG(sequences, amount, NULL, "Most sequences in one batch."),
    FLAG(step_tokens, amount, NULL, "Most tokens in one step."),
    FLAG(context, amount, NULL, "Longest prompt and response together."),
    RANGE(kv_events_port, amount, NULL, "0", "65535",
          "Where the first engine publishes its KV events over ZeroMQ, the others follow."),
    RANGE(kv_replay_port, amount, NULL, "0", "65535", "Where it replays them, the others follow."),
    FLAG(kv_events_format, name, "vllm", "How they are written: vllm, vllm-0.22, sglang …"),
    RANGE(kv_events_drop, real, NULL, "0", "100",
          "Percent of the batches that do not reach subscribers; replays have them."),
    RANGE(threads, amount, "1", "1", "256", "Threads that share the engines."),
    FLAG(seed, amount, NULL, "Seed of the text of responses and of random faults."),
};
static const struct config_option_table engine_table = FLAG_TABLE("engine", engine_flags);
#undef OWNER

static bool engine_complain(const char *what)
{
    return command_fail("engine", what, NULL);
}

static bool has_ports(uint32_t first, uint32_t count)
{
    return first <= UINT16_MAX && (first == 0 || first + count - 1 <= UINT16_MAX);
}

static const char *format_name_at(uint32_t index)
{
    const struct kv_event_format *format = kv_event_format_at(index);
    return format != NULL ? format->name : NULL;
}

static bool engine_flags_are_good(const struct engine_flags *flags)
{
    uint32_t engines = flags->count * flags->ranks;
    if (!has_ports(flags->port, flags->count) || !has_ports(flags->kv_events_port, engines) ||
        !has_ports(flags->kv_replay_port, engines)) {
        return engine_complain("--port: there are not so many ports");
    }
    if (flags->lora.count > engine_adapter_max) {
        return engine_complain("--lora: at most 64 adapters");
    }
    return kv_event_format_find(flags->kv_events_format) != NULL ||
           command_fail_name("engine", "format of KV events", flags->kv_events_format,
                             format_name_at);
}

static bool make_profile(const struct engine_flags *flags, struct profile *out)
{
    enum { block_tokens_max = prefix_block_size_max / 4, context_max = 1 << 24 };

    const char *name = flags->model;

    if (name == NULL && flags->calibration == NULL) {
        name = "codellama-13b";
    }
    if (!calibration_file_profile("engine", flags->calibration, name, out)) {
        return false;
    }
    out->kv_tokens = flags->kv_tokens > 0 ? (uint64_t)flags->kv_tokens : out->kv_tokens;
    out->host_tokens = (uint64_t)flags->host_tokens;
    out->host_token_ms = (double)out->kv_bytes_per_token / (flags->host_speed * 1e6);
    out->block_tokens = flags->block_tokens > 0 ? flags->block_tokens : out->block_tokens;
    out->sequences_max = flags->sequences > 0 ? flags->sequences : out->sequences_max;
    out->step_tokens = flags->step_tokens > 0 ? flags->step_tokens : out->step_tokens;
    out->context_max = flags->context > 0 ? flags->context : out->context_max;
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

static void print_ranges(const struct engine_server *server, const struct engine_flags *flags,
                         const struct profile *profile)
{
    char space[2][64];
    uint32_t last = flags->count - 1;

    // Ports that the kernel chose do not follow each other.
    for (uint32_t i = 0; i<flags->count; i = flags->port> 0 ? flags->count : i + 1) {
        struct text from = text_over(space[0], sizeof(space[0]));
        struct text to = text_over(space[1], sizeof(space[1]));
        engine_server_write_address(server, i, &from);
        engine_server_write_address(server, flags->port > 0 ? last : i, &to);
        bool is_one = from.size == to.size && memcmp(space[0], space[1], from.size) == 0;
        printf("http://%.*s%s%.*s: %s, ", (int)from.size, space[0], is_one ? "" : " to http://",
               is_one ? 0 : (int)to.size, space[1], profile->name);
        if (flags->ranks > 1) {
            printf("%u ranks with ", flags->ranks);
        }
        printf("%" PRIu64 " tokens of KV cache, speed %g\n", profile->kv_tokens, flags->speed);
    }
    fflush(stdout);
}

static void engine_on_signal(void *owner, enum signal_kind kind)
{
    if (kind == SIGNAL_STOP) {
        loop_stop(owner);
    }
}

static int engine_serve(const struct engine_flags *flags, const struct profile *profile)
{
    struct engine_server_options options = {
        .host = flags->host,
        .port = (uint16_t)flags->port,
        .count = flags->count,
        .rank_count = flags->ranks,
        .thread_count = flags->threads,
        .speed = flags->speed,
        .profile = profile,
        .adapters = flags->lora.items,
        .adapter_count = flags->lora.count,
        .output_tokens = flags->output,
        .seed = flags->seed,
        .events = flags->kv_events_port > 0 ? kv_event_format_find(flags->kv_events_format) : NULL,
        .events_port = (uint16_t)flags->kv_events_port,
        .replay_port = (uint16_t)flags->kv_replay_port,
        .events_loss = flags->kv_events_drop / 100,
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
    print_ranges(server, flags, profile);
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
    struct engine_flags flags;
    struct profile profile;

    int status = flags_read(&engine_table, word_count, words, &flags);
    if (status != FLAGS_READ) {
        return status;
    }
    if (!engine_flags_are_good(&flags) || !make_profile(&flags, &profile)) {
        return COMMAND_USAGE;
    }
    (void)tcp_limit_raise();
    return engine_serve(&flags, &profile);
}
