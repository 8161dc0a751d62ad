// SPDX-License-Identifier: Apache-2.0
//
// kv_publish -- a publisher that says what it is told to on its standard input, for end-to-end
// tests.
//
//     kv_publish FORMAT TOPIC BLOCK_TOKENS BATCHES [digest]
//
// It prints "ports PUB REPLAY", and a line for each `status`.  Lines that it knows:
//
//     stored PARENT|- KEY TOKEN...      one block
//     removed KEY
//     cleared
//     flush SECONDS
//     restart
//     status

#include "base/base.h"
#include "base/slice.h"
#include "engine/kv_publisher.h"
#include "sys/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { token_count_max = 256 };

struct program {
    struct loop_source input; // first: `ready` finds us from here
    struct loop *loop;
    struct kv_publisher *publisher;
    uint32_t block_tokens;
    size_t size;
    char lines[1 << 16];
};

static void store(struct program *program, char *words)
{
    uint32_t tokens[token_count_max] = {0};
    char *end = NULL;
    bool has_parent = words[0] != '-';
    uint64_t parent = has_parent ? strtoull(words, &words, 0) : 0;
    uint64_t key = strtoull(has_parent ? words : words + 1, &end, 0);

    for (uint32_t i = 0; i < program->block_tokens; i++) {
        tokens[i] = (uint32_t)strtoul(end, &end, 0);
    }
    kv_publisher_stored(program->publisher, &(struct kv_stored){.keys = &key,
                                                                .token_ids = tokens,
                                                                .count = 1,
                                                                .has_parent = has_parent,
                                                                .parent = parent});
}

static void print_status(const struct program *program)
{
    struct kv_publisher_status status;
    kv_publisher_status(program->publisher, &status);
    printf("{\"subscribers\": %u, \"subscriptions\": %u, \"next_sequence\": %" PRIu64
           ", \"log_batches\": %u}\n",
           status.subscriber_count, status.subscription_count, status.next_sequence,
           status.log_batches);
    fflush(stdout);
}

static void obey(struct program *program, char *line)
{
    struct kv_publisher *publisher = program->publisher;
    struct slice words = slice_str(line);

    if (slice_starts_with(words, "stored ")) {
        store(program, line + 7);
    } else if (slice_starts_with(words, "removed ")) {
        kv_publisher_removed(publisher, KV_TIER_GPU, strtoull(line + 8, NULL, 0));
    } else if (slice_starts_with(words, "flush ")) {
        kv_publisher_flush(publisher, strtod(line + 6, NULL));
    } else if (slice_is(words, "cleared")) {
        kv_publisher_cleared(publisher);
    } else if (slice_is(words, "restart")) {
        kv_publisher_stop(publisher);
        ASSERT(kv_publisher_start(publisher) == STATUS_OK);
    } else if (slice_is(words, "status")) {
        print_status(program);
    } else {
        ASSERT(false);
    }
}

static void input_ready(struct loop_source *source, uint32_t events)
{
    struct program *program = (struct program *)source;
    (void)events;
    for (;;) {
        ssize_t size = read(source->fd, program->lines + program->size,
                            sizeof(program->lines) - 1 - program->size);
        if (size == -1 && errno == EAGAIN) {
            return;
        }
        if (size <= 0) {
            loop_stop(program->loop);
            return;
        }
        program->size += (size_t)size;
        program->lines[program->size] = '\0';
        char *line = program->lines;
        for (char *end = strchr(line, '\n'); end != NULL; end = strchr(line, '\n')) {
            *end = '\0';
            obey(program, line);
            line = end + 1;
        }
        program->size -= (size_t)(line - program->lines);
        memmove(program->lines, line, program->size);
    }
}

int main(int word_count, char **words)
{
    static struct program program;
    char error[kv_publisher_error_size];

    ASSERT(word_count >= 5);
    ASSERT(loop_create(&program.loop) == STATUS_OK);
    program.block_tokens = (uint32_t)strtoul(words[3], NULL, 10);
    ASSERT(program.block_tokens <= token_count_max);
    struct kv_publisher_options options = {
        .loop = program.loop,
        .host = "127.0.0.1",
        .has_replay = true,
        .format = kv_event_format_find(words[1]),
        .topic = words[2],
        .block_tokens = program.block_tokens,
        .batches_max = (uint32_t)strtoul(words[4], NULL, 10),
        .is_digest = word_count > 5,
    };
    ASSERT(options.format != NULL);
    ASSERT(kv_publisher_create(&options, &program.publisher, error) == STATUS_OK);
    struct kv_publisher_status status;
    kv_publisher_status(program.publisher, &status);
    printf("ports %u %u\n", status.port, status.replay_port);
    fflush(stdout);
    ASSERT(fcntl(0, F_SETFL, O_NONBLOCK) == 0);
    program.input = (struct loop_source){.fd = 0, .ready = input_ready};
    ASSERT(loop_add(program.loop, &program.input) == STATUS_OK);
    loop_run(program.loop, NULL, NULL);
    kv_publisher_destroy(&program.publisher);
    loop_turn(program.loop, 0);
    loop_destroy(&program.loop);
    return 0;
}
